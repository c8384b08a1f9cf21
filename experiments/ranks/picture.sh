#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Draws picture.svg from results.csv: the rank of every operator over iterations, a line an operator, a panel a model.
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
draw picture.svg -Rs -f "$experiment/picture.jq" "$EXPERIMENT_RESULTS/results.csv"
