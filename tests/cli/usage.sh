#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: short
# covers: devices bench
# Bad input: one line that names what, value and rule; the right exit code; nothing half written.
. "$(dirname "$0")/check.inc"

refuse 2 'unknown verb tarin: there are devices' tarin
refuse 2 'unknown option --bach' train --bach 3
refuse 2 '--batch needs a value' train --batch
refuse 2 '--batch x: not an integer' train --batch x
refuse 2 '--batch 0: must be at least 1' train --batch 0
refuse 2 '--rate nan: not a finite number' train --rate nan
refuse 2 'unexpected argument extra' train extra
refuse 2 'resnet8' train --model resnet9
refuse 2 'fashion-mnist' train --dataset nothing
refuse 2 'there are constant, step, cosine' train --schedule wavy
refuse 2 'off, dynamic or a factor' train --loss-scaling -1
refuse 2 '--clip-norm -1: must be at least 0' train --clip-norm -1
refuse 2 '--clip-norm inf: not a finite number' train --clip-norm inf
refuse 2 '--momentum 5: must lie in 0 .. 1' train --momentum 5
refuse 2 '--beta1 1: must lie in 0 .. 0.9999999' train --optimizer adam --beta1 1
refuse 2 '--momentum is of sgd (0.9), nesterov (0.9): adam has no such setting' train --optimizer adam --momentum 0.5
refuse 2 '--checkpoint-every needs --out FOLDER' train --checkpoint-every 1
refuse 2 '--resume and --weights do not go together' train --resume state.qsync --weights weights.safetensors
refuse 2 '--optimizer relu is no optimiser: there are sgd, nesterov, adagrad, adam' train --optimizer relu
refuse 2 '--wire int4: there are fp32, bf16, int8' train --wire int4
refuse 2 '--wire int8: all-reduce ring passes on partial sums' train --all-reduce ring --wire int8
refuse 2 '--epochs 4294967297: must be at most 2147483647' train --epochs 4294967297
refuse 2 '--weights-new needs --weights FILE' train --weights-new 'fc.*'
refuse 2 'inspect needs MODEL' inspect
refuse 2 'vgg16' inspect vgg17
refuse 2 '--input 3x32: channels, height and width' inspect resnet8 --input 3x32
refuse 2 'alexnet' inspect alexnet --input 3x8x8
refuse 2 'plan needs --cluster and --profile' plan
refuse 2 'simulate needs' simulate
refuse 2 'avx2_vnni' devices --isa sse9

refuse 1 'missing.json' train --cluster "$work/missing.json"
printf '{"schema": "qsync/cluster/2",\n "classes": {]}' > "$work/syntax.json"
refuse 1 'syntax.json:2:' train --cluster "$work/syntax.json"
printf '{"schema": "qsync/cluster/2", "classes": {"a": {"role": "training", "backend": "cpu", "count": 2, "speed": 1, "memory": {"capacity": 1000000000, "limit": "100%%"}, "formats": ["fp32"], "colour": 1}}}' > "$work/field.json"
refuse 1 'colour' train --cluster "$work/field.json"
sed 's/, "colour": 1//' "$work/field.json" > "$work/two.json"
refuse 2 'wants 2 ranks, this run has 1' train --cluster "$work/two.json"
sed 's/, "colour": 1/, "hosts": ["no-such-host-*"]/; s/"count": 2/"count": 1/' "$work/field.json" > "$work/host.json"
refuse 2 'class a may not run on' train --cluster "$work/host.json" --model mlp --max-steps 1 --train-limit 32 --test-limit 8
printf 'not a weights file' > "$work/weights.safetensors"
refuse 1 'weights.safetensors' eval "$work/weights.safetensors"

