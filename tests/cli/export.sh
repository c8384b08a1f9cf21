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
# Constants, as imported models have them, are exported as other weights are.
"$QSYNC" inspect lenet5 --input 3x32x32 --graph "$work/lenet5.json" > "$work/out" || fail "inspect --graph"
jq 'del(.signature, .tensors) | (.operators[] | select(.name == "fc1")).parameters.weights = {constant: true}' "$work/lenet5.json" > "$work/frozen.json"
exported constant '.opset == 17' --model "$work/frozen.json" --weights "$work/run/weights.safetensors"
cmp "$work/plain.onnx" "$work/constant.onnx" || fail "a model with constants is exported otherwise"
grep -q 'conv1.weight' "$work/plain.onnx" || fail "initializers have other names than weights"
"$QSYNC" export "$work/run" --out "$work/plain.onnx" > "$work/out" 2> "$work/err" || fail "export in words"
grep -q 'lenet5, .* nodes, opset 17' "$work/out" || { cat "$work/out"; fail "the summary in words"; }

# In the formats of a plan: every operator in one recipe.
planned() { # RECIPE
    "$QSYNC" inspect lenet5 --json | jq --arg recipe "$1" '{schema: "qsync/plan/2", classes: {single: {operators: ([.nodes[] |
        select(.class == "adjustable") | {key: .name, value: $recipe}] | from_entries)}}}' > "$work/plan.json"
}
planned int8/bf16
exported integers '.opset == 17 and .integer == 5 and .half == 0 and .class == "single"' "$work/run" --plan "$work/plan.json" --dataset shapes --samples 64
exported plain_again '.integer == 0 and .class == ""' "$work/run" --fp32
cmp "$work/plain.onnx" "$work/plain_again.onnx" || fail "--fp32 is not what a plan of fp32 gives"
"$QSYNC" eval "$work/run/weights.safetensors" --dataset shapes --test-limit 64 --plan "$work/plan.json" --json > "$work/out" || fail "eval --plan"
jq -e '.samples == 64 and .loss > 0' "$work/out" > /dev/null || { cat "$work/out"; fail "eval --plan: what it found"; }
"$QSYNC" eval "$work/run/weights.safetensors" --model "$work/frozen.json" --dataset shapes --test-limit 64 --plan "$work/plan.json" --json \
    > "$work/again" || fail "eval --plan of a model with constants"
cmp "$work/out" "$work/again" || fail "eval --plan: constants are not weights of the model"
# Where one class computes otherwise than in fp32, eval and export both mean that one; of several, both want to be told.
jq '.classes = {plain: {operators: (.classes.single.operators | map_values("fp32"))}, reduced: .classes.single}' "$work/plan.json" > "$work/two.json"
"$QSYNC" eval "$work/run/weights.safetensors" --dataset shapes --test-limit 64 --plan "$work/two.json" --json > "$work/again" || fail "eval --plan of two classes"
cmp "$work/out" "$work/again" || fail "eval --plan takes another class than that with formats"
exported of_two '.integer == 5 and .class == "reduced"' "$work/run" --plan "$work/two.json" --dataset shapes --samples 64
jq '.classes.plain.operators |= map_values("bf16")' "$work/two.json" > "$work/both.json"
refuse 2 '2 classes of the plan' eval "$work/run/weights.safetensors" --dataset shapes --test-limit 64 --plan "$work/both.json"
refuse 2 '2 classes of the plan' export "$work/run" --plan "$work/both.json" --dataset shapes --out "$work/refused.onnx"
planned bf16
exported half '.opset == 17 and .half == 5 and .integer == 0' "$work/run" --plan "$work/plan.json"
planned int4:shift4
exported narrow '.opset == 21 and .int4 == 5 and .shift_groups == 5' "$work/run" --plan "$work/plan.json" --dataset shapes --samples 64
[ "$(jq .bytes "$work/narrow.json")" -lt "$(jq '.bytes / 4' "$work/plain.json" | cut -d. -f1)" ] || fail "4-bit weights are not small"
planned int4:hadamard
exported transformed '.opset == 17 and .transformed == 5 and .integer == 0' "$work/run" --plan "$work/plan.json" --dataset shapes --samples 64

echo '{"schema": "qsync/plan/2", "classes": {"single": {"operators": {}, "tensors": {"conv1.weights": {"value": "e4m3fn"},
    "fc1.weights": {"value": "bf16"}, "fc1": {"value": "bf16"}, "fc2.weights": {"value": "fp(4,3,4)"}}}}}' > "$work/plan.json"
exported assigned '.opset == 19 and .float8 == 1 and .half == 1 and .integer == 0' "$work/run" --plan "$work/plan.json"
"$QSYNC" eval "$work/run/weights.safetensors" --dataset shapes --test-limit 64 --plan "$work/plan.json" > "$work/out" 2> "$work/err" || fail "eval of tensors"
grep -q 'class single gives tensors formats of their own' "$work/err" || { cat "$work/err"; fail "eval --plan does not say what it leaves out"; }

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
planned int4:shift4
refused 'opset 17 does not hold the types that' "$work/run" --plan "$work/plan.json" --dataset shapes --opset 17
printf 'no weights' > "$work/bad.safetensors"
refused 'bad.safetensors' --model lenet5 --weights "$work/bad.safetensors"
"$QSYNC" export "$work/run" --out "$work/none/model.onnx" > "$work/out" 2> "$work/err" && fail "a folder that is not there was written to"
finish
