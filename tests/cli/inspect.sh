#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: short
# qsync inspect: a small model to the letter, JSON of a large one by its figures.
. "$(dirname "$0")/check.inc"

expect 0 inspect lenet5 --batch 4 < "$(dirname "$0")/inspect-lenet5.expected"
"$QSYNC" inspect resnet50 --json > "$work/json" || failures=$((failures + 1))
grep -q '"parameters": 25557032' "$work/json" || { echo "resnet50 without its 25557032 parameters"; failures=$((failures + 1)); }
grep -q '"adjustable": 54' "$work/json" || { echo "resnet50 without its 54 adjustable operators"; failures=$((failures + 1)); }

# Blocks: resnet20's stem, its residual blocks of which five are copies, its head; every copy names the operators that correspond.
expect 0 inspect lenet5 --blocks < "$(dirname "$0")/inspect-blocks.expected"
"$QSYNC" inspect resnet20 --blocks --json > "$work/json" || failures=$((failures + 1))
jq -e '(.kinds | length) == 7 and ([.kinds[].copies[]] | length) == 11 and ([.kinds[].copies[].adjustable[]] | unique | length) == 22 and
    all(.kinds[]; (.copies | map(.adjustable | length) | unique | length) == 1)' "$work/json" > "$work/out" ||
    { echo "resnet20 in other blocks"; cat "$work/json"; failures=$((failures + 1)); }
refuse 2 'do not go together: leave one out' inspect lenet5 --memory --blocks
refuse 2 'do not go together: leave one out' inspect lenet5 --groups --blocks

# Groups: lenet5's five multiplications and the logits to the letter; in JSON, sizes add up and every tensor is in one group.
expect 0 inspect lenet5 --groups --batch 4 < "$(dirname "$0")/inspect-groups.expected"
"$QSYNC" inspect squeezenet --groups --batch 8 --json > "$work/json" || failures=$((failures + 1))
jq -e '(.groups | length) == 19 and ([.groups[].elements] | add) == .elements and ([.groups[].demotable] | add) == .demotable and
    ([.groups[].share] | add - 1 | fabs) < 1e-9 and ([.groups[].tensors[].name] | length == (unique | length)) and
    all(.groups[]; .elements == ([.tensors[] | .elements + .gradient_elements] | add)) and
    (.groups[2].tensors | map(.name) | contains(["fire2.expand1.conv.weights", "fire2.expand3.conv.weights"]))' "$work/json" \
    > "$work/out" || { echo "squeezenet in other groups"; cat "$work/json"; failures=$((failures + 1)); }

# Memory by the kernels of ref, which every build has: to the letter. Categories are what lives at the peak, and less precision is less memory.
expect 0 inspect lenet5 --memory --batch 4 --backend ref < "$(dirname "$0")/inspect-memory.expected"
memory() { "$QSYNC" inspect resnet8 --memory --batch 16 --backend ref --json "$@"; }
for recipe in fp32 bf16 int8/bf16; do
    memory --recipe $recipe > "$work/json" || failures=$((failures + 1))
    jq -e '([.categories[].bytes] | add) == .live_bytes and .live_bytes <= .arena_bytes and .persistent_bytes < .arena_bytes and
        ([.categories[].persistent_bytes] | add) == .persistent_bytes and (.largest | length) == 10' "$work/json" > "$work/out" ||
        { echo "memory under $recipe does not add up"; cat "$work/json"; failures=$((failures + 1)); }
    jq .arena_bytes "$work/json" >> "$work/arenas"
done
sort -n -r -c "$work/arenas" || { echo "less precision takes more memory"; cat "$work/arenas"; failures=$((failures + 1)); }
# Formats of a plan's tensors count as they are stored: every output in 8 bits takes less than half of what fp32 saves.
"$QSYNC" inspect resnet8 --json | jq '{schema: "qsync/plan/2", classes: {single: {operators: {}, tensors: ([.nodes[].name
    | select(. != "flatten" and . != "loss") | {key: ., value: {value: "fp(4,3,4)", saved: "fp(4,3,4)"}}] | from_entries)}}}' > "$work/plan.json"
memory --recipe fp32 > "$work/fp32"
"$QSYNC" inspect resnet8 --memory --batch 16 --backend ref --plan "$work/plan.json" --json > "$work/low" || failures=$((failures + 1))
jq -se '.[0].arena_bytes < .[1].arena_bytes and (map(.categories["saved activations"].bytes) | .[0] * 2 < .[1])' \
    "$work/low" "$work/fp32" > "$work/out" || { echo "low formats save too little"; cat "$work/low"; failures=$((failures + 1)); }
refuse 2 '--recipe needs --memory' inspect lenet5 --recipe bf16
refuse 2 'do not go together: leave one out' inspect lenet5 --memory --recipe bf16 --plan plan.json
refuse 2 '--class needs --plan FILE' inspect lenet5 --memory --class weak
refuse 2 'no recipe "int4"' inspect lenet5 --memory --recipe int4
refuse 2 "device backend 'gpu'" inspect lenet5 --memory --backend gpu
echo '{"schema": "qsync/plan/2", "classes": {"single": {"operators": {"fc9": "bf16"}}}}' > "$work/plan.json"
refuse 1 'fc9' inspect lenet5 --memory --plan "$work/plan.json"
refuse 2 'no class strong' inspect lenet5 --memory --plan "$work/plan.json" --class strong
finish
