#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The rows that OUT has, at any time, as results.csv and table.md.
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
: "${OUT:=run/few-bits}"
find "$OUT" -maxdepth 1 -name '*.row' -exec cat {} + | jq -sr '
    ["variant", "recipe", "ends", "shortcuts", "norm", "rate", "decay", "seed", "epochs", "training_loss", "test_accuracy", "test_loss",
     "planned_accuracy", "planned_loss", "recalibrated_accuracy", "recalibrated_planned_accuracy", "iteration_us", "seconds", "steps", "failure"] as $names
    | ($names | join(",")), (sort_by(.variant, (.seed | tonumber))[] as $row | $names | map($row[.] // "" | tostring) | join(","))' |
    publish results.csv
jq -Rsr -L "$experiment/.." -f "$experiment/table.jq" "$EXPERIMENT_RESULTS/results.csv" | publish table.md
