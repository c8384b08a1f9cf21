#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What a plan that keeps pace is worth: two ranks, the weak one at 1, 0.6, 0.35 and again 1 of its pace by a trace, once with the plan made
# for 1, once adapting; and an oracle, which has the right plan from the first step of every part on and pays nothing for it: each part run
# by itself, under the plan for its pace. By turns, ADAPT_ROUNDS times; adaptive_of_oracle and fixed_of_oracle are ratios of the oracle's
# time to that of the run (of an adapting one with looks, planning and switches), medians of the rounds. Then with a real process on the weak rank's
# core in the middle third of a run, fixed and adapting. Writes the picture of docs/adapting.md, too.
# ADAPT_MODEL (resnet20/cifar10/32), ADAPT_PLANNER (qsync), ADAPT_STEPS of a part (600; a multiple of ADAPT_EVERY and of 50), ADAPT_EVERY (20),
# ADAPT_ORACLE_STEPS of a part of the oracle (half of ADAPT_STEPS), ADAPT_ROUNDS (1), ADAPT_REAL_STEPS of a third (300; 0: no real process).
# Files are kept in ADAPT_OUT (run/adapt); a profile that is there is not made again.
set -eu
cd "$(dirname "$0")/.."
bench_name=adapt
. bench/common.sh
. tools/launch.sh
: "${ADAPT_MODEL:=resnet20/cifar10/32}" "${ADAPT_PLANNER:=qsync}" "${ADAPT_STEPS:=600}" "${ADAPT_EVERY:=20}" "${ADAPT_ROUNDS:=1}" "${ADAPT_REAL_STEPS:=300}"
: "${ADAPT_ORACLE_STEPS:=$((ADAPT_STEPS / 2))}" "${ADAPT_OUT:=run/adapt}" "${ADAPT_PROFILE_OPTIONS:=}"
[ -n "${QSYNC_DATA:-}" ] || { [ -d ../shared/data/cifar10 ] && export QSYNC_DATA=../shared/data; } || export QSYNC_DATA=data
[ $((ADAPT_STEPS % ADAPT_EVERY + ADAPT_STEPS % 50)) -eq 0 ] || { echo "ADAPT_STEPS $ADAPT_STEPS: a multiple of ADAPT_EVERY $ADAPT_EVERY and of 50, the windows of a run that looks at nothing" >&2; exit 2; }
model=${ADAPT_MODEL%%/*} batch=${ADAPT_MODEL##*/} dataset=${ADAPT_MODEL#*/}
dataset=${dataset%/*} folder=$ADAPT_OUT paces="1 0.6 0.35 1"
mkdir -p "$folder"

cat > "$folder/cluster.json" << 'END'
{"schema": "qsync/cluster/2", "links": [], "classes": {
  "big": {"role": "training", "backend": "cpu", "count": 1, "formats": ["fp32"], "storage": ["fp32"], "memory": {"capacity": "8GiB", "limit": "100%"}},
  "weak": {"role": "inference", "backend": "cpu", "count": 1, "formats": ["fp32", "bf16", "int8"], "storage": ["fp32", "bf16", "int8"],
           "memory": {"capacity": "8GiB", "limit": "100%"}}}}
END
# shellcheck disable=SC2086
[ -f "$folder/profile.json" ] || must "$folder/log" launch 2 profile --cluster "$folder/cluster.json" --model "$model" --dataset "$dataset" \
    --batch "$batch" --out "$folder/profile.json" $ADAPT_PROFILE_OPTIONS

# The plan for a pace of the weak class, from a profile that is so much slower.
for pace in $(printf '%s\n' $paces | sort -u); do
    jq --argjson pace "$pace" 'def slowed($keys): with_entries(if .key | IN($keys[]) then .value /= $pace else . end);
        .classes.weak |= ((.kernels[].us |= slowed(["median", "low", "high", "us_per_cold_byte", "alone"]))
            | (.conversions[].pieces[] |= slowed(["us", "us_per_element"])))' \
        "$folder/profile.json" > "$folder/profile-$pace.json"
    must "$folder/log" "$QSYNC" plan --cluster "$folder/cluster.json" --profile "$folder/profile-$pace.json" --planner "$ADAPT_PLANNER" --dataset "$dataset" \
        --out "$folder/plan-$pace.json"
    echo "1 weak $pace" > "$folder/trace-$pace"
done
must "$folder/log" "$QSYNC" plan --cluster "$folder/cluster.json" --profile "$folder/profile.json" --planner "$ADAPT_PLANNER" --dataset "$dataset" --out "$folder/plan.json"
step=1
for pace in $paces; do
    echo "$step weak $pace"
    step=$((step + ADAPT_STEPS))
done > "$folder/trace"
steps=$((step - 1))

# train NAME PLAN STEPS OPTIONS...
train() {
    name=$1 plan=$2 most=$3
    shift 3
    echo "bench: $name" >&2
    must "$folder/$name.log" launch 2 train --cluster "$folder/cluster.json" --plan "$folder/$plan.json" --dataset "$dataset" --epochs 1000 --max-steps "$most" \
        --out "$folder/$name" "$@"
}
# run_json NAME: what the figures need of a run, as one line.
run_json() {
    jq -c --arg name "$1" --slurpfile result "$folder/$1/result.json" --slurpfile config "$folder/$1/config.json" --slurpfile lines "$folder/$1/metrics.jsonl" '
        {name: $name, accuracy: $result[0].test_accuracy, switches: ($result[0].replans // 0), adapting_seconds: (.adapting_seconds // 0),
         global_batch: $config[0].settings.global_batch, decisions: [$lines[] | select(.type == "adapt")],
         windows: ([to_entries[] | select(.key | startswith("window_us.")) | [(.key | ltrimstr("window_us.") | tonumber), .value]] | sort
             | . as $w | [range(length) as $i | [(if $i > 0 then $w[$i - 1][0] else 0 end), $w[$i][0], $w[$i][1]]])}' "$folder/$1/timing.json"
}
adapting="--adapt $folder/profile.json --adapt-every $ADAPT_EVERY"

: > "$folder/runs.jsonl"
round=1
while [ "$round" -le "$ADAPT_ROUNDS" ]; do
    for pace in $(printf '%s\n' $paces | sort -u); do
        train "oracle-$pace-$round" "plan-$pace" "$ADAPT_ORACLE_STEPS" --test-limit 100 --pace-trace "$folder/trace-$pace"
        run_json "oracle-$pace-$round" >> "$folder/runs.jsonl"
    done
    train "fixed-$round" plan "$steps" --pace-trace "$folder/trace"
    # shellcheck disable=SC2086
    train "adaptive-$round" plan "$steps" --pace-trace "$folder/trace" $adapting
    { run_json "fixed-$round"; run_json "adaptive-$round"; } >> "$folder/runs.jsonl"
    round=$((round + 1))
done

# ---- A real process ----

# The core that the second rank of a run is held to, as its main thread's mask says.
weak_core() {
    for status in /proc/[0-9]*/status; do
        process=${status%/status}
        [ "$(cat "$process/comm" 2> /dev/null)" = "$(basename "$QSYNC" | cut -c1-15)" ] || continue
        tr '\0' '\n' < "$process/environ" 2> /dev/null | grep -qx 'OMPI_COMM_WORLD_RANK=1' || continue
        tr '\0' '\n' < "$process/cmdline" | grep -qxF "$folder/$1" || continue
        sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "$status" 2> /dev/null
    done
}
# Steps that a run has reported.
steps_done() {
    reported=$(tail -n 1 "$folder/$1/metrics.jsonl" 2> /dev/null | jq -r '.step // .steps // 0' 2> /dev/null)
    echo "${reported:-0}"
}
# load_middle NAME PROCESS: loads that core while the run is in its middle third.
load_middle() {
    while [ "$(steps_done "$1")" -lt "$ADAPT_REAL_STEPS" ] && kill -0 "$2" 2> /dev/null; do sleep 0.2; done
    core=$(weak_core "$1")
    [ -n "$core" ] || { echo "bench: the weak rank of $1 was not found, nothing loads its core" >&2; return 1; }
    taskset -c "$core" sh -c 'while :; do :; done' &
    loader=$!
    while [ "$(steps_done "$1")" -lt $((2 * ADAPT_REAL_STEPS)) ] && kill -0 "$2" 2> /dev/null; do sleep 0.2; done
    kill "$loader"
}
if [ "$ADAPT_REAL_STEPS" -gt 0 ]; then
    for name in real-fixed real-adaptive; do
        [ "$name" = real-adaptive ] && options=$adapting || options="--pace-trace $folder/trace-1"
        rm -rf "${folder:?}/$name"
        # shellcheck disable=SC2086
        train "$name" plan $((3 * ADAPT_REAL_STEPS)) --test-limit 100 $options &
        running=$!
        load_middle "$name" "$running"
        wait "$running"
        run_json "$name" >> "$folder/runs.jsonl"
    done
fi

jq -s --argjson part "$ADAPT_STEPS" --argjson third "$ADAPT_REAL_STEPS" --argjson paces "$(echo "[$paces]" | tr ' ' ',')" --arg model "$ADAPT_MODEL" --arg planner "$ADAPT_PLANNER" \
    --argjson every "$ADAPT_EVERY" -f bench/adapt_figures.jq "$folder/runs.jsonl" > "$folder/figures.json"
bench_write "$folder/figures.json"
jq -f bench/adapt_picture.jq bench/results/adapt.json | "$QSYNC" plot - --out docs/pictures/adapting.svg
jq '.figures | {adaptive_of_oracle, fixed_of_oracle, switches, accuracy, real: (.real // {} | map_values(del(.decisions?)))}' bench/results/adapt.json
