#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# ranks: 2
# Adam from profile to run, over two unlike ranks: its profile serves every kind of planner, also for other settings, memory is as predicted;
# other optimisers are refused; a run that was stopped goes on. Gradients are clipped, which is profiled and planned for like an update.
. "$(dirname "$0")/check.inc"
folder=$(dirname "$0")

job="--model lenet5 --dataset shapes --batch 16"
adam="--optimizer adam --beta2 0.99 --clip-norm 0.25"

# shellcheck disable=SC2086
launch profile --cluster "$folder/cluster.json" $job --optimizer adam --clip-norm 1 --batches auto --repetitions 2 --statistics-iterations 2 --conversion-seconds 0.2 --out "$work/profile.json" > "$work/out" 2> "$work/err" ||
    { cat "$work/err"; fail "profile"; }
for planner in fp32 uniform qsync dbs joint; do
    # shellcheck disable=SC2086
    "$QSYNC" plan --cluster "$folder/cluster.json" --profile "$work/profile.json" --planner $planner $job $adam --epochs 2 --schedule constant \
        --out "$work/$planner.json" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "plan $planner"; }
    jq -e '.job.optimizer == {name: "adam", beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weight_decay: 0.01} and .job.rate.base == 0.001 and .job.clip_norm == 0.25' \
        "$work/$planner.json" > /dev/null || fail "$planner: the plan does not say how weights are updated"
    "$QSYNC" simulate --cluster "$folder/cluster.json" --profile "$work/profile.json" --plan "$work/$planner.json" --json > "$work/sim" ||
        fail "simulate $planner"
done
for planner in qsync joint; do
    launch train --cluster "$folder/cluster.json" --plan "$work/$planner.json" --train-limit 640 --test-limit 200 --max-steps 20 --checkpoint-every 1 \
        --out "$work/$planner" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "train $planner"; }
    "$QSYNC" report --json "$work/$planner" > "$work/report" || fail "report $planner"
    jq -e '[.memory[][] | .predicted == .reserved] | all' "$work/report" > /dev/null || { cat "$work/report"; fail "memory of $planner is not as predicted"; }
    jq -e '[.ranks[].phases.optimizer_us.predicted | . > 0] | all' "$work/$planner/audit.json" > /dev/null || fail "$planner: no time is predicted for updates"
done

# The plan of the run folder has the job: the rest of it is run as it would have been.
launch train --cluster "$folder/cluster.json" --plan "$work/qsync.json" --train-limit 640 --test-limit 200 --out "$work/whole" > "$work/out" 2> "$work/err" ||
    { cat "$work/err"; fail "train in one piece"; }
launch train --cluster "$folder/cluster.json" --plan "$work/qsync/plan.json" --train-limit 640 --test-limit 200 --resume "$work/qsync/state.qsync" \
    --out "$work/rest" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "train --resume"; }
[ "$(jq .weights_hash "$work/whole/result.json")" = "$(jq .weights_hash "$work/rest/result.json")" ] || fail "a run that went on has other weights"
jq -e '.settings.resumed_after_step == 20' "$work/rest/config.json" > /dev/null || fail "config.json does not say where the run went on"

# Profiles are of one optimiser, plans of its settings as well.
# shellcheck disable=SC2086
"$QSYNC" plan --cluster "$folder/cluster.json" --profile "$work/profile.json" $job > "$work/out" 2> "$work/err" && fail "a profile of adam served sgd"
grep -q 'give the optimizer and the bucket bytes' "$work/err" || { cat "$work/err"; fail "the refusal does not name the optimizer"; }
launch train --cluster "$folder/cluster.json" --plan "$work/qsync.json" --optimizer sgd > "$work/out" 2> "$work/err" && fail "a plan for adam trained sgd"
grep -q 'made for optimizer adam, the job has sgd' "$work/err" || { cat "$work/err"; fail "the refusal does not name both"; }
launch train --cluster "$folder/cluster.json" --plan "$work/qsync.json" --optimizer adam --beta1 0.8 > "$work/out" 2> "$work/err" && fail "another beta was taken"
grep -q 'made for beta1 0.9, the job has 0.8' "$work/err" || { cat "$work/err"; fail "the refusal does not name the setting"; }

launch train --cluster "$folder/cluster.json" --plan "$work/qsync.json" --clip-norm 0.5 > "$work/out" 2> "$work/err" && fail "another bound was taken"
grep -q 'made for clip norm 0.25, the job has 0.5' "$work/err" || { cat "$work/err"; fail "the refusal does not name the bound"; }

# The second moment is one more state; both take an update of their own in a benchmark.
memory() {
    "$QSYNC" inspect lenet5 --memory --optimizer "$1" --json | jq '.categories["optimizer state"].bytes'
}
[ "$(memory adam)" -eq $((2 * $(memory sgd))) ] || fail "adam keeps $(memory adam) bytes, sgd $(memory sgd)"
"$QSYNC" bench --models lenet5 --batch 8 --steps 2 --recipes fp32 --breakdown --optimizer adam | grep -q 'adam/forward' || fail "bench has no update by adam"
finish
