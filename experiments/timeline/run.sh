#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One iteration of two unlike ranks before and after: fp32 (weak is late), uniform low precision (weak is early and waits) and the plan of
# qsync, which spends the waiting on precision. Timelines are those of the predictor, on the cluster of experiments/allocation.
# Writes results.csv, table.md and picture.svg. A profile that is there is not made again.
#
# TIMELINE_MODEL: MODEL/DATASET/BATCH; TIMELINE_PLANNERS; TIMELINE_OUT: profile and plans (run/timeline), another one for another model;
# TIMELINE_PROFILE_OPTIONS: more for profile.
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
: "${TIMELINE_MODEL:=vgg11_bn/cifar10/64}" "${TIMELINE_PLANNERS:=fp32 uniform qsync}" "${TIMELINE_OUT:=run/timeline}" "${TIMELINE_PROFILE_OPTIONS:=}"
model=${TIMELINE_MODEL%%/*} batch=${TIMELINE_MODEL##*/} dataset=${TIMELINE_MODEL#*/}
dataset=${dataset%/*} folder=$TIMELINE_OUT

mkdir -p "$folder"
cluster "$(class big training 1 1 100% '"fp32"'), $(class weak inference 1 0.8 100% "$all_formats")" > "$folder/cluster.json"
# shellcheck disable=SC2086
profile_once 2 "$folder" "$model" "$dataset" "$batch" $TIMELINE_PROFILE_OPTIONS
for planner in $TIMELINE_PLANNERS; do
    must "$folder/log" "$QSYNC" plan --cluster "$folder/cluster.json" --profile "$folder/profile.json" --planner "$planner" --dataset "$dataset" \
        --out "$folder/$planner.json"
    "$QSYNC" simulate --json --cluster "$folder/cluster.json" --profile "$folder/profile.json" --plan "$folder/$planner.json" \
        --trace "$folder/$planner.trace.json" > "$folder/$planner.simulated.json"
done

{
    echo "model,planner,iteration_us,rank,class,lane,start_us,end_us"
    for planner in $TIMELINE_PLANNERS; do
        jq -r --arg model "$model" --arg planner "$planner" '
            def short: . * 1000 | round / 1000;
            (.traceEvents | map(select(.name == "process_name") | {key: "\(.pid)", value: (.args.name | sub(".*\\("; "") | rtrimstr(")"))}) | from_entries)
                as $class
            | .qsync.iteration_us as $iteration | .traceEvents[] | select(.ph == "X")
            | (if .tid == 1 then .args.phase else ["data", "", "cast", "communication", "idle"][.tid] end) as $lane
            | [$model, $planner, ($iteration | short), .pid, $class["\(.pid)"], $lane, (.ts | short), (.ts + .dur | short)] | map(tostring) | join(",")' \
            "$folder/$planner.trace.json"
    done
} | publish results.csv
{
    printf '%s batch 2 x %s, predicted. Written by run.sh.\n\n' "$model, $dataset," "$batch"
    echo "| plan | iteration, ms | images/s | operators of weak | ΣΩ | big waits, ms | weak waits, ms | weak casts, ms |"
    echo "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for planner in $TIMELINE_PLANNERS; do
        jq -nr -L experiments --arg planner "$planner" --slurpfile now "$folder/$planner.simulated.json" --slurpfile plan "$folder/$planner.json" '
            include "csv";
            def of($name): $now[0].classes[] | select(.class == $name);
            ($plan[0].classes.weak.operators | [.[] | if type == "object" then .recipe else . end] | group_by(.) | map("\(length) \(.[0])") | join("; ")) as $counts
            | [$planner, ($now[0].iteration_us / 1000 | fixed(1)), ($now[0].samples_per_second | fixed(0)), $counts,
               ([$plan[0].classes[].predicted.sum_omega] | add | brief), (of("big").waiting_us / 1000 | fixed(1)), (of("weak").waiting_us / 1000 | fixed(1)),
               (of("weak").phases.cast_us / 1000 | fixed(1))] | row'
    done
} | publish table.md
sh "$experiment/picture.sh"
cat "$EXPERIMENT_RESULTS/table.md"
