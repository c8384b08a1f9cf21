#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: short
# qsync-bench attention: figures for every shape and format; scratch of attention in blocks is linear in the positions.
program=$QSYNC_BENCH
. "$(dirname "$0")/../cli/check.inc"

"$program" attention --rounds 1 --json > "$work/figures" || failures=$((failures + 1))
jq -e '(.shapes | length) == 10 and ([.shapes[].fused | .forward, .backward | .us] | all(. > 0))
    and (.shapes as $all | ["fp32", "bf16"] | all(. as $format | ["forward", "backward"] | all(. as $pass
        | $all["base.512." + $format].fused[$pass].scratch_bytes as $half
        | $all["base.1024." + $format].fused[$pass].scratch_bytes | . > $half and . <= 2 * $half)))' "$work/figures" > "$work/said" || {
    echo "no figures of attention, or scratch that is not linear:"
    cat "$work/figures"
    failures=$((failures + 1))
}
"$program" attention --rounds 1 > "$work/table" || failures=$((failures + 1))
grep -q 'gpt2.1024 bf16' "$work/table" || failures=$((failures + 1))
finish
