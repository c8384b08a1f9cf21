#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# Integers below 8 bits from the cluster file to a run: profiled, planned where nothing wider fits, trained in the memory that was predicted.
. "$(dirname "$0")/check.inc"
quiet() { "$QSYNC" "$@" > "$work/out" 2> "$work/err" < /dev/null || fail "qsync $*: $(cat "$work/err")"; }

"$QSYNC" devices --json | jq -e '.devices[] | select(.backend == "cpu").formats | index("bf16") and index("int8")' > "$work/out" || exit 77

cluster() { # FORMATS LIMIT
    echo "{\"schema\": \"qsync/cluster/2\", \"classes\": {\"single\": {\"role\": \"inference\", \"backend\": \"cpu\", \"formats\": [$1],
        \"memory\": {\"capacity\": \"1GiB\", \"limit\": \"$2\"}}}}"
}
arena() { "$QSYNC" inspect resnet8 --batch 16 --memory --recipe "$1" --json | jq .arena_bytes; }
wide='"fp32", "bf16", "int8"'
limit=$((($(arena int8/bf16) + $(arena int6:shift4)) / 2))
cluster "$wide, \"int6\", \"int4\"" "${limit}B" > "$work/cluster.json"
cluster "$wide" "${limit}B" > "$work/wide.json"

quiet profile --cluster "$work/cluster.json" --model resnet8 --dataset shapes --batch 16 --repetitions 2 --statistics-iterations 2 \
    --conversion-seconds 0.1 --out "$work/profile.json"
refuse 3 'MiB' plan --cluster "$work/wide.json" --profile "$work/profile.json"
for planner in uniform qsync; do
    quiet plan --cluster "$work/cluster.json" --profile "$work/profile.json" --planner $planner --out "$work/plan.json"
    jq -e --argjson limit "$limit" '.classes.single | ([.operators[] | select(. == "int4:shift4" or . == "int6:shift4")] | length) > 0
        and .predicted.memory.arena <= $limit' "$work/plan.json" > "$work/out" || { jq .classes.single.operators "$work/plan.json"; fail "$planner: none"; }
    quiet train --cluster "$work/cluster.json" --plan "$work/plan.json" --max-steps 2 --train-limit 32 --test-limit 16 --no-pinning --out "$work/$planner"
    jq -e --argjson predicted "$(jq .classes.single.predicted.memory.arena "$work/plan.json")" \
        '.ranks[0] | .reserved_bytes == .predicted_bytes and .reserved_bytes == $predicted' "$work/$planner/result.json" > "$work/out" ||
        { cat "$work/$planner/result.json"; fail "$planner: another arena than predicted"; }
done
finish
