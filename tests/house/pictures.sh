#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: short
# The pictures of docs/pictures are what their descriptions say.
sh "$QS_SOURCE/tools/pictures.sh" --check
