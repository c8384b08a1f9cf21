#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# ranks: 2
# A classifier of texts by an LSTM of two layers and both directions, as PyTorch exports it: two unlike ranks train it under a plan with the
# products of its inputs and of its states in 8 bits, its loss falls, a run that was stopped goes on with the same bits, what was trained has
# PyTorch's names, and what is exported is imported as the same model again.
. "$(dirname "$0")/check.inc"
export QSYNC_CACHE=off
folder=$(cd "$(dirname "$0")" && pwd)
cp "$folder/../golden/onnx/lstm.onnx" "$work/lstm.onnx"
cd "$work" || exit 1

# array FILE SHAPE: a .npy file of the bytes on standard input.
array() {
    dictionary="{'descr': '|u1', 'fortran_order': False, 'shape': $2, }"
    {
        printf '\223NUMPY\001\000'
        printf "\\$(printf %03o ${#dictionary})\\000%s" "$dictionary"
        cat
    } > "$1"
}
# 320 sequences of 8 ids; three of a sequence say its class.
bytes() { awk "BEGIN { for (i = 0; i < 320; i++) $1 }" | while read -r line; do printf "$line"; done; }
bytes '{ for (p = 0; p < 8; p++) printf "\\%03o", p % 3 ? 5 + (i * 7 + p * 5) % 13 : 18 + i * 3 % 5; print "" }' | array x.npy '(320, 8)'
bytes '{ printf "\\%03o\n", i * 3 % 5 }' | array y.npy '(320,)'
job="--dataset npy:x.npy,y.npy,test=0.2 --batch 16 --optimizer adam"

launch profile --cluster "$folder/cluster.json" --model lstm.onnx $job --repetitions 2 --statistics-iterations 2 --out profile.json > out 2> err ||
    { cat err; fail "profile"; }
"$QSYNC" plan --cluster "$folder/cluster.json" --profile profile.json $job --out plan.json > out 2> err || { cat err; fail "plan"; }
jq -e '.classes.weak.predicted.iteration_us > 0' plan.json > /dev/null || { cat plan.json; fail "the plan predicts no step"; }

# The weak rank's products in 8 bits: of each layer and direction that of its input and that of its states, and the last.
"$QSYNC" inspect lstm.onnx --json | jq '{schema: "qsync/plan/2", classes: {big: {operators: {}}, weak: {operators: ([.nodes[] |
    select(.class == "adjustable") | {key: .name, value: "int8/bf16"}] | from_entries)}}}' > mixed.json
[ "$(jq '.classes.weak.operators | length' mixed.json)" = 9 ] || { cat mixed.json; fail "not nine products"; }
run() { # FOLDER ARGUMENTS...: two ranks
    name=$1
    shift
    launch train --cluster "$folder/cluster.json" --model lstm.onnx $job --rate 0.02 --epochs 10 --out "$name" "$@" > out 2> err ||
        { cat err; fail "train $name"; }
}
run whole --plan mixed.json
run half --plan mixed.json --max-steps 20 --checkpoint-every 1
run rest --plan half/plan.json --resume half/state.qsync
jq -s -e '[.[] | select(.type == "epoch") | .training_loss] | .[-1] < 0.8 * .[0]' whole/metrics.jsonl > /dev/null ||
    { cat whole/metrics.jsonl; fail "the loss does not fall"; }
cmp whole/weights.safetensors rest/weights.safetensors || fail "a run that was stopped has other bits"
"$QSYNC" inspect whole/weights.safetensors > out || fail "inspect"
grep -q 'model.net.weight_hh_l1_reverse' out || { cat out; fail "the weights do not have PyTorch's names"; }

"$QSYNC" export whole --class big --out back.onnx > out 2> err || { cat err; fail "export"; }
"$QSYNC" import back.onnx > out 2> err || { cat err; fail "import of what was exported"; }
grep -q '4  LSTM' out || { cat out; fail "no LSTM for each layer and direction"; }
"$QSYNC" import back.onnx --out made > out 2> err || { cat err; fail "import --out"; }
names() { "$QSYNC" inspect "$1" --json | jq -c '[.tensors[] | [.name, .shape]] | sort'; }
[ "$(names made/weights.safetensors)" = "$(names whole/weights.safetensors)" ] || { names made/weights.safetensors; fail "names of the exported file"; }
loss() { "$QSYNC" eval "$@" --dataset npy:x.npy,y.npy,test=0.2 --json 2> err | jq .loss; }
[ "$(loss whole/weights.safetensors)" = "$(loss back.onnx)" ] || { cat err; loss whole/weights.safetensors; loss back.onnx; fail "the exported model is another one"; }
finish
