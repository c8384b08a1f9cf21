#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Draws picture.svg from results.csv: test accuracy over epochs, the mean over seeds of each variant.
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
draw picture.svg -Rs -f "$experiment/picture.jq" "$EXPERIMENT_RESULTS/results.csv"
