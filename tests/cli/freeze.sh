#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: long
# ranks: 2
# Parts of a model frozen, layers at rates of their own, decay of matrices alone, by warm-up in steps and a linear schedule: profiled,
# planned and trained by two unlike ranks with memory as predicted; a run that was stopped goes on; other settings than the plan's are
# refused.
. "$(dirname "$0")/check.inc"
folder=$(dirname "$0")

job="--model lenet5 --dataset shapes --batch 16 --optimizer adam"
apart="--freeze conv1.*,conv2.bias --decay matrices --layer-decay 0.8"

# shellcheck disable=SC2086
launch profile --cluster "$folder/cluster.json" $job $apart --repetitions 2 --statistics-iterations 2 --conversion-seconds 0.2 \
    --out "$work/profile.json" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "profile"; }
# shellcheck disable=SC2086
"$QSYNC" plan --cluster "$folder/cluster.json" --profile "$work/profile.json" $job $apart --epochs 2 --schedule linear --warmup-steps 10 \
    --out "$work/plan.json" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "plan"; }
jq -e '.job.freeze == "conv1.*,conv2.bias" and .job.decay == "matrices" and .job.rate.layer_decay == 0.8 and .job.rate.schedule == "linear" and
    .job.rate.warmup_steps == 10' "$work/plan.json" > /dev/null || fail "the plan does not say what is frozen and how rates differ"

run() { # NAME ARGUMENTS...
    name=$1
    shift
    launch train --cluster "$folder/cluster.json" --train-limit 640 --test-limit 100 --out "$work/$name" "$@" > "$work/out" 2> "$work/err" ||
        { cat "$work/err"; fail "train $name"; }
}
run half --plan "$work/plan.json" --max-steps 20 --checkpoint-every 1
run whole --plan "$work/plan.json"
run rest --plan "$work/half/plan.json" --resume "$work/half/state.qsync"
"$QSYNC" report --json "$work/whole" > "$work/report" || fail "report"
jq -e '[.memory[][] | .predicted == .reserved] | all' "$work/report" > /dev/null || { cat "$work/report"; fail "memory is not as predicted"; }
[ "$(jq .weights_hash "$work/whole/result.json")" = "$(jq .weights_hash "$work/rest/result.json")" ] || fail "a run that went on has other weights"

launch train --cluster "$folder/cluster.json" --plan "$work/plan.json" --freeze 'conv2.*' > "$work/out" 2> "$work/err" && fail "other frozen parts were taken"
grep -q 'made for freeze conv1.\*,conv2.bias, the job has conv2.\*' "$work/err" || { cat "$work/err"; fail "the refusal does not name what is frozen"; }
launch train --cluster "$folder/cluster.json" --plan "$work/plan.json" --layer-decay 0.9 > "$work/out" 2> "$work/err" && fail "another layer decay was taken"
grep -q 'made for layer decay 0.8, the job has 0.9' "$work/err" || { cat "$work/err"; fail "the refusal does not name the factor"; }
# The state of other frozen parts lies elsewhere.
"$QSYNC" train --model lenet5 --dataset shapes --train-limit 64 --test-limit 64 --batch 16 --optimizer adam --freeze 'conv2.*' --max-steps 2 \
    --checkpoint-every 1 --out "$work/one" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "train alone"; }
"$QSYNC" train --model lenet5 --dataset shapes --train-limit 64 --test-limit 64 --batch 16 --optimizer adam --epochs 9 \
    --resume "$work/one/state.qsync" --out "$work/two" > "$work/out" 2> "$work/err" && fail "a state of other frozen parts was taken"
"$QSYNC" train --model lenet5 --freeze 'conv9.*' > "$work/out" 2> "$work/err" && fail "a pattern without a parameter was taken"
grep -q 'no trained parameter of lenet5' "$work/err" || { cat "$work/err"; fail "the refusal does not name the pattern"; }
finish
