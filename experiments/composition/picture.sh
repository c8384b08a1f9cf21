#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Draws picture.svg from results.csv: what every operator costs alone in each recipe, by kernels (cpt) and conversions of the forward
# (cvt) and backward pass (bp), in per cent of its cost in the first recipe; a panel a model.
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
draw picture.svg -Rs -f "$experiment/picture.jq" "$EXPERIMENT_RESULTS/results.csv"
