#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# ranks: 2
# A job of two unlike ranks whose lender takes memory back, and gives it again: plans come from qsync plan, the job goes on.
. "$(dirname "$0")/check.inc"
folder=$(dirname "$0")

# holds FILE WHAT FILTER: jq says true.
holds() { jq -e "$3" "$1" > "$work/out" || { head -c 1500 "$1"; fail "$2"; }; }

job="--model lenet5 --dataset shapes --batch 16"
launch profile --cluster "$folder/cluster.json" $job --repetitions 2 --statistics-iterations 2 --out "$work/profile.json" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "profile"; }
# plan CLUSTER PLANNER OUT
plan() { "$QSYNC" plan --cluster "$1" --profile "$work/profile.json" --planner "$2" $job --epochs 2 --out "$3" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "plan $3"; }; }
weak() { jq ".classes.weak.predicted.memory.arena" "$1"; }
plan "$folder/cluster.json" fp32 "$work/large.json"
large=$(weak "$work/large.json")
jq ".classes.weak.memory.limit = $((large - 1))" "$folder/cluster.json" > "$work/tight.json"
plan "$work/tight.json" qsync "$work/small.json"
small=$(weak "$work/small.json")
[ "$small" -lt "$large" ] || fail "the plan for less memory takes $small bytes, the other $large"

# train NAME CLUSTER FIRST NEXT: 60 steps that find NEXT when 20 are done.
train() {
    launch train --cluster "$2" --plan "$3" --watch-plan "$4" --watch-after 20 $job --train-limit 4000 --max-steps 60 --test-limit 64 --out "$work/$1" \
        > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "train $1"; }
}

train less "$folder/cluster.json" "$work/large.json" "$work/small.json"
grep -q 'small.json runs from step 21 on' "$work/err" || { cat "$work/err"; fail "the log does not tell the switch"; }
grep -q '^1 new plan taken on the way, the last from step 21 on' "$work/out" || { cat "$work/out"; fail "the result does not tell the switch"; }
holds "$work/less/result.json" "result.json does not tell the switch" '.replans == 1 and .steps == 60'
holds "$work/less/audit.json" "the audit is not of the new plan" '.first_step == 21 and .steps == 35 and
    ([.ranks[].memory.arena | .predicted == .reserved] | all) and .ranks[1].memory.arena.reserved == '"$small"
jq -s '.[0].classes == .[1].classes' "$work/less/plan.json" "$work/small.json" | grep -q true || fail "plan.json is not the new plan"
holds "$work/less/config.json" "config.json does not tell the switch" '.settings.plan_from_step == 21'
grep '"type":"replan"' "$work/less/metrics.jsonl" > "$work/line" || fail "metrics.jsonl does not tell the switch"
holds "$work/line" "the line of the switch is not as it should be" \
    '.step == 21 and .["arena_bytes_before.1"] == '"$large"' and .["arena_bytes.1"] == '"$small"' and .["schedule.1"] != .["schedule_before.1"]'
"$QSYNC" report "$work/less" > "$work/out" || fail "report"

# More memory again: the same job grows.
train more "$folder/cluster.json" "$work/less/plan.json" "$work/large.json"
holds "$work/more/audit.json" "the arena did not grow" '.ranks[1].memory.arena.reserved == '"$large"

# Where the limit is the small one, the large plan is refused by the rank that lacks the memory; as is what is no plan. Training ends as it should.
train kept "$work/tight.json" "$work/small.json" "$work/large.json"
grep -q "warning: new plan .*refused before step 21: rank 1: .*weak.*$((large - 1)) bytes" "$work/err" || { cat "$work/err"; fail "no refusal with rank and limit"; }
holds "$work/kept/result.json" "a plan beyond the limit was taken" 'has("replans") | not'
echo '{"schema": "qsync/plan/2", "clas' > "$work/torn.json"
train torn "$folder/cluster.json" "$work/large.json" "$work/torn.json"
grep -q "warning: new plan refused: .*torn.json:1:.*training goes on" "$work/err" || { cat "$work/err"; fail "no word of the torn file"; }
holds "$work/torn/result.json" "the run with the torn file did not end as it should" ".steps == 60"
finish
