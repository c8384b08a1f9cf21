#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# landscape.csv as landscape.svg: a panel a variant, the loss along each direction.
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
draw landscape.svg -Rs -f "$experiment/landscape_picture.jq" "$EXPERIMENT_RESULTS/landscape.csv"
