#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A far class, predicted and measured: profiled, planned in fp32, trained, over links of several speeds, alone and beside a class of this
# machine. Writes results.csv.
#
# FAR_LINKS: BYTES_PER_SECOND/LATENCY_US ...; FAR_MODELS: MODEL/DATASET/BATCH ...; FAR_BESIDE: "no" (the far class alone), "cpu" (a rank of
# each); FAR_STEPS: of each training; FAR_OUT: folder of the runs (run/far).
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
: "${FAR_LINKS:=8e9/20 1e9/100 2e8/500}" "${FAR_MODELS:=lenet5/shapes/64 resnet8/shapes/32}" "${FAR_BESIDE:=no cpu}" "${FAR_STEPS:=200}"
: "${FAR_OUT:=run/far}"

one() { # BESIDE MODEL DATASET BATCH BYTES_PER_SECOND LATENCY_US
    folder=$FAR_OUT/$1-$2-$5-$6
    rm -rf "$folder"
    mkdir -p "$folder"
    jq -n --arg beside "$1" --argjson bytes "$5" --argjson latency "$6" '
        {away: {role: "training", backend: "far", far: {runs: "cpu", bytes_per_second: $bytes, latency_us: $latency}, formats: ["fp32"]}}
        + if $beside == "cpu" then {near: {role: "training", backend: "cpu", formats: ["fp32"]}} else {} end
        | {schema: "qsync/cluster/2", classes: ., links: []}' > "$folder/cluster.json"
    ranks=$([ "$1" = no ] && echo 1 || echo 2)
    profile_once "$ranks" "$folder" "$2" "$3" "$4" --statistics-iterations 1
    must "$folder/log" "$QSYNC" plan --cluster "$folder/cluster.json" --profile "$folder/profile.json" --planner fp32 --dataset "$3" \
        --out "$folder/plan.json"
    must "$folder/log" launch "$ranks" train --cluster "$folder/cluster.json" --plan "$folder/plan.json" --max-steps "$FAR_STEPS" \
        --test-limit 64 --out "$folder/run"
    jq -r --arg beside "$1" --arg model "$2" --arg batch "$4" --arg bytes "$5" --arg latency "$6" --slurpfile profile "$folder/profile.json" '
        def short: . * 10 | round / 10;
        ($profile[0].classes.away.copies) as $copies
        | [$beside, $model, $batch, $bytes, $latency, ($copies.in_us | short), (1 / $copies.in_us_per_byte | round),
           ($copies.out_us | short), (1 / $copies.out_us_per_byte | round), (.iteration_us.predicted | short),
           (.iteration_us.measured | short), (.iteration_us.error_percent | short), (.ranks[0].phases.data_us.predicted | short),
           (.ranks[0].phases.data_us.measured | short)]
        | map(tostring) | join(",")' "$folder/run/audit.json"
}

{
    echo "beside,model,batch,bytes_per_second,latency_us,in_us,in_bytes_per_us,out_us,out_bytes_per_us,predicted_us,measured_us,error_percent,data_predicted_us,data_measured_us"
    for beside in $FAR_BESIDE; do
        for task in $FAR_MODELS; do
            for link in $FAR_LINKS; do
                rest=${task#*/}
                one "$beside" "${task%%/*}" "${rest%/*}" "${task##*/}" "${link%/*}" "${link#*/}"
            done
        done
    done
} | publish results.csv
