#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Draws picture.svg from results.csv: pooled rank correlation with the ground truth per indicator and convention, one group of bars a model
# (mean over seeds, truth after 20 iterations).
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
draw picture.svg -Rs -f "$experiment/picture.jq" "$EXPERIMENT_RESULTS/results.csv"
