#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# ranks: 2
# Gradients on a compressed wire, from profile to report: the profile measures it, the plan follows the profile, the run follows the plan.
. "$(dirname "$0")/check.inc"
folder=$(dirname "$0")

job="--model lenet5 --dataset shapes --batch 16"
profile="$work/profile.json" plan="$work/plan.json"

# shellcheck disable=SC2086
launch profile --cluster "$folder/cluster.json" $job --wire int8 --repetitions 3 --statistics-iterations 1 --out "$profile" > "$work/out" 2> "$work/err" ||
    { cat "$work/err"; fail "profile"; finish; }
grep -q 'all-reduce shared in int8 of 2 ranks' "$work/out" || fail "the profile does not print its wire"
# Rings do not carry it; the others are measured on it.
jq -e '[.collectives[] | .wire == "int8"] | all' "$profile" > /dev/null || fail "rows without the wire"
jq -e '[.collectives[].algorithm] | index("shared") == 0 and index("ring") == null' "$profile" > /dev/null || fail "rows of other algorithms"
"$QSYNC" plan --cluster "$folder/cluster.json" --profile "$profile" --planner fp32 --epochs 1 --out "$plan" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "plan"; }
jq -e '.job.buckets.wire == "int8" and .job.buckets.algorithm == "shared"' "$plan" > /dev/null || fail "the plan does not follow the profile"
# What was not measured is not guessed.
refuse 1 'no all-reduce "shared" over shared-memory of 2 ranks or more (it has shared in int8 of 2 ranks' \
    plan --cluster "$folder/cluster.json" --profile "$profile" --planner fp32 --wire fp32
for how in "--plan $plan" "--wire int8"; do
    # shellcheck disable=SC2086
    "$QSYNC" inspect lenet5 --memory $how > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "inspect --memory $how"; }
    grep -q '^wire residuals .*persistent' "$work/out" || { cat "$work/out"; fail "residuals are not in the table of inspect --memory $how"; }
done
refuse 2 '--plan and --wire do not go together' inspect lenet5 --memory --wire int8 --plan "$plan"

launch train --cluster "$folder/cluster.json" --plan "$plan" --train-limit 640 --test-limit 64 --out "$work/run" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "train"; }
jq -e '.job.buckets.wire == "int8"' "$work/run/config.json" > /dev/null || fail "the run does not follow the plan"
"$QSYNC" report --json "$work/run" > "$work/report" || fail "report"
jq -e '[.memory[][] | .predicted == .reserved] | all' "$work/report" > /dev/null || { cat "$work/report"; fail "memory is not as predicted"; }
launch train --cluster "$folder/cluster.json" --plan "$plan" --wire bf16 > "$work/out" 2> "$work/err" && fail "a plan for another wire was taken"
grep -q 'made for wire format int8, the job has bf16' "$work/err" || { cat "$work/err"; fail "the refusal does not name the wire"; }
finish
