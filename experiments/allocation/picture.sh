#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Draws picture.svg from accuracy.csv and speed.csv: what each planner does to accuracy and throughput, one group a model and memory
# limit; points are means over seeds, bars medians of rounds, whiskers their range.
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
draw picture.svg -n --rawfile accuracy "$EXPERIMENT_RESULTS/accuracy.csv" \
    --rawfile speed "$EXPERIMENT_RESULTS/speed.csv" -f "$experiment/picture.jq"
