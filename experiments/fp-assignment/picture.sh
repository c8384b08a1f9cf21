#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Draws picture.svg from results.csv: test accuracy against the share of elements in low precision and against allocated bytes, a column
# a model at the width and learning rate of the full grid (FP_WIDTH, FP_RATE); means and ranges over seeds. And overflow.svg from
# overflows.csv and curves.csv: of the run of uniform-fp without promotion that ended in numbers that are not finite, else of that which
# overflowed most, the worst tensors, and the accuracy beside that of other assignments of the same model and seed.
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
: "${FP_WIDTH:=0.25}" "${FP_RATE:=0.1}"
draw picture.svg -Rs --arg width "$FP_WIDTH" --arg rate "$FP_RATE" -f "$experiment/picture.jq" "$EXPERIMENT_RESULTS/results.csv"
[ "$(grep -c ",uniform-fp,[^,]*,[^,]*,0," "$EXPERIMENT_RESULTS/overflows.csv")" -gt 0 ] || exit 0
draw overflow.svg -n --rawfile results "$EXPERIMENT_RESULTS/results.csv" --rawfile overflows "$EXPERIMENT_RESULTS/overflows.csv" \
    --rawfile curves "$EXPERIMENT_RESULTS/curves.csv" -f "$experiment/overflow.jq"
