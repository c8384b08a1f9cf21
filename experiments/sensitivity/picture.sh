#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Draws picture.svg from results.csv: accuracy of the plans that each indicator makes against the gradient noise that they add (by the qsync
# indicator), a point a seed.
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
draw picture.svg -Rs -f "$experiment/picture.jq" "$EXPERIMENT_RESULTS/results.csv"
