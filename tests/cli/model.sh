#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# ranks: 2
# Models of files: a built-in one that was written and got another name goes from profile to eval with the bits of the built-in one; the
# ranks need not have its file; what a run wrote goes on by itself; a model that no program knows goes the same way; a profile of another
# graph is refused, and both are named.
. "$(dirname "$0")/check.inc"
folder=$(cd "$(dirname "$0")" && pwd)
job="--dataset shapes --batch 16"
some="--epochs 1 --train-limit 320 --test-limit 100"

mkdir "$work/here" "$work/there"
cd "$work/here" || exit 1
"$QSYNC" inspect lenet5 --input 3x32x32 --classes 10 --graph built-in.json || fail "inspect --graph"
sed 's/"name": "lenet5"/"name": "mine"/' built-in.json > mine.json
"$QSYNC" inspect mine.json --json > "$work/mine" && "$QSYNC" inspect lenet5 --input 3x32x32 --classes 10 --json > "$work/known" || fail "inspect"
[ "$(jq -r .signature "$work/mine")" = "$(jq -r .signature "$work/known")" ] || fail "a name changed the signature"
"$QSYNC" inspect mine.json --graph again.json && cmp -s mine.json again.json || fail "a graph.json that was read is written otherwise"

# goes NAME: profile, plan, train, eval of NAME.json; the second rank runs in a folder that has no such file.
goes() {
    apart "$work/there" profile --cluster "$folder/cluster.json" --model "$1.json" $job --repetitions 3 --statistics-iterations 3 --out "$work/$1.profile" \
        > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "profile $1"; }
    "$QSYNC" plan --cluster "$folder/cluster.json" --profile "$work/$1.profile" $job --epochs 1 --out "$work/$1.plan" > "$work/out" 2> "$work/err" ||
        { cat "$work/err"; fail "plan $1"; }
    "$QSYNC" simulate --cluster "$folder/cluster.json" --profile "$work/$1.profile" --plan "$work/$1.plan" --json > "$work/out" 2> "$work/err" ||
        { cat "$work/err"; fail "simulate $1"; }
    "$QSYNC" indicator --profile "$work/$1.profile" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "indicator $1"; }
    apart "$work/there" train --cluster "$folder/cluster.json" --plan "$work/$1.plan" $some --out "$work/$1.run" --checkpoint-every 1 > "$work/out" 2> "$work/err" ||
        { cat "$work/err"; fail "train $1"; }
    [ -s "$work/$1.run/audit.json" ] || fail "$1: no audit"
    (cd "$work/there" && "$QSYNC" eval "$work/$1.run/weights.safetensors" --dataset shapes --test-limit 100 --json) > "$work/out" 2> "$work/err" ||
        { cat "$work/err"; fail "eval $1"; }
    [ "$(jq .accuracy "$work/out")" = "$(jq .test_accuracy "$work/$1.run/result.json")" ] || fail "eval $1 says otherwise than training"
}

goes mine
cmp -s mine.json "$work/mine.run/graph.json" || fail "the run folder has another graph"

# The same plan is one for the built-in model: it has the same graph.
launch train --cluster "$folder/cluster.json" --plan "$work/mine.plan" --model lenet5 $some --out "$work/known.run" > "$work/out" 2> "$work/err" ||
    { cat "$work/err"; fail "train lenet5"; }
[ "$(jq -r .weights_hash "$work/mine.run/result.json")" = "$(jq -r .weights_hash "$work/known.run/result.json")" ] ||
    fail "the model of the file has other weights than the built-in one"

# The state goes on, and the weights are taken, without the file and without its name.
cd "$work/there" || exit 1
launch train --cluster "$folder/cluster.json" --plan "$work/mine.plan" --resume "$work/mine.run/state.qsync" --epochs 2 --train-limit 320 --test-limit 100 \
    --out "$work/resumed" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "train --resume"; }
launch train --cluster "$folder/cluster.json" --plan "$work/mine.plan" --model lenet5 --weights "$work/mine.run/weights.safetensors" $some \
    > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "train --weights"; }
cd "$work/here" || exit 1

