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

# A profile of several wires: the planner takes one, says which and why, and training follows. Which one is the machine's matter.
# shellcheck disable=SC2086
launch profile --cluster "$folder/cluster.json" $job --wires fp32,bf16,int8 --repetitions 3 --statistics-iterations 1 --out "$profile" > "$work/out" 2> "$work/err" ||
    { cat "$work/err"; fail "profile of several wires"; finish; }
jq -e '.collectives[0].wire == null and ([.collectives[] | select(.algorithm == "shared") | .wire] == [null, "bf16", "int8"])' "$profile" > /dev/null ||
    { jq -c '.collectives[]' "$profile"; fail "rows of several wires"; }
for asked in "" "--wire auto"; do
    # shellcheck disable=SC2086
    "$QSYNC" plan --cluster "$folder/cluster.json" --profile "$profile" --planner fp32 --epochs 1 $asked --out "$plan" > "$work/out" 2> "$work/err" ||
        { cat "$work/err"; fail "plan $asked"; }
    jq -e '.job.buckets.wire as $taken | (.wires | keys_unsorted) == ["fp32", "bf16", "int8"] and .wires[$taken].why == "taken" and
        (.wires | all(.iteration_us > 0 and .exposed_us < .iteration_us)) and .wires.fp32.residual_bytes == null and .wires.int8.residual_bytes > 0' \
        "$plan" > /dev/null || { jq -c .wires "$plan"; fail "wires of plan $asked"; }
    grep -q "gradients travel in $(jq -r .job.buckets.wire "$plan"); in " "$work/out" || fail "plan does not print its wire"
done
"$QSYNC" plan --cluster "$folder/cluster.json" --profile "$profile" --planner fp32 --wire bf16 --out "$work/bf16.json" > /dev/null || fail "plan --wire bf16"
jq -e '.job.buckets.wire == "bf16" and .wires == null' "$work/bf16.json" > /dev/null || fail "a wire that was asked for is not a choice"
# A network by hand: a hundredth of the pace, as many bytes as each wire has.
jq '.collectives |= map(select(.algorithm == "shared") | del(.pieces, .samples, .spread, .worst_residual)
    | .us_per_byte = 0.02 * (if .wire == "int8" then 0.251 elif .wire == "bf16" then 0.5 else 1 end))' "$profile" > "$work/slow.json"
"$QSYNC" plan --cluster "$folder/cluster.json" --profile "$work/slow.json" --planner fp32 --epochs 1 --explain --out "$plan" > "$work/out" || fail "plan on a slow network"
jq -e '.job.buckets.wire == "int8" and ([.wires[].why] == ["slower", "slower", "taken"])' "$plan" > /dev/null || { jq -c .wires "$plan"; fail "the slow network's wire"; }
for line in 'gradients travel in int8; in fp32 an iteration would take' '^  wire  *iteration  *of it for all-reduces  *residuals$' '^  int8 .* taken$'; do
    grep -q "$line" "$work/out" || { cat "$work/out"; fail "no line $line"; }
done
"$QSYNC" plan --cluster "$folder/cluster.json" --profile "$work/slow.json" --planner fp32 --explain --json > "$work/out" || fail "explain --json"
jq -e '.wire == "int8" and (.wires | map(.wire)) == ["fp32", "bf16", "int8"] and .wires[2].why == "taken"' "$work/out" > /dev/null || { cat "$work/out"; fail "wires of explain --json"; }
launch train --cluster "$folder/cluster.json" --plan "$plan" --train-limit 64 --test-limit 64 --out "$work/run" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "train on the chosen wire"; }
jq -e '.job.buckets.wire == "int8"' "$work/run/config.json" > /dev/null || fail "the run is not on the chosen wire"
refuse 2 '--wires: wire int4: there are fp32, bf16, int8' profile --wires fp32,int4
refuse 2 '--wires: wire int8: all-reduce ring passes on partial sums' profile --all-reduce ring --wires int8
finish
