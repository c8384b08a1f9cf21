#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A far class, predicted and measured: profiled, planned in fp32, trained, over links of several speeds. Writes results.csv.
#
# FAR_LINKS: BYTES_PER_SECOND/LATENCY_US ...; FAR_MODELS: MODEL/DATASET/BATCH ...; FAR_STEPS: of each training; FAR_OUT: folder of the runs
# (run/far).
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
: "${FAR_LINKS:=8e9/20 1e9/100 2e8/500}" "${FAR_MODELS:=lenet5/shapes/64 resnet8/shapes/32}" "${FAR_STEPS:=200}" "${FAR_OUT:=run/far}"

one() { # MODEL DATASET BATCH BYTES_PER_SECOND LATENCY_US
    folder=$FAR_OUT/$1-$4-$5
    rm -rf "$folder"
    mkdir -p "$folder"
    jq -n --argjson bytes "$4" --argjson latency "$5" '{schema: "qsync/cluster/2", classes: {away: {role: "training", backend: "far",
        far: {runs: "cpu", bytes_per_second: $bytes, latency_us: $latency}, formats: ["fp32"]}}, links: []}' > "$folder/cluster.json"
    must "$folder/log" "$QSYNC" profile --cluster "$folder/cluster.json" --model "$1" --dataset "$2" --batch "$3" --statistics-iterations 1 \
        --out "$folder/profile.json"
    must "$folder/log" "$QSYNC" plan --cluster "$folder/cluster.json" --profile "$folder/profile.json" --planner fp32 --dataset "$2" \
        --out "$folder/plan.json"
    must "$folder/log" "$QSYNC" train --cluster "$folder/cluster.json" --plan "$folder/plan.json" --max-steps "$FAR_STEPS" --test-limit 64 \
        --out "$folder/run"
    jq -r --arg model "$1" --arg batch "$3" --arg bytes "$4" --arg latency "$5" --slurpfile profile "$folder/profile.json" '
        def short: . * 10 | round / 10;
        ($profile[0].classes.away.copies) as $copies
        | [$model, $batch, $bytes, $latency, ($copies.in_us | short), (1 / $copies.in_us_per_byte | round), ($copies.out_us | short),
           (1 / $copies.out_us_per_byte | round), (.iteration_us.predicted | short), (.iteration_us.measured | short),
           (.iteration_us.error_percent | short), (.ranks[0].phases.data_us.predicted | short), (.ranks[0].phases.data_us.measured | short)]
        | map(tostring) | join(",")' "$folder/run/audit.json"
}

{
    echo "model,batch,bytes_per_second,latency_us,in_us,in_bytes_per_us,out_us,out_bytes_per_us,predicted_us,measured_us,error_percent,data_predicted_us,data_measured_us"
    for model in $FAR_MODELS; do
        for link in $FAR_LINKS; do
            dataset=${model#*/}
            one "${model%%/*}" "${dataset%/*}" "${model##*/}" "${link%/*}" "${link#*/}"
        done
    done
} | publish results.csv
