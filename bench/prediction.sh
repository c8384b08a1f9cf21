#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# How well iteration times and memory are predicted. In each of several rounds every model is profiled for each group of ranks, with as many
# ranks at work as the job has, and every plan of a fixed list is timed in turn with the profile's own plans (`profile --check`): visits of
# fifty consecutive steps after one that is not timed, two visits or more, of which the slowest rank's median counts. No figure of the profile
# comes from them. So both see the same fast and slow minutes of a shared machine, and what differs is the prediction. Beside it stands the
# median without the steps in which a rank's kernels took 5 % more than they usually do (undisturbed). A cell's figures are the medians over the
# rounds.
# Some of the plans are then trained for 56 steps in a process of their own, minutes after the profile: the errors that a user sees, the
# machine's change of pace among them, and memory (later, rss_error).
#
# Plans: one recipe for all operators (profiling runs these too), three blocks lower than the rest, random mixes that no profile has seen.
# Groups: native (one rank), limited (one rank under an instruction-set ceiling, fp32 and int8), two (native fp32/bf16 beside a native rank
# with int8), four (two of each; more ranks than cores on small machines: reported, not bounded); on devices that make recordings of kernels
# one_by_one: native, without them.
# Gradients are summed as PREDICTION_ALL_REDUCE says (shared).
# Kernels timed by themselves, out of cache or in a hot loop, and in steps without regard to what is cold: predictions from such profiles stand
# beside the others (contexts).
# PREDICTION_BACKEND (cpu): of the devices, in PREDICTION_FORMATS (fp32 bf16 int8).
# Transformers learn sentences (sst2), decoders bytes (tinyshakespeare), with Adam; a slash stands for the colon in their names.
# PREDICTION_NAME (prediction): of the results; PREDICTION_CONTEXTS (yes): also kernels timed by themselves.
# PREDICTION_MODELS (model:batch ...), PREDICTION_LENGTH (of texts, 128), PREDICTION_GROUPS (group:mixes ...), PREDICTION_ROUNDS (3),
# PREDICTION_LATER (plans to train),
# PREDICTION_REPETITIONS (18: 9 to 18 rounds of visits), PREDICTION_OUT: a run goes on with what is there; remove the folder to start anew.
set -eu
cd "$(dirname "$0")/.."
bench_name=${PREDICTION_NAME:-prediction}
. bench/common.sh
. tools/launch.sh
: "${PREDICTION_ALL_REDUCE:=shared}" "${PREDICTION_MODELS:=resnet20:32 vgg11_bn:16 mobilenet_v2:16}" "${PREDICTION_ROUNDS:=3}" \
    "${PREDICTION_GROUPS:=native:20 limited:2 two:6 four:0}" "${PREDICTION_LATER=fp32 half int8 mix0}" "${PREDICTION_REPETITIONS:=18}" \
    "${PREDICTION_BACKEND:=cpu}" "${PREDICTION_FORMATS:=fp32 bf16 int8}" "${PREDICTION_OUT:=run/$bench_name}" "${PREDICTION_CONTEXTS:=yes}" "${PREDICTION_LENGTH:=128}"
[ -n "${QSYNC_DATA:-}" ] || { [ -d ../shared/data/cifar10 ] && export QSYNC_DATA=../shared/data; } || true
images=shapes
[ -d "${QSYNC_DATA:-}/cifar10" ] && images=cifar10
out=$PREDICTION_OUT
mkdir -p "$out"
rows=$out/rows.jsonl
touch "$rows"

