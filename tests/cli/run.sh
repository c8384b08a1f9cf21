#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# ranks: 2
# covers: run
# The whole way in one command, alone and on two unlike ranks: stopped behind every stage and given again, it takes what is there and makes
# the rest; a folder of another command and ranks that do not match are refused.
. "$(dirname "$0")/check.inc"
folder=$(dirname "$0")
short="--epochs 1 --train-limit 320 --test-limit 100 --repetitions 2 --statistics-iterations 2 --conversion-seconds 0.1"
job="--model mlp:width=0.125 --dataset shapes --batch 16 $short"

# state FOLDER: what its files are, to the byte and the moment.
state() { (cd "$1" && find . -type f -exec stat -c '%n %y %s' {} + | sort && find . -type f -exec cksum {} + | sort); }
# kept BEFORE AFTER: what was there is there unchanged.
kept() { grep -vxFf "$2" "$1" > "$work/gone" && { cat "$work/gone"; fail "a stage was run again ($3)"; }; }
# stages FOLDER COMMAND...: until each stage, and again.
stages() {
    there=$1
    shift
    : > "$work/before"
    for pair in profile:profile.json plan:plan.json verify:verified.json train:training/result.json evaluate:evaluation.json; do
        stage=${pair%%:*} file=${pair#*:}
        "$@" --until "$stage" --out "$there" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "until $stage"; return; }
        [ -s "$there/$file" ] || fail "no $file behind $stage"
        state "$there" > "$work/after"
        kept "$work/before" "$work/after" "$stage"
        cp "$work/after" "$work/before"
    done
    "$@" --out "$there" --json > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "the whole once more"; }
    state "$there" > "$work/after"
    cmp -s "$work/before" "$work/after" || fail "a run that has ended was changed"
    jq -e '.profile == "there before" and .predicted_us > 0 and .training.steps > 0 and .training.iteration_us > 0 and
        .evaluation.samples == 100 and .evaluation.accuracy == .training.test_accuracy' "$work/out" > /dev/null || { cat "$work/out"; fail "the summary"; }
}

# shellcheck disable=SC2086
stages "$work/alone" "$QSYNC" run $job
# shellcheck disable=SC2086
stages "$work/two" launch run --cluster "$folder/cluster.json" $job
jq -e '(.verification // []) | all(.measured_us > 0 and .uniform_us > 0 and .predicted_us > 0 and .confidence >= 0)' "$work/two/verified.json" \
    > /dev/null || fail "rounds of a verification"
jq -e '.signature == input.signature' "$work/two/verified.json" "$work/two/training/plan.json" > /dev/null || fail "another plan was trained"

# A plan that is there is the one that is verified, here one that the planner would not make. Whether it is too slow is the machine's matter;
# where it is, the profile is corrected by what is stated, its checks are the two plans', and the plan is another.
mkdir "$work/slow"
cp "$work/two/command" "$work/two/profile.json" "$work/slow"
jq '.classes.weak |= (.operators |= map_values("int8/bf16") | del(.kernels, .schedule, .why))' "$work/two/plan.json" > "$work/slow/plan.json"
# shellcheck disable=SC2086
launch run --cluster "$folder/cluster.json" $job --until verify --out "$work/slow" > "$work/out" 2> "$work/err" ||
    { cat "$work/err"; fail "a plan that is there"; }
rounds=$(jq '.verification | length' "$work/slow/verified.json")
[ "$rounds" -ge 1 ] && [ "$rounds" -le 3 ] || fail "$rounds rounds"
grep -c 'verified  *round' "$work/out" | grep -qx "$rounds" || { cat "$work/out"; fail "the summary does not tell all rounds"; }
if jq -e '.verification[0].kept' "$work/slow/verified.json" > /dev/null; then
    echo "the plan by hand was no slower"
    jq -e '.classes.weak.operators | all(. == "int8/bf16")' "$work/slow/verified.json" > /dev/null || fail "a plan that was kept is another"
    [ ! -e "$work/slow/corrected.json" ] || fail "a correction without need"
else
    jq -e --slurpfile plan "$work/slow/verified.json" --slurpfile before "$work/slow/profile.json" '
        ($plan[0].classes.weak.predicted.factor // 1) as $factor | [.classes.weak.kernels, $before[0].classes.weak.kernels] | transpose
        | all(((.[0].us.median / .[1].us.median) / $factor - 1) | fabs < 1e-9)' "$work/slow/corrected.json" > /dev/null ||
        fail "the corrected profile is not what the plan says"
    jq -e '.checks | length == 2 and all(.measured_us > 0 and .predicted_us > 0)' "$work/slow/corrected.json" > /dev/null || fail "no checks"
    jq -e '.classes.weak.operators | all(. == "int8/bf16") | not' "$work/slow/verified.json" > /dev/null || fail "it is the slow plan still"
fi

# In one go and without a cluster, on two ranks; the figures are the plan's and the training's.
# shellcheck disable=SC2086
launch run $job --out "$work/class" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "two ranks without a cluster"; }
for line in 'profile  *measured' 'plan  *single: ' 'predicted .* an iteration' 'measured .* an iteration in training' 'accuracy .* %'; do
    grep -q "$line" "$work/out" || fail "the summary lacks: $line"
