#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# How well iteration times and memory are predicted. In each of several rounds every model is profiled for each group of ranks, with as many
# ranks at work as the job has; then every plan of a fixed list is predicted, with and without the costs of conversions, and trained for 56
# steps in a process of its own. Measured is the median step of the slowest rank over the last 51. A shared machine is faster in one minute
# than in the next: a cell's figures are the medians over the rounds, of predictions and of measurements; how far single measurements of one
# plan lie apart is the noise, and errors of single rounds (one profile, one run) are reported too.
#
# Plans: one recipe for all operators (profiling runs these too), three blocks lower than the rest, random mixes that no profile has seen.
# Groups: native (one rank), limited (one rank under an instruction-set ceiling, fp32 and int8), two (native fp32/bf16 beside a native rank
# with int8), four (two of each; more ranks than cores on small machines: reported, not bounded).
# Gradients are summed as PREDICTION_ALL_REDUCE says (shared).
# Kernels timed by themselves, out of cache or in a hot loop, and in steps without regard to what is cold: predictions from such profiles stand
# beside the others (contexts).
# PREDICTION_MODELS (model:batch ...), PREDICTION_GROUPS (group:mixes ...), PREDICTION_ROUNDS (3), PREDICTION_OUT: a run goes on with what is
# there; remove the folder to start anew.
set -eu
cd "$(dirname "$0")/.."
bench_name=prediction
. bench/common.sh
. tools/launch.sh
: "${QSYNC:=build/release/qsync}" "${PREDICTION_ALL_REDUCE:=shared}" "${PREDICTION_MODELS:=resnet20:32 vgg11_bn:16 mobilenet_v2:16}" "${PREDICTION_ROUNDS:=3}" \
    "${PREDICTION_GROUPS:=native:20 limited:2 two:6 four:0}" "${PREDICTION_OUT:=run/prediction}"
[ -n "${QSYNC_DATA:-}" ] || { [ -d ../shared/data/cifar10 ] && export QSYNC_DATA=../shared/data; } || true
dataset=shapes
[ -d "${QSYNC_DATA:-}/cifar10" ] && dataset=cifar10
out=$PREDICTION_OUT
mkdir -p "$out"
rows=$out/rows.jsonl
touch "$rows"

# The lowest ceiling under which this CPU multiplies int8.
ceiling=avx512_core_vnni
"$QSYNC" devices --isa avx2_vnni --json | jq -e '[.devices[] | select(.backend == "cpu") | .formats[]] | index("int8")' > /dev/null && ceiling=avx2_vnni
class() { # name role count isa formats
    printf '"%s": {"role": "%s", "backend": "cpu", "count": %s, "threads": 1, "isa": "%s", "speed": 1, "formats": [%s], "storage": [%s],
        "memory": {"capacity": "8GiB", "limit": "100%%"}}' "$1" "$2" "$3" "$4" "$5" "$5"
}
cluster() { # group
    big='"fp32", "bf16"' all='"fp32", "bf16", "int8"'
    case $1 in
    native) classes=$(class one inference 1 all "$all") ;;
    limited) classes=$(class one inference 1 $ceiling '"fp32", "int8"') ;;
    two) classes="$(class big training 1 all "$big"), $(class weak inference 1 all "$all")" ;;
    four) classes="$(class big training 2 all "$big"), $(class weak inference 2 all "$all")" ;;
    esac
    echo "{\"schema\": \"qsync/cluster/1\", \"classes\": {$classes}, \"links\": []}"
}
ranks_of() {
    case $1 in two) echo 2 ;; four) echo 4 ;; *) echo 1 ;; esac
}

