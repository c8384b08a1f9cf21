#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# Formats of tensors from the cluster file to a finished run, on the reference device: plans by all four planners, what they state, a run that
# reserves what was predicted, and options that do not fit. And recipes of any float format that a class computes in.
. "$(dirname "$0")/check.inc"
quiet() { "$QSYNC" "$@" > "$work/out" 2> "$work/err" < /dev/null || fail "qsync $*: $(cat "$work/err")"; }
holds() { jq -e "$2" "$1" > "$work/verdict" || { fail "not so: $2"; jq '.classes.single | del(.tensors, .kernels, .why)' "$1"; }; }

cluster() { # ROLE FORMATS STORAGE LIMIT
    echo "{\"schema\": \"qsync/cluster/2\", \"classes\": {\"single\": {\"role\": \"$1\", \"backend\": \"ref\", \"count\": 1, \"speed\": 1, \"formats\": [$2], \"storage\": [$3], \"memory\": {\"capacity\": \"1GiB\", \"limit\": \"$4\"}}}, \"links\": []}"
}
stored='"fp32", "fp(6,9,0)", "fp(4,3,4)", "fp(5,2,0)"'
cluster training '"fp32"' "$stored" 100% > "$work/cluster.json"
files="--cluster $work/cluster.json --profile $work/profile.json"
quiet profile --cluster "$work/cluster.json" --model lenet5 --dataset shapes --batch 8 --loss-scaling dynamic --repetitions 2 \
    --statistics-iterations 2 --conversion-seconds 0.2 --out "$work/profile.json"

# shellcheck disable=SC2086
for planner in uniform-fp op op-io demote; do
    quiet plan $files --planner $planner --out "$work/$planner.json"
    grep -q 'ratio_lo' "$work/out" || fail "the ratio of $planner is not printed"
    holds "$work/$planner.json" '.job.loss_scaling == "dynamic"'
    holds "$work/$planner.json" '.classes.single | .assignment.bytes.low <= .assignment.bytes.plan and .assignment.bytes.plan < .assignment.bytes.high and
        .assignment.arena.low <= .predicted.memory.arena and .predicted.memory.arena <= .assignment.arena.high and .assignment.arena.low < .assignment.arena.high'
done
holds "$work/demote.json" '[.classes.single.tensors[] | select(.value == "fp(4,3,4)") | .promote_at] | length > 0 and all(. == 0.01)'
# shellcheck disable=SC2086
for ratio in 0 0.4 0.8; do
    quiet plan $files --planner demote --ratio $ratio --out "$work/r$ratio.json"
    holds "$work/r$ratio.json" ".classes.single.assignment.ratio_low >= ([$ratio, $(jq .classes.single.assignment.ratio_low "$work/demote.json")] | min)"
done

# What is predicted is what runs, and every rounded tensor is looked at.
quiet train --cluster "$work/cluster.json" --plan "$work/r0.4.json" --epochs 1 --train-limit 80 --test-limit 16 --no-pinning --out "$work/run"
jq -e '.ranks[0] | .reserved_bytes == .predicted_bytes' "$work/run/result.json" > "$work/verdict" || { cat "$work/run/result.json"; fail "another arena"; }
grep -q '"type":"rounding"' "$work/run/metrics.jsonl" || fail "no overflow or underflow in 10 steps of 8 bits"

# The smallest ratio that fits a limit between all high and all low.
limit=$(jq '.classes.single.assignment.arena | (.high + .low) / 2 | floor' "$work/demote.json")
cluster training '"fp32"' "$stored" "${limit}B" > "$work/tight.json"
quiet plan --cluster "$work/tight.json" --profile "$work/profile.json" --planner demote --ratio 0 --out "$work/fits.json"
holds "$work/fits.json" ".classes.single | .assignment.ratio_low > 0 and .predicted.memory.arena <= $limit"

# shellcheck disable=SC2086
{
    refuse 2 '--ratio belongs to --planner demote' plan $files --planner op --ratio 0.5
    refuse 2 '--low belongs to --planner' plan $files --low 'fp(4,3,4)'
    refuse 2 'lies in [0, 1]' plan $files --planner demote --ratio 1.5
    refuse 2 'order alphabetical' plan $files --planner demote --order alphabetical
    refuse 1 'class single does not store fp(3,4,0)' plan $files --planner op --low 'fp(3,4,0)'
    refuse 3 'with all groups demoted an iteration takes' plan $files --planner demote --max-time 0.001
}

# Any float format that the reference device computes in.
cluster inference '"fp32", "fp(4,3,4)", "e4m3fn"' '"fp32", "fp(4,3,4)", "e4m3fn"' 100% > "$work/cluster.json"
rm "$work/profile.json"
quiet profile --cluster "$work/cluster.json" --model lenet5 --dataset shapes --batch 8 --repetitions 2 --statistics-iterations 2 \
    --conversion-seconds 0.2 --out "$work/profile.json"
# Full precision, which a training class has everywhere, does not fit: some operators have to go down.
cluster training '"fp32", "fp(4,3,4)", "e4m3fn"' '"fp32", "fp(4,3,4)", "e4m3fn"' 100% > "$work/full.json"
quiet plan --cluster "$work/full.json" --profile "$work/profile.json" --planner uniform --out "$work/full-plan.json"
limit=$(jq '.classes.single.predicted.memory.arena - 1' "$work/full-plan.json")
cluster inference '"fp32", "fp(4,3,4)", "e4m3fn"' '"fp32", "fp(4,3,4)", "e4m3fn"' "${limit}B" > "$work/cluster.json"
# shellcheck disable=SC2086
quiet plan $files --planner qsync --out "$work/qsync.json"
holds "$work/qsync.json" ".classes.single | .predicted.memory.arena <= $limit and ([.operators[] | strings] | any(. == \"fp(4,3,4)\" or . == \"e4m3fn\"))"
quiet train --cluster "$work/cluster.json" --plan "$work/qsync.json" --epochs 1 --train-limit 80 --test-limit 16 --no-pinning --out "$work/any"
finish
