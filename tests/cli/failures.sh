#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# ranks: 2
# Runs that fail by their numbers, on one rank and on two: exit code 4, what failed and where, and records that are complete.
. "$(dirname "$0")/check.inc"

alone() { "$QSYNC" "$@"; }

cluster() { # RANKS BACKEND
    echo "{\"schema\": \"qsync/cluster/2\", \"classes\": {\"single\": {\"role\": \"training\", \"backend\": \"$2\", \"count\": $1, \"speed\": 1, \"formats\": [\"fp32\"], \"memory\": {\"capacity\": \"1GiB\", \"limit\": \"100%\"}}}, \"links\": []}"
}
cluster 1 ref > "$work/alone.json"
cluster 2 ref > "$work/launch.json"
plan() { echo "{\"schema\": \"qsync/plan/2\", \"classes\": {\"single\": {\"operators\": {}, \"tensors\": {\"fc1\": {\"gradient\": \"$1:overflow=inf\"}}}}}"; }
plan 'fp(2,1,8)' > "$work/gradient.json"
plan 'fp(2,1,30)' > "$work/skipping.json"

# ends HOW STEP REASON TENSOR TEXT OPTIONS...: exit code 4, TEXT in the message, the last line of the metrics, the other records.
ends() {
    how=$1 step=$2 reason=$3 tensor=$4 text=$5
    shift 5
    rm -rf "$work/run"
    $how train --cluster "$work/$how.json" --model lenet5 --dataset shapes --batch 8 --no-pinning --warmup-epochs 0 --train-limit 320 --test-limit 16 \
        --out "$work/run" "$@" > "$work/out" 2> "$work/err"
    code=$?
    [ $code -eq 4 ] || { cat "$work/err"; fail "$how $reason: exit code $code, expected 4"; }
    grep -q "$text" "$work/err" || { cat "$work/err"; fail "$how $reason: no \"$text\""; }
    tail -1 "$work/run/metrics.jsonl" > "$work/last"
    jq -e ".type == \"failure\" and .reason == \"$reason\" and .tensor == $tensor and ($step == 0 or .step == $step)" "$work/last" > "$work/verdict" ||
        { cat "$work/last"; fail "$how $reason: another last line"; }
    for name in config plan timing audit; do
        jq -e . "$work/run/$name.json" > "$work/verdict" || fail "$how $reason: $name.json is missing"
    done
    [ ! -e "$work/run/result.json" ] && [ ! -e "$work/run/weights.safetensors" ] || fail "$how $reason: a result that is none"
}

for how in alone launch; do
    ends $how 0 loss '(.tensor | strings)' 'the training loss is not finite in step [0-9]*: operator [a-z0-9]*, tensor ' --rate 1e30
    ends $how 1 gradient '"gradient of fc1"' 'a gradient is not finite in step 1: operator fc1, tensor gradient of fc1 ' \
        --plan "$work/gradient.json" --loss-scaling 65536
    ends $how 5 skipping '"gradient of fc1"' 'not finite in 5 steps in a row, up to step 5; .*operator fc1, tensor gradient of fc1 ' \
        --plan "$work/skipping.json" --loss-scaling dynamic --skip-limit 5
    ends $how 1 gradient '"gradient of fc1"' 'a gradient is not finite in step 1' --plan "$work/gradient.json" --loss-scaling 65536 --max-steps 1
    ends $how 10 divergence '(.tensor | select(startswith("gradient of ") and endswith(".weights")))' \
        'training diverged: its loss is .* in the steps up to 10, more than 10 times the 2.*look first at operator [a-z0-9]*, tensor gradient of ' \
        --rate 4 --diverged-at 10
    ends $how 1 test-loss '(.tensor | strings)' 'the test loss is not finite after step 1: operator [a-z0-9]*, tensor ' --rate 1e30 --max-steps 1
done

# ---- Where the host does not see the gradients: the device looks at them, or they are staged for their sum
cluster 1 far > "$work/alone.json"
cluster 2 far > "$work/launch.json"
for how in alone launch; do
    ends $how 1 gradient '"gradient of fc1"' 'a gradient is not finite in step 1: operator fc1, tensor gradient of fc1 ' \
        --plan "$work/gradient.json" --loss-scaling 65536
done

refuse 2 '--skip-limit 0: must be at least 1' train --model lenet5 --dataset shapes --skip-limit 0
refuse 2 '--scale-growth 0: must be at least 1' train --model lenet5 --dataset shapes --scale-growth 0
refuse 2 '--diverged-at 0.5' train --model lenet5 --dataset shapes --diverged-at 0.5
finish