# A plan for another model, and one with an unknown recipe.
printf '{"schema": "qsync/plan/2", "job": {"model": "lenet5", "dataset": "shapes"}, "classes": {"single": {"operators": {"nosuch": "fp32"}}}}' > "$work/plan.json"
refuse 1 'nosuch' train --plan "$work/plan.json" --dataset shapes --out "$work/run"
[ -e "$work/run/weights.safetensors" ] && { echo "a refused plan left a run behind"; failures=$((failures + 1)); }
printf '{"schema": "qsync/plan/2", "job": {"model": "lenet5", "dataset": "shapes"}, "classes": {"single": {"operators": {"fc1": "int3"}}}}' > "$work/plan.json"
refuse 1 'int3' train --plan "$work/plan.json" --dataset shapes

# What was written by hand need not name a job; what it names and nobody has built is refused.
printf '{"schema": "qsync/plan/2", "classes": {"single": {"operators": {"conv1": "int8/fp32"}}}}' > "$work/plan.json"
small="--model lenet5 --batch 8 --train-limit 32 --test-limit 8 --epochs 1"
# shellcheck disable=SC2086
"$QSYNC" train --plan "$work/plan.json" $small --out "$work/run" > "$work/out" 2> "$work/err" || fail "a plan without a job was refused: $(cat "$work/err")"
jq -e '.job.batch == 8' "$work/run/plan.json" > /dev/null || fail "the job of the run is not in its plan"
printf '{"schema": "qsync/plan/2", "job": {"model": "lenet5", "dataset": "shapes", "buckets": {"wire": "int5"}}, "classes": {"single": {"operators": {}}}}' > "$work/wire.json"
refuse 1 'wire int5: there are fp32, bf16, int8' train --plan "$work/wire.json"

# Runs: a failed one in the folder of a finished one is not taken for it; the same plan twice stands under the folders' names.
"$QSYNC" report "$work/run" > /dev/null 2> "$work/err" || fail "report: $(cat "$work/err")"
cp -r "$work/run" "$work/again"
"$QSYNC" report --json "$work/run" "$work/again" | jq -e '.accuracy | length == 2' > /dev/null || fail "two runs of one plan became one in the report"
refuse 2 'is named twice' report "$work/run" "$work/run"
# shellcheck disable=SC2086
"$QSYNC" train $small --rate 1e30 --out "$work/again" > "$work/out" 2> "$work/err"
[ $? -eq 4 ] || fail "a diverging run did not end with exit code 4"
refuse 1 'is no finished run' report "$work/again"
printf '{"iteration_us": "x"}' > "$work/run/result.json"
refuse 1 'result.json' report "$work/run"

# Files that cannot be written.
if [ -w /dev/full ]; then
    "$QSYNC" inspect resnet50 > /dev/full 2> "$work/err" && fail "a full standard output went unnoticed"
    "$QSYNC" --help > /dev/full 2> "$work/err" && fail "a full standard output went unnoticed by --help"
fi
# shellcheck disable=SC2086
(ulimit -f 8 && exec "$QSYNC" train $small --out "$work/full") > "$work/out" 2> "$work/err"
[ $? -eq 1 ] || fail "weights that do not fit the disk did not end with exit code 1"
grep -q 'weights.safetensors: cannot write' "$work/err" || { cat "$work/err"; fail "a full disk is not named"; }
[ -z "$(find "$work/full" -name '*.tmp' -o -name '*.qsync')" ] || fail "a full disk left parts of a file behind"
refuse 1 'nosuch/profile.json: cannot write' profile --model mlp --out "$work/nosuch/profile.json"

printf '%0200d\n' 1 | "$QSYNC" format bf16 - > "$work/out" 2> "$work/err" && fail "a word of 200 digits was cut in two"

for verb in devices inspect profile indicator plan simulate train eval generate landscape report plot format bench; do
    "$QSYNC" $verb --help > "$work/out" 2> "$work/err" || { echo "$verb --help failed"; failures=$((failures + 1)); }
    grep -q '^usage: qsync' "$work/out" || { echo "$verb --help has no usage line"; failures=$((failures + 1)); }
done
finish
