#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gap.csv as gap.svg: the gap over training steps, mean over operators and seeds, and dashed the part of it that means and spreads make.
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
draw gap.svg -Rs -f "$experiment/gap_picture.jq" "$EXPERIMENT_RESULTS/gap.csv"
