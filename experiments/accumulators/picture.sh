#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Losses of the runs of the first seed in curves.csv as picture.svg: a row of panels for each model and way of training, a panel an
# adder with the baseline in each.
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
draw picture.svg -n --rawfile curves "$EXPERIMENT_RESULTS/curves.csv" \
    --rawfile results "$EXPERIMENT_RESULTS/results.csv" -f "$experiment/picture.jq"