done

# Of several wires the plan takes one, here on a network by hand, and the run follows it through verification and training.
# shellcheck disable=SC2086
launch run --cluster "$folder/cluster.json" $job --wires fp32,bf16,int8 --until profile --out "$work/wires" > "$work/out" 2> "$work/err" ||
    { cat "$work/err"; fail "a profile of several wires"; }
jq '.collectives |= map(select(.algorithm == "shared") | del(.pieces, .samples, .spread, .worst_residual)
    | .us_per_byte = 0.02 * (if .wire == "int8" then 0.251 elif .wire == "bf16" then 0.5 else 1 end))' "$work/wires/profile.json" > "$work/network"
cp "$work/network" "$work/wires/profile.json"
for again in 1 2; do
    # shellcheck disable=SC2086
    launch run --cluster "$folder/cluster.json" $job --wires fp32,bf16,int8 --out "$work/wires" > "$work/out" 2> "$work/err" ||
        { cat "$work/err"; fail "on the plan's wire, $again"; }
    grep -q 'gradients travel in int8' "$work/out" || { cat "$work/out"; fail "the summary does not tell the wire, $again"; }
done
jq -e '.job.buckets.wire == "int8"' "$work/wires/training/config.json" > /dev/null || fail "it was trained on another wire"
# shellcheck disable=SC2086
refuse 2 'the folder is of another command' run $job --out "$work/wires"

# A training that was stopped behind its first epoch goes on from there.
longer="--model mlp:width=0.125 --dataset shapes --batch 16 $short --epochs 2"
# shellcheck disable=SC2086
{
    "$QSYNC" run $longer --until plan --out "$work/stopped" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "stopped"; }
    "$QSYNC" train --plan "$work/stopped/plan.json" --train-limit 320 --test-limit 100 --max-steps 20 --checkpoint-every 1 \
        --out "$work/stopped/training" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "a first epoch"; }
    rm "$work/stopped/training/result.json"
    "$QSYNC" run $longer --rounds 0 --out "$work/stopped" --json > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "going on"; }
}
jq -e '.training.steps == 40' "$work/out" > /dev/null || { cat "$work/out"; fail "steps of both epochs"; }
jq -e '.settings.resumed_after_step == 20' "$work/stopped/training/config.json" > /dev/null || fail "it began anew"
[ ! -e "$work/stopped/state.qsync" ] || fail "the state is left"

# Another folder of the same job has the profile from the cache; of another job it has not.
export QSYNC_CACHE="$work/cache/tuning.sqlite"
# shellcheck disable=SC2086
{
    "$QSYNC" run $job --until profile --out "$work/first" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "with a cache"; }
    grep -q 'profile  *measured' "$work/out" || fail "a profile from nowhere"
    "$QSYNC" run $job --epochs 3 --until profile --out "$work/second" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "from the cache"; }
    grep -q 'profile  *from the cache' "$work/out" || fail "the cache was not used"
    cmp -s "$work/first/profile.json" "$work/second/profile.json" || fail "the cache holds another profile"
    "$QSYNC" run $job --epochs 3 --fresh-profile --until profile --out "$work/third" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "fresh"; }
    grep -q 'profile  *measured' "$work/out" || fail "--fresh-profile took the cache's"
}
export QSYNC_CACHE=off

# What cannot go on says why, and what would.
# shellcheck disable=SC2086
{
    refuse 2 'the folder is of another command ("batch 16" there, "batch 8" here): another folder' run $job --batch 8 --out "$work/alone"
    refuse 2 'the folder is of another command ("planner qsync" there, "planner fp32" here)' run $job --planner fp32 --out "$work/alone"
    refuse 2 'wants 2 ranks, this run has 1: start it with mpirun -n 2' run --cluster "$folder/cluster.json" $job --out "$work/x"
    refuse 2 '--until nothing: there are profile, plan, verify, train, evaluate' run $job --until nothing --out "$work/x"
}
[ ! -e "$work/x" ] || fail "a refused run made its folder"
echo '{' > "$work/first/plan.json"
# shellcheck disable=SC2086
refuse 1 "$work/first/plan.json" run $job --out "$work/first"
finish
