#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# ranks: 2
# A folder of photographs is a set like any other: trained by one and two ranks, with the same bits for any number of threads that decode,
# profiled, planned for and trained by the plan. A broken photograph is named and ends the run.
set -u
. "$QS_SOURCE/tests/cli/check.inc"
photographs=${QS_TEST_SHARED:-none}/images/clothing10
[ -d "$photographs" ] || photographs=${QS_TEST_SHARED:-none}/data/images/clothing10
[ -d "$photographs" ] || { echo "no photographs at hand"; exit 77; }
job="--model resnet8:width=0.5 --dataset folder:clothing10,size=32 --batch 16 --seed 3"
export QSYNC_DATA="${photographs%/*}"

# shellcheck disable=SC2086
for threads in 1 2; do
    "$QSYNC" train $job --epochs 1 --max-steps 1 --threads $threads --out "$work/threads$threads" > "$work/log" 2>&1 || fail "train: $(cat "$work/log")"
done
# Sums depend on the number of threads, images do not: the first step's loss is of the same images under the same weights.
first() { jq -s "map(select(.type == \"step\"))[0].loss" "$work/threads$1/metrics.jsonl"; }
jq -n --argjson one "$(first 1)" --argjson two "$(first 2)" '($one - $two | fabs) < 1e-5 * $one' -e > /dev/null \
    || fail "first losses: $(first 1) by one thread, $(first 2) by two"
jq -es 'map(select(.test_accuracy != null)) | length > 0 and all(.[]; .test_accuracy * 80 | (. - round) | fabs < 1e-6)' \
    "$work/threads1/metrics.jsonl" > "$work/jq" || fail "accuracy over 80 photographs: $(cat "$work/threads1/metrics.jsonl")"

for count in 1 2; do
    [ $count -eq 1 ] && file=one.json || file=two.json
    cat > "$work/$file" <<EOF
{"schema": "qsync/cluster/2", "classes": {"all": {"role": "inference", "backend": "cpu", "speed": 1, "memory": {"capacity": "2GiB", "limit": "100%"}, "formats": ["fp32", "int8"], "storage": ["fp32", "int8"], "count": $count}}}
EOF
done
# shellcheck disable=SC2086
launch train $job --cluster "$work/two.json" --epochs 1 --max-steps 4 --out "$work/ranks" > "$work/log" 2>&1 || fail "two ranks: $(tail -3 "$work/log")"
# shellcheck disable=SC2086
"$QSYNC" profile $job --cluster "$work/one.json" --out "$work/profile.json" > "$work/log" 2>&1 || fail "profile: $(cat "$work/log")"
# shellcheck disable=SC2086
"$QSYNC" plan $job --cluster "$work/one.json" --profile "$work/profile.json" --planner uniform --out "$work/plan.json" > "$work/log" 2>&1 \
    || fail "plan: $(cat "$work/log")"
# shellcheck disable=SC2086
"$QSYNC" train $job --cluster "$work/one.json" --plan "$work/plan.json" --epochs 1 --max-steps 3 --out "$work/planned" > "$work/log" 2>&1 \
    || fail "the plan's run: $(cat "$work/log")"

cp -r "$photographs" "$work/broken"
chmod -R u+w "$work/broken"
for file in "$work"/broken/train/hat/*.jpg; do
    head -c 3000 "$file" > "$work/cut"
    cp "$work/cut" "$file"
done
refuse 1 train/hat/ train --model resnet8:width=0.5 --dataset "folder:$work/broken,size=32" --batch 64 --epochs 1 --out "$work/run"
QSYNC_DATA= refuse 1 'nowhere: no folder train' train --model resnet8 --dataset folder:nowhere --data "$work" --out "$work/run"
finish
