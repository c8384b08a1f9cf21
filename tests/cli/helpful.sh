#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# ranks: 2
# A class that lends a tenth of itself holds the other up: the plan says so, leaves it out, and training runs on what remains.
. "$(dirname "$0")/check.inc"
job="--model lenet5 --dataset shapes --batch 16"
cat > "$work/cluster.json" << 'END'
{"schema": "qsync/cluster/2", "classes": {
  "own": {"role": "training", "backend": "cpu", "formats": ["fp32"]},
  "lent": {"role": "inference", "backend": "cpu", "share": "10%", "memory": {"capacity": "1GiB"}, "formats": ["fp32", "int8"],
           "storage": ["fp32", "int8"]}}}
END
# shellcheck disable=SC2086
launch profile --cluster "$work/cluster.json" $job --repetitions 2 --statistics-iterations 2 --conversion-seconds 0.1 --out "$work/profile.json" \
    > "$work/out" 2> "$work/err" || { cat "$work/err"; fail profile; }
# shellcheck disable=SC2086
"$QSYNC" plan --cluster "$work/cluster.json" --profile "$work/profile.json" $job --epochs 1 --drop-unhelpful --cluster-out "$work/rest.json" \
    --out "$work/plan.json" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail plan; }
grep -q 'left out: lent; with it' "$work/out" || { cat "$work/out"; fail "the class that holds the other up stays"; }
# shellcheck disable=SC2086
"$QSYNC" train --cluster "$work/rest.json" --plan "$work/plan.json" $job --epochs 1 --train-limit 320 --test-limit 100 --out "$work/run" \
    > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "training on what remains"; }
jq -e '.settings.ranks == 1' "$work/run/config.json" > /dev/null ||
    fail "another number of ranks trained"
jq -e '(.left_out | keys) == ["lent"]' "$work/run/plan.json" > /dev/null || fail "the plan that ran forgot what was left out"
# The plan is for what remains and for nothing else.
# shellcheck disable=SC2086
launch train --cluster "$work/cluster.json" --plan "$work/plan.json" $job --epochs 1 --train-limit 320 > "$work/out" 2> "$work/err" &&
    fail "a plan for one class trained on two"
finish
