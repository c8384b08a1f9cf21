#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Draws picture.svg from formats.csv: what each format costs against fp32, for each set and normalisation.
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
draw picture.svg -Rs -f "$experiment/picture.jq" "$EXPERIMENT_RESULTS/formats.csv"
