#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# qsync export: a run's folder, and weights with their model, as ONNX files; what is wrong is told in one line and leaves no file.
. "$(dirname "$0")/check.inc"

"$QSYNC" train --model lenet5 --dataset shapes --train-limit 128 --test-limit 64 --batch 16 --epochs 1 --out "$work/run" > "$work/out" 2> "$work/err" ||
    { cat "$work/err"; fail "train"; }

# exported NAME ARGUMENTS...: prints what jq finds in the summary.
exported() {
    name=$1
    filter=$2
    shift 2
    "$QSYNC" export "$@" --out "$work/$name.onnx" --json > "$work/$name.json" 2> "$work/err" || { cat "$work/err"; fail "export $name"; }
    jq -e "$filter" "$work/$name.json" > /dev/null || { cat "$work/$name.json"; fail "$name: the summary is not as expected"; }
    [ "$(jq .bytes "$work/$name.json")" -eq "$(cat "$work/$name.onnx"* | wc -c)" ] || fail "$name: the summary says another size"
}
exported plain '.opset == 17 and .ir_version == 8 and .integer == 0 and .class == ""' "$work/run"
exported again '.opset == 17' --model lenet5 --weights "$work/run/weights.safetensors" --dataset shapes
cmp "$work/plain.onnx" "$work/again.onnx" || fail "the run and its weights are exported otherwise"
exported later '.opset == 21 and .ir_version == 10' "$work/run" --opset 21
exported apart '.opset == 17' "$work/run" --external
[ -s "$work/apart.onnx.data" ] || fail "--external: no file of values"
exported whole '.opset == 17' "$work/run" --normalise --form training
grep -q 'conv1.weight' "$work/plain.onnx" || fail "initializers have other names than weights"
"$QSYNC" export "$work/run" --out "$work/plain.onnx" > "$work/out" 2> "$work/err" || fail "export in words"
grep -q 'lenet5, .* nodes, opset 17' "$work/out" || { cat "$work/out"; fail "the summary in words"; }

refused() { # MESSAGE ARGUMENTS...
    message=$1
    shift
    "$QSYNC" export --out "$work/refused.onnx" "$@" > "$work/out" 2> "$work/err" && fail "export $*: was taken"
    grep -q -- "$message" "$work/err" || { cat "$work/err"; fail "export $*: the message does not say: $message"; }
    [ "$(wc -l < "$work/err")" -eq 1 ] || { cat "$work/err"; fail "export $*: more than one line"; }
    [ ! -e "$work/refused.onnx" ] || fail "export $*: a file was left"
}
refused "export needs a run's folder" --model lenet5
refused 'opset 16: 17 to 23' "$work/run" --opset 16
refused 'opset 24: 17 to 23' "$work/run" --opset 24
refused '--form double: inference or training' "$work/run" --form double
refused 'fold in the inference form only' "$work/run" --form training --fold
refused 'has no such class' "$work/run" --class nobody
refused 'weights.safetensors' "$work/nowhere"
refused 'needs --dataset' --model lenet5 --weights "$work/run/weights.safetensors" --normalise
printf 'no weights' > "$work/bad.safetensors"
refused 'bad.safetensors' --model lenet5 --weights "$work/bad.safetensors"
"$QSYNC" export "$work/run" --out "$work/none/model.onnx" > "$work/out" 2> "$work/err" && fail "a folder that is not there was written to"
finish
