#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# qsync-bench plan: a figure for each model and way of planning.
program=$QSYNC_BENCH
. "$(dirname "$0")/../cli/check.inc"

"$program" plan --rounds 1 --json > "$work/figures" 2> "$work/err" || {
    cat "$work/err"
    failures=$((failures + 1))
}
for name in plan_ms replan_ms replan_devices_ms predict_ms; do
    tr -d ' \n' < "$work/figures" | grep -q "\"$name\":{\"resnet50\":[0-9.]*,\"bert\":[0-9.]*,\"decoder\":[0-9.]*}" || {
        echo "no figures $name in:"
        cat "$work/figures"
        failures=$((failures + 1))
    }
done
finish
