#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# ranks: 2
# A model and data of one's own: arrays of NumPy, their normalisation, another head, dropout and loss. A run keeps what it was told and evaluation
# uses it; a profile and a plan made so hold it too, and two unlike ranks train by it; contradictions are refused.
. "$(dirname "$0")/check.inc"
export QSYNC_CACHE=off
folder=$(cd "$(dirname "$0")" && pwd)

# array FILE TYPE SHAPE: a .npy file of the bytes on standard input.
array() {
    dictionary="{'descr': '$2', 'fortran_order': False, 'shape': $3, }"
    {
        printf '\223NUMPY\001\000'
        printf "\\$(printf %03o ${#dictionary})\\000%s" "$dictionary"
        cat
    } > "$1"
}

# 64 images of 4×4 greys, the half that is bright saying the class, and a number that says it again.
i=0
: > "$work/pixels"
: > "$work/classes"
: > "$work/numbers"
while [ $i -lt 64 ]; do
    dark=$((i * 5 % 37)) bright=$((200 + i * 3 % 31)) class=$((i * 7 / 3 % 2))
    half() { for _ in 1 2 3 4 5 6 7 8; do printf "\\$(printf %03o "$1")"; done; }
    if [ $class -eq 0 ]; then half $dark; half $bright; else half $bright; half $dark; fi >> "$work/pixels"
    printf "\\$(printf %03o $class)" >> "$work/classes"
    printf "\\000\\000\\$(if [ $class -eq 0 ]; then echo 200; else echo 000; fi)\\077" >> "$work/numbers" # 1.0 or 0.5
    i=$((i + 1))
done
array "$work/x.npy" '|u1' '(64, 4, 4)' < "$work/pixels"
array "$work/y.npy" '|u1' '(64,)' < "$work/classes"
array "$work/r.npy" '<f4' '(64, 1)' < "$work/numbers"

cat > "$work/net.json" << 'JSON'
{"schema": "qsync/graph/2", "name": "net", "unit": "images",
 "inputs": [{"name": "input", "type": "u8", "extents": [4, 4, 1]}],
 "target": {"kind": "class", "classes": 10},
 "operators": [
  {"name": "conv", "op": "conv2d", "inputs": ["input"], "outputs": 4, "kernel": [3, 3], "padding": [1, 1], "bias": true},
  {"name": "relu", "op": "relu", "inputs": ["conv"]},
  {"name": "flatten", "op": "flatten", "inputs": ["relu"]},
  {"name": "fc", "op": "linear", "inputs": ["flatten"], "outputs": 10, "bias": true}],
 "output": "fc"}
JSON
cd "$work"
set="npy:x.npy,y.npy,test=0.25"
small="--batch 8 --rate 0.05 --no-augmentation"

# The run holds the changed model, its data and how they were read; evaluation needs no word.
"$program" train --model net.json --head 2 --dropout 0.1 --dataset $set --mean 0.4 --deviation 0.35 --epochs 6 $small --json --out run > result 2> log ||
    fail "training failed: $(cat log)"
jq -e '.test_accuracy == 1' result > /dev/null || fail "not learned: $(cat result)"
jq -e '.job.model == "net.json+head=2+dropout=0.1" and .job.normalization == {"mean": [0.4], "deviation": [0.35]}' run/config.json > /dev/null ||
    fail "config.json does not say what ran"
jq -e '.name == "net+head=2+dropout=0.1" and .target.classes == 2 and ([.operators[] | select(.op == "dropout")] | length) == 1' run/graph.json \
    > /dev/null || fail "graph.json is not the changed model"
"$program" eval run/weights.safetensors --json > own 2> log || fail "evaluation failed: $(cat log)"
jq -e -s '(.[0].loss - .[1].test_loss | fabs) < 1e-6' own result > /dev/null || fail "evaluation of the run's weights is another: $(cat own result)"
"$program" eval run/weights.safetensors --scale 1 --json > raw 2> log || fail "evaluation failed: $(cat log)"
[ "$(jq .loss own)" != "$(jq .loss raw)" ] || fail "--scale changed nothing"

# A new head on weights that have another one; real numbers learned from the same images; a loss that is far from the output.
"$program" train --model net.json --head 3 --weights run/weights.safetensors --dataset $set --epochs 1 $small > /dev/null 2> log ||
    fail "a new head on old weights: $(cat log)"
grep -q 'fc is new, of 3 outputs: its parameters start anew' log || fail "the new head is not named: $(cat log)"
"$program" train --model net.json --head 1 --loss mse --dataset npy:x.npy,r.npy --epochs 20 $small --json > result 2> log ||
    fail "real numbers: $(cat log)"
jq -e '.test_loss < 0.06' result > /dev/null || fail "real numbers were not learned: $(cat result)"
refuse 2 'the loss of the target' train --model net.json --loss token --dataset $set
refuse 2 'no operator has a name like "conv7"' train --model net.json --dropout 0.1@conv7 --dataset $set --head 2
refuse 2 'not an integer' train --model net.json --head 2,3 --dataset $set
refuse 2 'must be one number' train --model net.json --mean a --dataset $set
refuse 2 '2 means' eval run/weights.safetensors --mean 1,2

# Profiled, planned and trained by two unlike ranks: the changes and the normalisation go along, and so does a class that no sample has.
# The planner hangs on no measured time: a model as small as this one may need more memory to be evaluated in fp32 than to be trained in int8.
cluster=$folder/cluster.json
launch profile --cluster $cluster --model net.json --head 3 --dataset $set --batch 8 --repetitions 2 --statistics-iterations 2 \
    --conversion-seconds 0.1 --out profile.json > /dev/null 2> log || fail "profile: $(cat log)"
"$program" plan --planner uniform --cluster $cluster --profile profile.json --dataset $set --scale 255 --mean 0.4 --epochs 2 --out plan.json > /dev/null 2> log ||
    fail "plan: $(cat log)"
jq -e '.job.model == "net.json+head=3" and .job.normalization == {"mean": [0.4], "scale": 255}' plan.json > /dev/null || fail "the plan's job is another"
launch train --cluster $cluster --plan plan.json --out two > /dev/null 2> log || fail "training by the plan: $(cat log)"
arena=$("$program" inspect net.json+head=3 --memory --plan plan.json --class weak --json | jq .arena_bytes)
[ "$arena" = "$(jq '.ranks[1].memory.arena.reserved' two/audit.json)" ] || fail "inspect --memory of the plan says $arena: $(cat two/audit.json)"
jq -e '.job.normalization == {"mean": [0.4], "scale": 255}' two/config.json > /dev/null || fail "the run forgot the plan's normalisation"
"$program" train --cluster $cluster --plan plan.json --head 4 > /dev/null 2> log && fail "another head than the plan's was not refused"
finish
