#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# Recomputation from the command line: under a limit that fp32 alone does not fit the planner chooses blocks, training keeps to the limit and
# learns the bits of the plan that keeps everything; plans tell what they recompute; names that are no blocks are refused.
. "$(dirname "$0")/check.inc"
quiet() { "$QSYNC" "$@" > "$work/out" 2> "$work/err" < /dev/null || fail "qsync $*: $(cat "$work/err")"; }
holds() { jq -e "$2" "$1" > "$work/verdict" || { fail "not so: $2"; jq '.classes.single | del(.operators, .kernels, .why)' "$1"; }; }

cluster() { # LIMIT
    echo "{\"schema\": \"qsync/cluster/2\", \"classes\": {\"single\": {\"role\": \"training\", \"backend\": \"ref\", \"count\": 1, \"speed\": 1, \"formats\": [\"fp32\"], \"memory\": {\"capacity\": \"1GiB\", \"limit\": \"$1\"}}}, \"links\": []}"
}
cluster 100% > "$work/ample.json"
quiet profile --cluster "$work/ample.json" --model resnet8:width=0.5 --dataset shapes --batch 8 --repetitions 2 --statistics-iterations 2 --out "$work/profile.json"
quiet plan --cluster "$work/ample.json" --profile "$work/profile.json" --planner fp32 --out "$work/kept.json"
kept=$(jq .classes.single.predicted.memory.arena "$work/kept.json")
holds "$work/kept.json" '.classes.single | has("recompute") or has("recompute_why") | not'
quiet plan --cluster "$work/ample.json" --profile "$work/profile.json" --planner fp32 --recompute all --out "$work/all.json"
least=$(jq .classes.single.predicted.memory.arena "$work/all.json")
[ "$least" -lt "$kept" ] || fail "all blocks computed again: $least bytes, $kept without"

# Half of the way between the two.
limit=$(((kept + least) / 2))
cluster "${limit}B" > "$work/tight.json"
tight="--cluster $work/tight.json --profile $work/profile.json --planner fp32"
# shellcheck disable=SC2086
{
    refuse 3 'or let blocks be computed again (--recompute auto)' plan $tight
    quiet plan $tight --recompute auto --explain --out "$work/chosen.json"
    grep -q 'recomputed (the plan is better so than without, or fits only so): .* all kept ' "$work/out" || { cat "$work/out"; fail "no reason"; }
    grep -q 'fp32, [0-9]* blocks* recomputed$' "$work/out" || { cat "$work/out"; fail "the summary does not tell"; }
    "$QSYNC" plan $tight --recompute auto --explain --json > "$work/why" || failures=$((failures + 1))
    jq -e '.classes[0].recompute | (.blocks | length > 0) and .why == "memory" and .time_us > 0 and .kept_bytes == '"$kept" "$work/why" > "$work/verdict" || fail "explanation in JSON"
    refuse 2 'recompute stem.bn: no block of model resnet8:width=0.5 begins' plan $tight --recompute stem.bn
}
holds "$work/chosen.json" ".classes.single | .recompute_why == \"memory\" and (.recompute | length > 0) and .predicted.memory.arena <= $limit and .predicted.memory.kept == $kept"
"$QSYNC" plan --diff "$work/kept.json" "$work/chosen.json" > "$work/out" 2> "$work/err"
grep -q 'recompute  *- -> ' "$work/out" || { cat "$work/out"; fail "--diff does not tell"; }
"$QSYNC" inspect resnet8:width=0.5 --memory --plan "$work/chosen.json" --backend ref > "$work/out" || failures=$((failures + 1))
grep -q 'steps are computed again; were all kept' "$work/out" || { cat "$work/out"; fail "inspect does not tell"; }
refuse 2 '--recompute: recompute fc2: no block' inspect resnet8 --memory --recompute fc2

train() { # NAME CLUSTER PLAN
    quiet train --cluster "$2" --plan "$3" --train-limit 80 --test-limit 16 --no-pinning --trace --out "$work/$1"
}
train kept "$work/ample.json" "$work/kept.json"
train chosen "$work/tight.json" "$work/chosen.json"
cmp "$work/kept/weights.safetensors" "$work/chosen/weights.safetensors" || fail "other weights"
jq -e ".ranks[0] | .reserved_bytes == .predicted_bytes and .reserved_bytes <= $limit" "$work/chosen/result.json" > "$work/verdict" || fail "another arena"
jq -e '[.traceEvents[] | select(.args.recomputed == true)] | length > 0 and all(.args.phase == "backward")' "$work/chosen/trace.json" > "$work/verdict" ||
    fail "the trace does not mark what is computed again"
"$QSYNC" report "$work/kept" "$work/chosen" > "$work/out" || failures=$((failures + 1))
grep -q 'blocks* recomputed' "$work/out" || { cat "$work/out"; fail "report does not tell"; }

# By hand, with a block that the model has not.
jq 'del(.signature, .classes.single.schedule, .classes.single.kernels, .classes.single.predicted) | .classes.single.recompute = ["stem.relu"]' "$work/kept.json" > "$work/wrong.json"
refuse 1 'the plan recomputes the block stem.relu' train --cluster "$work/ample.json" --plan "$work/wrong.json" --train-limit 16 --test-limit 0 --out "$work/wrong"
finish
