#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# ranks: 2
# A user's model from its ONNX file: what import says and writes, that every verb takes the file itself, that a run starts from the file's
# weights, and that what was trained lies under the names of the file.
. "$(dirname "$0")/check.inc"
folder=$(cd "$(dirname "$0")" && pwd)
models=${QS_TEST_SHARED:-none}/data/onnx/models
[ -f "$models/mnist-cntk-opset8/mnist.onnx" ] || exit 77
cp "$models/mnist-cntk-opset8/mnist.onnx" "$work/mnist.onnx"
cd "$work" || exit 1

"$QSYNC" import mnist.onnx --out made > summary 2> err || { cat err; fail "import"; }
grep -q "^ *2  Conv  *conv2d" summary || { cat summary; fail "the summary does not say what became of Conv"; }
grep -q "^trained: 5994 numbers" summary || { cat summary; fail "the summary does not say what is trained"; }
"$QSYNC" import mnist.onnx --json > summary.json 2> err || { cat err; fail "import --json"; }
[ "$(jq '.trained' summary.json)" = 5994 ] || fail "trained: $(jq .trained summary.json)"
[ "$(jq -r '[.tensors[].file] | sort | join(" ")' summary.json)" = "Parameter193 Parameter194 Parameter5 Parameter6 Parameter87 Parameter88" ] ||
    { jq .tensors summary.json; fail "names of tensors"; }

# The file, and what was written of it, are one model.
"$QSYNC" inspect mnist.onnx --json > a 2> err && "$QSYNC" inspect made/graph.json --json > b 2> err || { cat err; fail "inspect"; }
[ "$(jq -r .signature a)" = "$(jq -r .signature b)" ] || fail "the file and its graph.json have two signatures"
"$QSYNC" inspect made/weights.safetensors > out || fail "inspect of the weights"
grep -q Parameter193 out || { cat out; fail "the weights do not have the names of the file"; }

# Bad input: one line, and nothing written.
refused() {
    text=$1
    shift
    "$QSYNC" "$@" > out 2> err && fail "$*: not refused"
    [ "$(wc -l < err)" -eq 1 ] || { cat err; fail "$*: not one line"; }
    grep -q "$text" err || { cat err; fail "$*: does not say \"$text\""; }
}
head -c 9000 mnist.onnx > cut.onnx
refused "cut.onnx" import cut.onnx --out none
[ -e none ] && fail "a refused import left a folder"
refused "no-such.onnx" import no-such.onnx
refused "outputs are" import mnist.onnx:output=other
refused "whole number" import mnist.onnx:length=x
refused "no option" import mnist.onnx:length

# Right answers as its authors say, on the test set of MNIST: the one takes bytes as they are, the other normalises them.
if [ -d "$QS_TEST_SHARED/data/mnist" ]; then
    reaches() {
        "$QSYNC" eval "$1" --dataset mnist --data "$QS_TEST_SHARED/data" $3 --json > out 2> err || { cat err; fail "eval $1"; }
        jq -e ".accuracy >= $2" out > /dev/null || { cat out; fail "eval $1: below $2"; }
    }
    reaches mnist.onnx 0.9885 "--scale 1 --mean 0 --deviation 1"
    cp "$models/mnist-onnxmlir-opset13.onnx" mlp.onnx
    reaches mlp.onnx 0.9245 "--mean 0.1307 --deviation 0.3081"
fi

# A transformer of images, trained by two unlike ranks under a mixed plan: it starts from the file's weights, its loss falls, and what was
# trained lies under the names of the file.
cp "$folder/../golden/onnx/vit.onnx" vit.onnx
job="--dataset shapes --batch 16"
launch profile --cluster "$folder/cluster.json" --model vit.onnx $job --repetitions 3 --statistics-iterations 3 --out vit.profile > out 2> err ||
    { cat err; fail "profile"; }
"$QSYNC" plan --cluster "$folder/cluster.json" --profile vit.profile $job --epochs 1 --out vit.plan > out 2> err || { cat err; fail "plan"; }
launch train --cluster "$folder/cluster.json" --plan vit.plan --rate 0.1 --epochs 4 --train-limit 640 --test-limit 100 --out run > out 2> err ||
    { cat err; fail "train"; }
jq -e '[.. | .start_weights? // empty] == ["vit.onnx"]' run/config.json > /dev/null || { jq . run/config.json; fail "the run did not start from the file's weights"; }
jq -s -e '[.[] | select(.type == "epoch") | .training_loss] | .[-1] < .[0]' run/metrics.jsonl > /dev/null || { cat run/metrics.jsonl; fail "the loss does not fall"; }
"$QSYNC" import vit.onnx --out vit > out 2> err || { cat err; fail "import"; }
names() { "$QSYNC" inspect "$1" --json | jq -c '[.tensors[] | [.name, .shape]] | sort'; }
[ "$(names run/weights.safetensors)" = "$(names vit/weights.safetensors)" ] || fail "what was trained has other names"
names run/weights.safetensors | grep -q '"encoder.layers.encoder_layer_0.self_attention.out_proj.weight",\[16,16\]' || fail "names of the weights"
cmp -s run/graph.json vit/graph.json || fail "the run folder has another graph"

# A rank that has no such file gets model and weights of the first: the same run, the same evaluation.
mkdir there
few="--cluster $folder/cluster.json --plan $work/vit.plan --rate 0.1 --max-steps 2 --train-limit 64 --test-limit 32"
# shellcheck disable=SC2086
apart "$work/there" train $few --out apart > out 2> err || { cat err; fail "train without the file on one rank"; }
# shellcheck disable=SC2086
launch train $few --out both > out 2> err || { cat err; fail "train with the file on both ranks"; }
[ "$(jq -r .weights_hash apart/result.json)" = "$(jq -r .weights_hash both/result.json)" ] || fail "a rank without the file trained something else"
apart "$work/there" eval vit.onnx --cluster "$folder/cluster.json" --dataset shapes --batch 16 --test-limit 32 --json > out 2> err || { cat err; fail "eval without the file on one rank"; }
"$QSYNC" eval vit.onnx --dataset shapes --batch 16 --test-limit 32 --json > alone 2> err || { cat err; fail "eval"; }
[ "$(jq .accuracy out)" = "$(jq .accuracy alone)" ] || { cat out alone; fail "eval without the file on one rank says something else"; }

# A new head, by the same words as for any model.
"$QSYNC" train --model vit.onnx --head 10 --dataset shapes --batch 16 --max-steps 2 --train-limit 64 --test-limit 16 --out head > out 2> err ||
    { cat err; fail "train --head"; }
finish