# Two branches, added, beside one that attends along the rows of the image: no built-in model has this, nor products of two activations.
cat > branches.json << 'END'
{"schema": "qsync/graph/2", "name": "branches", "unit": "images",
 "inputs": [{"name": "picture", "type": "u8", "extents": [32, 32, 3]}],
 "target": {"kind": "class", "classes": 10},
 "operators": [
  {"name": "stem", "op": "conv2d", "inputs": ["picture"], "outputs": 8, "kernel": [3, 3], "stride": [2, 2], "padding": [1, 1]},
  {"name": "norm", "op": "batch_norm", "inputs": ["stem"]},
  {"name": "relu", "op": "relu", "inputs": ["norm"]},
  {"name": "left", "op": "conv2d", "inputs": ["relu"], "outputs": 8, "kernel": [3, 3], "padding": [1, 1], "bias": true},
  {"name": "right", "op": "conv2d", "inputs": ["relu"], "outputs": 8, "kernel": [1, 1], "bias": true},
  {"name": "sum", "op": "add", "inputs": ["left", "right"]},
  {"name": "third", "op": "conv2d", "inputs": ["relu"], "outputs": 8, "kernel": [1, 1], "bias": true},
  {"name": "scores", "op": "matmul", "inputs": ["left", "right"], "settings": {"heads": 16, "transposed": 1}},
  {"name": "shares", "op": "softmax", "inputs": ["scores"], "settings": {"scale": 0.25}},
  {"name": "context", "op": "matmul", "inputs": ["shares", "third"], "settings": {"heads": 16}},
  {"name": "both", "op": "concat", "inputs": ["sum", "context"]},
  {"name": "relu2", "op": "relu", "inputs": ["both"], "settings": {"ceiling": 6}},
  {"name": "pool", "op": "global_average_pool", "inputs": ["relu2"]},
  {"name": "flatten", "op": "flatten", "inputs": ["pool"]},
  {"name": "fc", "op": "linear", "inputs": ["flatten"], "outputs": 10, "bias": true}],
 "output": "fc"}
END
schema=$(jq -r .schema built-in.json)
sed "s|qsync/graph/2|$schema|" branches.json > hand.json && mv hand.json branches.json
goes branches

# Another graph under the same path; data that do not fit; weights of another graph.
sed 's/"outputs": 8, "kernel": \[1, 1\]/"outputs": 8, "kernel": [3, 3], "padding": [1, 1]/' branches.json > other.json
refuse 1 'the profile is of model branches.json (xxh64:' plan --cluster "$folder/cluster.json" --profile "$work/branches.profile" --model other.json $job
refuse 1 'these are weights of model "branches"' train --model mine.json $job --weights "$work/branches.run/weights.safetensors" --train-limit 32 --test-limit 16

# Fine-tuning: what has another shape starts anew where that is said, and only then; the run says what it started from.
tune="--model other.json $job --weights $work/branches.run/weights.safetensors --train-limit 32 --test-limit 16 --epochs 1"
refuse 1 "tensor right.weight has shape [8,8,1,1], the model's is [8,8,3,3]" train $tune --weights-new 'third.*'
refuse 2 '"thrid.*" fits no parameter' train $tune --weights-new 'thrid.*,right.*'
# shellcheck disable=SC2086
"$QSYNC" train $tune --weights-new 'third.*,right.weight' --out "$work/tuned" > "$work/out" 2> "$work/err" || fail "fine-tuning: $(cat "$work/err")"
jq -e '.settings | .start_new == "third.*,right.weight" and (.start_weights_hash | test("^xxh64:[0-9a-f]{16}$")) and (has("start_unused") | not)' \
    "$work/tuned/config.json" > /dev/null || fail "config.json does not say what the run started from: $(cat "$work/tuned/config.json")"
"$QSYNC" eval "$work/tuned/weights.safetensors" --model other.json --dataset shapes --test-limit 16 --json > "$work/out" 2> "$work/err" ||
    fail "eval --model: $(cat "$work/err")"
[ "$("$QSYNC" inspect "$work/tuned/weights.safetensors" --json | jq -r '.tensors[] | select(.name == "right.weight") | .shape | join(",")')" = 8,8,3,3 ] ||
    fail "inspect of weights"

# A plan brings the model, and --dataset is held against that one, not against the default; so does the folder of --resume.
text="text:$work/text,vocab=bytes,length=16" model=gpt2:layers=1,hidden=16,heads=2,inner=16,vocab=256
seq 400 > "$work/text"
echo '{"schema": "qsync/plan/2", "job": {"model": "'$model'", "dataset": "'"$text"'", "batch": 4}, "classes": {"single": {"operators": {}}}}' > "$work/text.plan"
"$QSYNC" train --plan "$work/text.plan" --dataset "$text" --epochs 2 --max-steps 2 --checkpoint-every 1 --out "$work/said" > "$work/out" 2> "$work/err" ||
    fail "train --plan --dataset: $(cat "$work/err")"
"$QSYNC" train --resume "$work/said/state.qsync" --dataset "$text" --batch 4 --epochs 2 --max-steps 3 > "$work/out" 2> "$work/err" ||
    fail "train --resume --dataset: $(cat "$work/err")"
finish
