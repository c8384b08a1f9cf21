#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: short
# ranks: 2
# qsync landscape: two processes print the same; the middle is the loss that training goes on from, on one rank and on two; wrong questions.
# qsync train --norm-gap: a line every N steps, on two ranks as well.
. "$(dirname "$0")/check.inc"

model=resnet8:width=0.25,norm=l1bnq
"$QSYNC" inspect --json "$model" | jq '{schema: "qsync/plan/2",
    classes: {single: {operators: ([.nodes[] | select(.class == "adjustable") | {key: .name, value: "int4:shift4"}] | from_entries)}}}' > "$work/hand.json"
"$QSYNC" train --model "$model" --batch 16 --train-limit 64 --test-limit 16 --epochs 1 --seed 5 --plan "$work/hand.json" --norm-gap 2 \
    --out "$work/run" > "$work/out" 2>&1 || { cat "$work/out"; fail "train"; }
jq -es 'map(select(.type == "norm-gap")) | map(.step) == [2, 4] and all(.gap > 0 and .worst_gap >= .gap and (.worst | length) > 0)' \
    "$work/run/metrics.jsonl" > /dev/null || { cat "$work/run/metrics.jsonl"; fail "no gaps"; }

slice() { "$QSYNC" landscape "$work/run/weights.safetensors" --plan "$work/run/plan.json" --train-limit 64 --points 5 --batches 2 "$@"; }
slice --json > "$work/one.json" 2> "$work/err" || { cat "$work/err"; fail "landscape"; }
slice --json > "$work/two.json" 2> /dev/null
cmp "$work/one.json" "$work/two.json" || fail "two processes do not agree"
jq -e '.model == "resnet8:width=0.25,norm=l1bnq" and .seed == 5 and .direction == 1 and .samples == 32 and ([.points[].alpha] == [-1, -0.5, 0, 0.5, 1])
    and all(.points[]; .loss > 0 and .accuracy >= 0)' "$work/one.json" > /dev/null || { cat "$work/one.json"; fail "other figures"; }
slice > "$work/table" 2> /dev/null
[ "$(wc -l < "$work/table")" = 7 ] || { cat "$work/table"; fail "the table has not a line for each point"; }
slice --direction 2 --json 2> /dev/null | jq -e --slurpfile one "$work/one.json" '.points[2] == $one[0].points[2] and .points[0] != $one[0].points[0]' > /dev/null ||
    fail "another direction does not go through the same weights"

# goes_on RANKS CLUSTER...: a run from these weights at rate 0 sees the loss of the middle in its first two steps.
goes_on() {
    count=$1
    shift
    # shellcheck disable=SC2086
    $MPIEXEC "$count" "$QSYNC" landscape "$work/run/weights.safetensors" --plan "$work/run/plan.json" --train-limit 64 --points 3 --batches 2 --json "$@" \
        > "$work/slice.json" 2> "$work/err" || { cat "$work/err"; fail "landscape on $count ranks"; }
    # shellcheck disable=SC2086
    $MPIEXEC "$count" "$QSYNC" train --weights "$work/run/weights.safetensors" --plan "$work/run/plan.json" --train-limit 64 --test-limit 16 --max-steps 2 \
        --rate 0 --no-augmentation --epochs 1 --norm-gap 1 --out "$work/on" "$@" > "$work/out" 2>&1 || { cat "$work/out"; fail "train on $count ranks"; }
    jq -es --slurpfile slice "$work/slice.json" '(map(select(.type == "step"))[0].loss / $slice[0].points[1].loss - 1 | fabs) < 1e-8' \
        "$work/on/metrics.jsonl" > /dev/null || fail "the middle is not the loss of training on $count ranks"
    jq -es 'map(select(.type == "norm-gap" and .gap > 0)) | length == 2' "$work/on/metrics.jsonl" > /dev/null || fail "no gaps on $count ranks"
}
goes_on 1
jq -n '{schema: "qsync/cluster/2", classes: {single: {role: "training", backend: "cpu", count: 2, memory: {capacity: "1GiB"},
    formats: ["fp32", "bf16", "int8"]}}}' > "$work/cluster.json"
jq 'del(.signature)' "$work/run/plan.json" > "$work/plan.json" && mv "$work/plan.json" "$work/run/plan.json"
goes_on 2 --cluster "$work/cluster.json"

refuse 2 'landscape needs WEIGHTS' landscape
refuse 2 '8 points: an odd number' landscape "$work/run/weights.safetensors" --train-limit 64 --batch 16 --points 8
refuse 2 '9 batches: the training part has 4' landscape "$work/run/weights.safetensors" --train-limit 64 --batch 16 --batches 9
refuse 2 'range 0' landscape "$work/run/weights.safetensors" --train-limit 64 --batch 16 --range 0
refuse 2 '--norm-gap needs --out FOLDER' train --model "$model" --norm-gap 1
refuse 2 'no normalisation in 8 bits' train --model resnet8 --norm-gap 1 --out "$work/none"
finish
