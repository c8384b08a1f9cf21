#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# ranks: 2
# covers: profile indicator plan simulate train eval report
# The main job in small: profile, indicator, plan, simulate, train, eval and report agree with one another, over two unlike ranks.
. "$(dirname "$0")/check.inc"
folder=$(dirname "$0")

job="--model lenet5 --dataset shapes --batch 16"

launch profile --cluster "$folder/cluster.json" $job --repetitions 3 --statistics-iterations 3 --out "$work/profile.json" > "$work/out" 2> "$work/err" ||
    { cat "$work/err"; fail "profile"; }
jq -e '[.classes[] | .beside // 1] | length == 2 and .[0] == .[1] and all(.[]; . >= 0.8 and . <= 1.6)' "$work/profile.json" > "$work/out" ||
    fail "balanced ranks gave the classes of one host different factors, or one that neighbours cannot explain"
# Two ranks of one class have as much to do, whatever the machine makes of their times.
jq '.classes = {weak: (.classes.weak + {count: 2, speed: 1})} | .links = []' "$folder/cluster.json" > "$work/alike.json"
launch profile --cluster "$work/alike.json" $job --repetitions 2 --statistics-iterations 0 --conversion-seconds 0.1 --out "$work/alike.profile" \
    > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "profile of ranks that are alike"; }
grep -q '[12] plans of balanced ranks took' "$work/err" || { cat "$work/err"; fail "no plan of balanced ranks was timed"; }
"$QSYNC" indicator --profile "$work/profile.json" > "$work/out" || fail "indicator"
grep -q 'rank stability over 3 iterations' "$work/out" || fail "indicator without stability"
# What is the same in every iteration has no stability to tell.
"$QSYNC" indicator --profile "$work/profile.json" --indicator random > "$work/out" || fail "indicator random"
if grep -q 'rank stability' "$work/out"; then fail "a stability that is not the indicator's"; fi
"$QSYNC" indicator --profile "$work/profile.json" --indicator random --json > "$work/out" || fail "indicator random --json"
if grep -q 'rank_stability' "$work/out" || ! grep -q '"omega"' "$work/out"; then fail "JSON of an indicator without iterations"; fi
# Ω is the mean over iterations; both are printed with twelve digits.
"$QSYNC" indicator --profile "$work/profile.json" --recipes bf16,int8/bf16 --json > "$work/out" || fail "indicator --json"
jq -e '. as $all | .trace.recipe == "int8/bf16" and (.trace.omega | length) == 5 and (.trace.omega | to_entries
    | all(.[]; (.value | length) == 3 and ((.value | add / 3) / $all.omega[.key]["int8/bf16"] - 1 | fabs) < 1e-9))' "$work/out" > /dev/null ||
    { cat "$work/out"; fail "the indicator's trace is not what its mean is made of"; }
for planner in fp32 uniform qsync; do
    "$QSYNC" plan --cluster "$folder/cluster.json" --profile "$work/profile.json" --planner $planner $job --epochs 1 --out "$work/$planner.json" --explain > "$work/out" ||
        fail "plan $planner"
    "$QSYNC" simulate --cluster "$folder/cluster.json" --profile "$work/profile.json" --plan "$work/$planner.json" --trace "$work/trace.json" --json > "$work/sim" ||
        fail "simulate $planner"
    grep -q '"fits": true' "$work/sim" || fail "simulate $planner: does not fit"
    launch train --cluster "$folder/cluster.json" --plan "$work/$planner.json" $job --epochs 1 --train-limit 640 --test-limit 200 --out "$work/$planner" \
        > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "train $planner"; }
    # Memory is exact: each rank's reserved bytes are the predicted ones.
    "$QSYNC" report --json "$work/$planner" > "$work/report" || fail "report $planner"
    jq -e '[.memory[][] | .predicted == .reserved] | all' "$work/report" > "$work/out" || { cat "$work/report"; fail "memory of $planner is not as predicted"; }
done

# Saved weights evaluate to what training said.
said=$(jq .test_accuracy "$work/qsync/result.json")
got=$("$QSYNC" eval "$work/qsync/weights.safetensors" --dataset shapes --test-limit 200 --json | jq .accuracy)
[ "$said" = "$got" ] || fail "eval says $got, training said $said"

# A plan for another cluster, or an edited one, is refused before anything runs.
sed 's/"speed": 0.8/"speed": 0.7/' "$folder/cluster.json" > "$work/other.json"
launch train --cluster "$work/other.json" --plan "$work/qsync.json" $job > "$work/out" 2> "$work/err" && fail "a plan for another cluster was taken"
grep -q 'cluster' "$work/err" || { cat "$work/err"; fail "the refusal does not name the cluster"; }
"$QSYNC" plan --cluster "$folder/cluster.json" --profile "$work/profile.json" --model mlp --dataset mnist --batch 16 > "$work/out" 2> "$work/err"
[ $? -eq 1 ] || fail "a profile of another model was taken"
launch train --cluster "$folder/cluster.json" --plan "$work/qsync.json" --model mlp --dataset mnist > "$work/out" 2> "$work/err" && fail "a plan for another model was taken"
grep -q 'lenet5' "$work/err" || { cat "$work/err"; fail "the refusal does not name the plan's model"; }
launch train --cluster "$folder/cluster.json" --plan "$work/qsync.json" --batch 8 > "$work/out" 2> "$work/err" && fail "a plan for another batch was taken"
# What one rank alone lacks is told by that rank, and stops all; so are ranks that were started unlike.
if mpirun --version 2> /dev/null | grep -q 'Open MPI'; then
    # one_rank TEXT FIRST_OPTIONS SECOND_OPTIONS: both train, with options of their own.
    one_rank() {
        # shellcheck disable=SC2086
        timeout 60 mpirun --oversubscribe -n 1 "$QSYNC" train --cluster "$folder/cluster.json" $job $2 : -n 1 "$QSYNC" train --cluster "$folder/cluster.json" $job $3 \
            > "$work/out" 2> "$work/err" && fail "one rank failed ($1), the run did not"
        grep -q "qsync: rank 1: .*$1" "$work/err" || { cat "$work/err"; fail "rank 1 did not tell: $1"; }
    }
    one_rank 'missing.json: cannot open' '' "--plan $work/missing.json"
    one_rank 'unknown option --bach' '' '--bach'
    one_rank 'its job is not that of rank 0' '' '--seed 3'
    one_rank 'its number of steps is not that of rank 0' '' '--train-limit 320'
    one_rank 'its set of first weights is not that of rank 0' '' "--weights $work/qsync/weights.safetensors"
fi
# A limit that nothing fits is infeasible, with figures and exit code 3.
sed 's/"limit": "30%"/"limit": 100000/' "$folder/cluster.json" > "$work/tight.json"
"$QSYNC" plan --cluster "$work/tight.json" --profile "$work/profile.json" $job > "$work/out" 2> "$work/err"
[ $? -eq 3 ] || fail "an impossible limit did not end with exit code 3"
grep -q 'MiB' "$work/err" || fail "the refusal does not give figures"
finish
