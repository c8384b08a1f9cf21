#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# ranks: 2
# Unequal local batches from profile to training: a profile of several batches, plans that deal the global batch out, exact memory; what
# does not sum up, and profiles of one batch, are refused.
. "$(dirname "$0")/check.inc"
folder=$(dirname "$0")

job="--model lenet5 --dataset shapes --batch 16"
cluster="--cluster $folder/cluster.json"

launch profile $cluster $job --repetitions 4 --statistics-iterations 3 --conversion-seconds 1 --batches auto --out "$work/profile.json" > "$work/out" 2> "$work/err" ||
    { cat "$work/err"; fail "profile"; }
grep -q 'and 16 others from 8 to 24' "$work/out" || { cat "$work/out"; fail "the profile does not say its batches"; }
for planner in dbs joint; do
    "$QSYNC" plan $cluster --profile "$work/profile.json" --planner $planner $job --epochs 1 --out "$work/$planner.json" > "$work/out" 2> "$work/err" ||
        { cat "$work/err"; fail "plan $planner"; }
    jq -e '[.classes[].batch] | add == 32' "$work/$planner.json" > "$work/out" || fail "batches of $planner do not sum to 32"
    "$QSYNC" simulate $cluster --profile "$work/profile.json" --plan "$work/$planner.json" --json > "$work/sim" || fail "simulate $planner"
    grep -q '"fits": true' "$work/sim" || fail "simulate $planner: does not fit"
done

# Shares by hand, as uneven as the profile knows them: what the machine's noise made of the plans above does not matter here.
jq '.classes.big.batch = 20 | .classes.weak.batch = 12 | .classes[] |= del(.schedule, .kernels, .predicted, .why) | del(.planner)' "$work/dbs.json" > "$work/hand.json"
"$QSYNC" simulate $cluster --profile "$work/profile.json" --plan "$work/hand.json" --json > "$work/sim" || fail "simulate by hand"
jq -e '[.classes[].batch] == [20, 12]' "$work/sim" > "$work/out" || { cat "$work/sim"; fail "simulate does not tell the batches"; }
for plan in hand dbs; do
    launch train $cluster --plan "$work/$plan.json" $job --epochs 1 --train-limit 330 --test-limit 100 --out "$work/$plan" > "$work/out" 2> "$work/err" ||
        { cat "$work/err"; fail "train $plan"; }
done
jq -e 'select(.type == "epoch") | .steps == 11' "$work/hand/metrics.jsonl" > "$work/out" || fail "330 samples are not 11 steps of 32"
"$QSYNC" report --json "$work/dbs" > "$work/report" || fail "report"
jq -e '[.memory[][] | .predicted == .reserved] | all' "$work/report" > "$work/out" || { cat "$work/report"; fail "memory is not as predicted"; }
reserved=$(jq -c '[."reserved_bytes.0", ."reserved_bytes.1"]' "$work/hand/timing.json")
predicted=$(jq -c '[.classes[].arena_bytes]' "$work/sim")
[ "$reserved" = "$predicted" ] || fail "by hand $reserved bytes are reserved, $predicted were predicted"

# What does not sum up is refused before anything runs.
jq '.classes.big.batch = 22' "$work/hand.json" > "$work/wrong.json"
launch train $cluster --plan "$work/wrong.json" $job --epochs 1 --train-limit 320 > "$work/out" 2> "$work/err" && fail "batches that sum to 34 were taken"
grep -q 'sum to 34 samples over 2 ranks, the job.s global batch is 32 (2 x 16)' "$work/err" || { cat "$work/err"; fail "the refusal lacks figures"; }
# A profile of one batch cannot tell.
jq '. | del(.batches)' "$work/profile.json" > "$work/one.json"
"$QSYNC" plan $cluster --profile "$work/one.json" --planner dbs $job > "$work/out" 2> "$work/err" && fail "a profile of one batch was taken"
grep -q 'profile with --batches auto' "$work/err" || { cat "$work/err"; fail "the refusal does not say the way out"; }
for list in 0 8,x , 8,,9; do
    "$QSYNC" profile $job --batches "$list" > "$work/out" 2> "$work/err" && fail "--batches $list was taken"
    grep -q -- "--batches $list" "$work/err" || { cat "$work/err"; fail "--batches $list: the refusal does not name it"; }
done
finish
