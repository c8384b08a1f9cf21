#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: short
# qsync inspect: a small model to the letter, JSON of a large one by its figures.
. "$(dirname "$0")/check.inc"

expect 0 inspect lenet5 --batch 4 < "$(dirname "$0")/inspect-lenet5.expected"
"$QSYNC" inspect resnet50 --json > "$work/json" || failures=$((failures + 1))
grep -q '"parameters": 25557032' "$work/json" || { echo "resnet50 without its 25557032 parameters"; failures=$((failures + 1)); }
grep -q '"adjustable": 54' "$work/json" || { echo "resnet50 without its 54 adjustable operators"; failures=$((failures + 1)); }
finish