# The lowest ceiling under which this CPU multiplies int8.
ceiling=avx512_core_vnni
"$QSYNC" devices --isa avx2_vnni --json | jq -e '[.devices[] | select(.backend == "cpu") | .formats[]] | index("int8")' > /dev/null && ceiling=avx2_vnni
class() { # name role count isa formats [fields]
    [ "$PREDICTION_BACKEND" != cpu ] || printf '"%s": {"role": "%s", "backend": "cpu", "count": %s, "cpu": {"isa": "%s"}, "speed": 1,
        "formats": [%s], "storage": [%s], "memory": {"capacity": "8GiB", "limit": "100%%"}}' "$1" "$2" "$3" "$4" "$5" "$5"
    [ "$PREDICTION_BACKEND" = cpu ] || printf '"%s": {"role": "%s", "backend": "%s", "count": %s, "speed": 1, "formats": [%s], "storage": [%s],
        "memory": {"capacity": "16GiB", "limit": "100%%"}%s}' "$1" "$2" "$PREDICTION_BACKEND" "$3" "$5" "$5" "${6:+, $6}"
}
cluster() { # group
    big='"fp32", "bf16"' all=$(echo "\"$PREDICTION_FORMATS\"" | sed 's/ /", "/g')
    case $1 in
    native) classes=$(class one inference 1 all "$all") ;;
    one_by_one) classes=$(class one inference 1 all "$all" "\"$PREDICTION_BACKEND\": {\"record\": \"no\"}") ;;
    limited) classes=$(class one inference 1 $ceiling '"fp32", "int8"') ;;
    two) classes="$(class big training 1 all "$big"), $(class weak inference 1 all "$all")" ;;
    four) classes="$(class big training 2 all "$big"), $(class weak inference 2 all "$all")" ;;
    esac
    echo "{\"schema\": \"qsync/cluster/2\", \"classes\": {$classes}, \"links\": []}"
}
# What a model learns, and how: `dataset` and `optimizer`.
task_of() { # model
    dataset=$images optimizer=sgd
    case $1 in
    bert* | minilm* | roberta*) dataset=sst2:length=$PREDICTION_LENGTH optimizer=adam ;;
    gpt2* | llama*) dataset=tinyshakespeare:vocab=bytes,length=$PREDICTION_LENGTH optimizer=adam ;;
    vit*) optimizer=adam ;;
    esac
}
ranks_of() {
    case $1 in two) echo 2 ;; four) echo 4 ;; *) echo 1 ;; esac
}

# Predictions of a plan from another profile than the one it was timed with: pins carry no signature.
simulate() { # folder plan profile
    "$QSYNC" simulate --json --cluster "$1/cluster.json" --profile "$1/$3.json" --plan "$1/$2.pins" | jq .iteration_us
}
train_later() { # group folder plan
    must "$2/log" "$QSYNC" plan --cluster "$2/cluster.json" --profile "$2/profile.json" --planner qsync --pins "$2/$3.pins" --all-reduce "$PREDICTION_ALL_REDUCE" \
        --dataset "$dataset" --optimizer "$optimizer" --out "$2/plan.json"
    must "$2/log" launch "$(ranks_of "$1")" train --cluster "$2/cluster.json" --plan "$2/plan.json" --dataset "$dataset" --all-reduce "$PREDICTION_ALL_REDUCE" \
        --max-steps 56 --test-limit 64 --out "$2/run"
    jq -nc --slurpfile timing "$2/run/timing.json" --slurpfile audit "$2/run/audit.json" '{measured_us: $timing[0].median_step_us,
        recorded: any($audit[0].ranks[]; .recorded), kernel_by_kernel_us: ([$audit[0].ranks[].iteration_us] | max),
        rss: [$audit[0].ranks[].memory.rss.error_percent], arena: [$audit[0].ranks[].memory.arena]}'
}
cell() { # round group model folder plan
    contexts=null later=null
    [ ! -f "$4/hot.json" ] || contexts="{\"hot\": $(simulate "$4" "$5" hot), \"cold\": $(simulate "$4" "$5" cold), \"mean\": $(simulate "$4" "$5" mean)}"
    case " $PREDICTION_LATER " in *" $5 "*) later=$(train_later "$2" "$4" "$5") ;; esac
    jq -c --argjson round "$1" --arg group "$2" --arg model "$3" --arg plan "$5" --argjson ranks "$(ranks_of "$2")" --argjson contexts "$contexts" \
        --argjson later "$later" '.checks[] | select(.plan | endswith("/\($plan).pins"))
        | {round: $round, group: $group, model: $model, ranks: $ranks, plan: $plan, predicted_us, no_casts_us, measured_us, undisturbed, median_us, steps,
           confidence, contexts: $contexts, later: $later}' "$4/profile.json" >> "$rows"
    tail -n 1 "$rows" | jq -r 'def error($m): 10000 * (.predicted_us / $m - 1) | round / 100;
        "  \(.group) \(.model) \(.plan): \(.predicted_us / 10 | round / 100) ms predicted, \(.median_us / 10 | round / 100) measured, \(error(.median_us)) %"
        + (if .later then ", later \(error(.later.measured_us)) %, rss \(.later.rss)" else "" end)' >&2
}