# Predictions of a plan from a profile, whoever made it: pins carry no signature.
simulate() { # folder plan profile options...
    folder=$1 plan=$2 from=$3
    shift 3
    "$QSYNC" simulate --json --cluster "$folder/cluster.json" --profile "$folder/$from.json" --plan "$folder/$plan.pins" "$@" | jq .iteration_us
}
cell() { # round group model folder plan
    count=$(ranks_of "$2")
    must "$4/log" "$QSYNC" plan --cluster "$4/cluster.json" --profile "$4/profile.json" --planner qsync --pins "$4/$5.pins" --all-reduce "$PREDICTION_ALL_REDUCE" \
        --out "$4/plan.json"
    must "$4/log" launch "$count" train --cluster "$4/cluster.json" --plan "$4/plan.json" --dataset $dataset --all-reduce "$PREDICTION_ALL_REDUCE" --max-steps 56 \
        --test-limit 64 \
        --out "$4/run"
    contexts=null
    [ ! -f "$4/hot.json" ] || contexts="{\"hot\": $(simulate "$4" "$5" hot), \"cold\": $(simulate "$4" "$5" cold), \"mean\": $(simulate "$4" "$5" mean)}"
    jq -nc --argjson round "$1" --arg group "$2" --arg model "$3" --arg plan "$5" --argjson ranks "$count" \
        --argjson predicted "$(simulate "$4" "$5" profile)" --argjson casts "$(simulate "$4" "$5" profile --no-casts)" --argjson contexts "$contexts" \
        --slurpfile timing "$4/run/timing.json" --slurpfile audit "$4/run/audit.json" \
        '{round: $round, group: $group, model: $model, ranks: $ranks, plan: $plan, predicted_us: $predicted, no_casts_us: $casts,
          measured_us: $timing[0].median_step_us, contexts: $contexts,
          rss: [$audit[0].ranks[].memory.rss.error_percent], arena: [$audit[0].ranks[].memory.arena]}' >> "$rows"
    tail -n 1 "$rows" | jq -r '"  \(.group) \(.model) \(.plan): \(.predicted_us / 10 | round / 100) ms predicted, \(.measured_us / 10 | round / 100) measured, "
        + "\(10000 * (.predicted_us / .measured_us - 1) | round / 100) %, rss \(.rss)"' >&2
}

profile() { # group model batch folder name options...
    group=$1 model=$2 batch=$3 folder=$4 name=$5
    shift 5
    must "$folder/log" launch "$(ranks_of "$group")" profile --cluster "$folder/cluster.json" --model "$model" --dataset $dataset --batch "$batch" \
        --all-reduce "$PREDICTION_ALL_REDUCE" --repetitions 4 --conversion-seconds 3 --statistics-iterations 2 --fresh --out "$folder/$name.json" "$@"
}

rows_of() { # round group model
    jq -c --argjson round "$1" --arg group "$2" --arg model "$3" 'select(.round == $round and .group == $group and .model == $model)' "$rows"
}

group_run() { # round group model batch mixes
    folder=$out/$2-$3
    if [ ! -d "$folder" ]; then
        mkdir -p "$folder"
        cluster "$2" > "$folder/cluster.json"
        "$QSYNC" inspect --json "$3" | jq --argjson mixes "$5" --argjson cluster "$(cat "$folder/cluster.json")" -f bench/prediction_plans.jq \
            > "$folder/plans.json"
        for plan in $(jq -r 'keys_unsorted[]' "$folder/plans.json"); do
            jq --arg model "$3" --arg dataset $dataset --argjson batch "$4" \
                ".[\"$plan\"] + {job: {model: \$model, dataset: \$dataset, batch: \$batch,
                buckets: {bytes: 1048576, wire: \"fp32\", algorithm: \"$PREDICTION_ALL_REDUCE\"}}}" "$folder/plans.json" > "$folder/$plan.pins"
        done
        if [ "$2" = native ]; then
            profile "$2" "$3" "$4" "$folder" hot --kernels hot
            profile "$2" "$3" "$4" "$folder" cold --kernels cold
        fi
    fi
    [ "$(rows_of "$1" "$2" "$3" | wc -l)" -lt "$(jq length "$folder/plans.json")" ] || return 0
    jq -c --argjson round "$1" --arg group "$2" --arg model "$3" 'select(.round != $round or .group != $group or .model != $model)' "$rows" \
        > "$rows.new"
    mv "$rows.new" "$rows"
    echo "prediction: round $1, $2, $3, batch $4" >&2
    profile "$2" "$3" "$4" "$folder" profile
    jq 'del(.classes[].cache_bytes)' "$folder/profile.json" > "$folder/mean.json"
    jq -c '.classes | to_entries[] | {class: .key} + .value.quality' "$folder/profile.json" >&2
    for plan in $(jq -r 'keys_unsorted[]' "$folder/plans.json"); do
        cell "$1" "$2" "$3" "$folder" "$plan"
    done
}

for round in $(seq "$PREDICTION_ROUNDS"); do
    for entry in $PREDICTION_MODELS; do
        for group in $PREDICTION_GROUPS; do
            group_run "$round" "${group%%:*}" "${entry%%:*}" "${entry##*:}" "${group##*:}"
        done
    done
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
jq -s --rawfile indicator experiments/indicator/results.csv -f bench/prediction_figures.jq "$rows" > "$work/figures.json"
bench_write "$work/figures.json"
jq -r '.figures.table[]' "bench/results/$bench_name.json"
