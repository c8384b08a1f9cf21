#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# Traces are what Perfetto and chrome://tracing read: those of a run, of its prediction and of both side by side keep the rules of the
# trace event format (trace.jq), and a trace that breaks one is told.
. "$(dirname "$0")/check.inc"
folder=$(dirname "$0")
job="--model lenet5 --dataset shapes --batch 16"
# shellcheck disable=SC2086
q() { "$QSYNC" "$@" $job > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "$1"; }; }

# One rank, recipes mixed by hand: casts are on the timeline too.
jq '.classes = {single: (.classes.weak | .speed = 1 | .role = "training" | .memory.limit = "100%")} | .links = []' "$folder/cluster.json" > "$work/one.json"
"$QSYNC" inspect lenet5 --json | jq '[.nodes[] | select(.class == "adjustable").name] | to_entries |
    map({key: .value, value: {recipe: ["fp32", "bf16"][.key % 2], pin: true}}) |
    {schema: "qsync/plan/2", classes: {single: {operators: from_entries}}}' > "$work/pins.json"
q profile --cluster "$work/one.json" --repetitions 2 --statistics-iterations 2 --conversion-seconds 1 --out "$work/profile.json"
q plan --cluster "$work/one.json" --profile "$work/profile.json" --pins "$work/pins.json" --epochs 1 --out "$work/plan.json"
q train --cluster "$work/one.json" --plan "$work/plan.json" --max-steps 30 --test-limit 64 --trace --out "$work/run"
files="--cluster $work/one.json --profile $work/profile.json --plan $work/plan.json"
# shellcheck disable=SC2086
{
    "$QSYNC" simulate $files --trace "$work/predicted.json" > "$work/out" || fail "simulate --trace"
    "$QSYNC" simulate $files --trace "$work/both.json" --measured "$work/run" > "$work/out" || fail "simulate --trace --measured"
}

for trace in run/trace.json predicted.json both.json; do
    keeps_rules "$work/$trace"
    jq -e '[.traceEvents[] | select(.ph == "X") | .tid] | unique | contains([0, 1, 2])' "$work/$trace" > "$work/out" ||
        fail "$trace: data, compute or casts are missing"
done

# breaks TEXT FILTER: the measured trace, changed by the filter, is told with the text.
first='first(.traceEvents | to_entries[] | select(.value.ph == "X" and .value.tid == 1) | .key)'
breaks() {
    jq "$first as \$x | $2" "$work/run/trace.json" > "$work/broken.json" || fail "the filter $2"
    jq -r -f "$folder/trace.jq" "$work/broken.json" > "$work/out"
    grep -qF -- "$1" "$work/out" || { cat "$work/out"; fail "not told: $1"; }
}
breaks 'ph must be' 'del(.traceEvents[$x].ph)'
breaks 'name must be' 'del(.traceEvents[$x].name)'
breaks 'pid must be' 'del(.traceEvents[$x].pid)'
breaks 'tid must be' 'del(.traceEvents[$x].tid)'
breaks 'tid must be' '.traceEvents[$x].tid = 1.5'
breaks 'ts of a complete event' '.traceEvents[$x].ts = -0.001'
breaks 'dur of a complete event' 'del(.traceEvents[$x].dur)'
breaks 'args must be' '.traceEvents[$x].args = ["case"]'
breaks 'args.name must be' '(.traceEvents[] | select(.name == "process_name") | .args) = {}'
breaks 'process 0 has no process_name' 'del(.traceEvents[] | select(.name == "process_name"))'
breaks 'thread 1 of process 0 has no thread_name' 'del(.traceEvents[] | select(.name == "thread_name" and .tid == 1))'
breaks 'process 0 is named 2 times' '.traceEvents += [.traceEvents[] | select(.name == "process_name")]'
breaks ', before ' '.traceEvents[$x].dur += 10000'
breaks ', before ' '.traceEvents += [.traceEvents[$x] | .ts += .dur / 2]'
breaks 'no complete event' '.traceEvents |= map(select(.ph == "M"))'
breaks 'traceEvents must be an array' 'del(.traceEvents)'
breaks 'must be an object' '.traceEvents += [[]]'
finish
