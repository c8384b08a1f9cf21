#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: short
# qsync-bench norm: figures for every shape and format, and their geometric means.
program=$QSYNC_BENCH
. "$(dirname "$0")/../cli/check.inc"

"$program" norm --rounds 1 --json > "$work/figures" || failures=$((failures + 1))
jq -e '(.shapes | length) == 10 and ([.l1_over_l2, .l1q_over_l2, .l1q_with_codes_over_l2, .ln_over_l2, .l1ln_over_l2, .l1lnq_over_l2 | .forward, .backward, .both] | all(. > 0))
    and ([.shapes[].times | del(.codes_us)[] | .forward, .backward | .us, .roofline] | length == 240 and all(. > 0))
    and (([.shapes[].l1_over_l2.both | log] | add / length | exp) / .l1_over_l2.both - 1 | fabs) < 1e-6' "$work/figures" > "$work/said" || {
    echo "no figures of norms:"
    cat "$work/figures"
    failures=$((failures + 1))
}
"$program" norm --rounds 1 > "$work/table" || failures=$((failures + 1))
grep -q 'geometric means' "$work/table" || failures=$((failures + 1))
finish
