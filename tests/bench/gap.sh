#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# qsync-bench gap: planner qsync beside the proven optimum of 60 random models of up to 12 operators, every other one with a memory limit.
program=$QSYNC_BENCH
. "$(dirname "$0")/../cli/check.inc"

"$program" gap --json > "$work/figures" 2> "$work/err" || fail "gap: $(cat "$work/err")"
jq -e '.gap | .median == 0 and .worst <= 5 and .refused == 0 and .scenes + .infeasible == 60 and 2 * .nontrivial > .scenes' \
    "$work/figures" > /dev/null || fail "not near the optimum: $(cat "$work/figures")"
finish