profile() { # group model batch folder name options...
    group=$1 model=$2 batch=$3 folder=$4 name=$5
    shift 5
    must "$folder/log" launch "$(ranks_of "$group")" profile --cluster "$folder/cluster.json" --model "$model" --dataset "$dataset" --batch "$batch" \
        --optimizer "$optimizer" --all-reduce "$PREDICTION_ALL_REDUCE" --conversion-seconds 3 --statistics-iterations 2 --fresh --out "$folder/$name.json" "$@"
}

rows_of() { # round group model
    jq -c --argjson round "$1" --arg group "$2" --arg model "$3" 'select(.round == $round and .group == $group and .model == $model)' "$rows"
}

group_run() { # round group model batch mixes
    folder=$out/$2-$(echo "$3" | tr ':=,' '---')
    task_of "$3"
    if [ ! -d "$folder" ]; then
        mkdir -p "$folder"
        cluster "$2" > "$folder/cluster.json"
        "$QSYNC" inspect --json "$3" | jq --argjson mixes "$5" --argjson cluster "$(cat "$folder/cluster.json")" -f bench/prediction_plans.jq \
            > "$folder/plans.json"
        for plan in $(jq -r 'keys_unsorted[]' "$folder/plans.json"); do
            jq --arg model "$3" --arg dataset "$dataset" --argjson batch "$4" --arg optimizer "$optimizer" \
                ".[\"$plan\"] + {job: {model: \$model, dataset: \$dataset, batch: \$batch, optimizer: {name: \$optimizer},
                buckets: {bytes: 1048576, wire: \"fp32\", algorithm: \"$PREDICTION_ALL_REDUCE\"}}}" "$folder/plans.json" > "$folder/$plan.pins"
        done
        if [ "$2" = native ] && [ "$PREDICTION_CONTEXTS" = yes ]; then
            profile "$2" "$3" "$4" "$folder" hot --kernels hot --repetitions 4
            profile "$2" "$3" "$4" "$folder" cold --kernels cold --repetitions 4
        fi
    fi
    [ "$(rows_of "$1" "$2" "$3" | wc -l)" -lt "$(jq length "$folder/plans.json")" ] || return 0
    jq -c --argjson round "$1" --arg group "$2" --arg model "$3" 'select(.round != $round or .group != $group or .model != $model)' "$rows" \
        > "$rows.new"
    mv "$rows.new" "$rows"
    echo "prediction: round $1, $2, $3, batch $4" >&2
    plans=$(jq -r 'keys_unsorted[]' "$folder/plans.json")
    profile "$2" "$3" "$4" "$folder" profile --repetitions "$PREDICTION_REPETITIONS" \
        --check "$(for plan in $plans; do echo "$folder/$plan.pins"; done | paste -sd, -)"
    jq 'del(.classes[].cpu.cache_bytes)' "$folder/profile.json" > "$folder/mean.json"
    jq -c '.classes | to_entries[] | {class: .key} + .value.quality' "$folder/profile.json" >&2
    for plan in $plans; do
        cell "$1" "$2" "$3" "$folder" "$plan"
    done
}

for round in $(seq "$PREDICTION_ROUNDS"); do
    for entry in $PREDICTION_MODELS; do
        for group in $PREDICTION_GROUPS; do
            group_run "$round" "${group%%:*}" "$(echo "${entry%%:*}" | tr / :)" "${entry##*:}" "${group##*:}"
        done
    done
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
jq -s --rawfile indicator experiments/indicator/results.csv -f bench/prediction_figures.jq "$rows" > "$work/figures.json"
bench_write "$work/figures.json"
jq -r '.figures.table[]' "bench/results/$bench_name.json"
