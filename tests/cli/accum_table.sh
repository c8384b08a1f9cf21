#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: short
# The table of models in docs/accumulators.md is what the program says, row by row.
. "$(dirname "$0")/check.inc"
docs=$(dirname "$0")/../../docs

for model in resnet18 alexnet resnet20; do
    "$QSYNC" accum $model --batch 256 --json | jq -r -f "$docs/accumulators.jq"
done > "$work/said"
grep -E '^\| (resnet18|alexnet|resnet20) \|' "$docs/accumulators.md" > "$work/written"
[ -s "$work/said" ] && diff -u "$work/written" "$work/said" || {
    echo "docs/accumulators.md has other rows (-) than the program gives (+)"
    failures=$((failures + 1))
}
finish
