#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# How well iteration times and memory are predicted. Every model is profiled once for each group of ranks, with as many ranks at work as the
# job has; then every plan of a fixed list is predicted, with and without the costs of conversions, and trained for 60 steps in a process of
# its own. Measured is the median step of the slowest rank over the last 54. Plans: one recipe for all operators (profiling runs these too),
# three blocks lower than the rest, random mixes that no profile has seen. The fp32 plan is measured again between the others: how far these
# repetitions are apart is the machine's noise.
#
# Groups: native (one rank), limited (one rank under an instruction-set ceiling, fp32 and int8), two (native fp32/bf16 beside a native rank
# with int8), four (two of each; more ranks than cores on small machines: reported, not bounded).
# PREDICTION_MODELS (model:batch ...), PREDICTION_GROUPS, PREDICTION_MIXES (20), PREDICTION_MIXES_FOUR (4), PREDICTION_OUT.
set -eu
cd "$(dirname "$0")/.."
bench_name=prediction
. bench/common.sh
: "${QSYNC:=build/release/qsync}" "${PREDICTION_MODELS:=resnet20:64 vgg11_bn:32 mobilenet_v2:32}" "${PREDICTION_MIXES:=20}" \
    "${PREDICTION_MIXES_FOUR:=4}" "${PREDICTION_GROUPS:=native limited two four}" "${PREDICTION_OUT:=run/prediction}"
[ -n "${QSYNC_DATA:-}" ] || { [ -d ../shared/data/cifar10 ] && export QSYNC_DATA=../shared/data; } || true
dataset=shapes
[ -d "${QSYNC_DATA:-}/cifar10" ] && dataset=cifar10
out=$PREDICTION_OUT
rm -rf "$out"
mkdir -p "$out"
rows=$out/rows.jsonl
: > "$rows"

class() { # name role count isa formats
    printf '"%s": {"role": "%s", "backend": "cpu", "count": %s, "threads": 1, "isa": "%s", "speed": 1, "formats": [%s], "storage": [%s],
        "memory": {"capacity": "8GiB", "limit": "100%%"}}' "$1" "$2" "$3" "$4" "$5" "$5"
}
cluster() { # group
    big='"fp32", "bf16"' all='"fp32", "bf16", "int8"'
    case $1 in
    native) classes=$(class one inference 1 all "$all") ;;
    limited) classes=$(class one inference 1 avx2_vnni '"fp32", "int8"') ;;
    two) classes="$(class big training 1 all "$big"), $(class weak inference 1 all "$all")" ;;
    four) classes="$(class big training 2 all "$big"), $(class weak inference 2 all "$all")" ;;
    esac
    echo "{\"schema\": \"qsync/cluster/1\", \"classes\": {$classes}, \"links\": []}"
}
ranks_of() {
    case $1 in two) echo 2 ;; four) echo 4 ;; *) echo 1 ;; esac
}
launch() { # ranks arguments...
    count=$1
    shift
    if [ "$count" -gt "$(getconf _NPROCESSORS_ONLN)" ]; then
        OMPI_MCA_mpi_yield_when_idle=1 mpirun --oversubscribe --bind-to none -n "$count" "$QSYNC" "$@"
    elif [ "$count" -gt 1 ]; then
        mpirun --bind-to core -n "$count" "$QSYNC" "$@"
    else
        "$QSYNC" "$@"
    fi
}
must() { # log command...: its output is shown only when it fails
    log=$1
    shift
    "$@" > "$log" 2>&1 || { cat "$log" >&2; exit 1; }
}

cell() { # group model folder plan
    count=$(ranks_of "$1")
    must "$3/log" launch "$count" train --cluster "$3/cluster.json" --plan "$3/$4.plan.json" --dataset $dataset --max-steps 60 --test-limit 64 \
        --out "$3/run"
    jq -nc --arg group "$1" --arg model "$2" --arg plan "$4" --argjson ranks "$count" --slurpfile predicted "$3/$4.predicted" \
        --slurpfile casts "$3/$4.no_casts" --slurpfile timing "$3/run/timing.json" --slurpfile audit "$3/run/audit.json" \
        '{group: $group, model: $model, ranks: $ranks, plan: $plan, predicted_us: $predicted[0].iteration_us,
          no_casts_us: $casts[0].iteration_us, measured_us: $timing[0].median_step_us, audit: $audit[0]}' >> "$rows"
    tail -n 1 "$rows" | jq -r '"  \(.group) \(.model) \(.plan): \(.predicted_us / 1000) ms predicted, \(.measured_us / 1000) measured, "
        + "\(100 * (.predicted_us / .measured_us - 1) | . * 100 | round / 100) %"' >&2
}

group_run() { # group model batch
    folder=$out/$1-$2
    mkdir -p "$folder"
    cluster "$1" > "$folder/cluster.json"
    mixes=$PREDICTION_MIXES
    [ "$1" = four ] && mixes=$PREDICTION_MIXES_FOUR
    echo "prediction: $1, $2, batch $3" >&2
    must "$folder/log" launch "$(ranks_of "$1")" profile --cluster "$folder/cluster.json" --model "$2" --dataset $dataset --batch "$3" \
        --statistics-iterations 2 --out "$folder/profile.json"
    jq -c '.classes | to_entries[] | {class: .key} + .value.quality' "$folder/profile.json" >&2
    "$QSYNC" inspect --json "$2" | jq --argjson mixes "$mixes" \
        -f bench/prediction_plans.jq --argjson cluster "$(cat "$folder/cluster.json")" > "$folder/plans.json"
    plans=$(jq -r 'keys_unsorted[]' "$folder/plans.json")
    for plan in $plans; do
        jq ".[\"$plan\"]" "$folder/plans.json" > "$folder/$plan.pins"
        must "$folder/log" "$QSYNC" plan --cluster "$folder/cluster.json" --profile "$folder/profile.json" --planner qsync --pins \
            "$folder/$plan.pins" --out "$folder/$plan.plan.json"
        simulate="$QSYNC simulate --json --cluster $folder/cluster.json --profile $folder/profile.json --plan $folder/$plan.plan.json"
        $simulate > "$folder/$plan.predicted"
        $simulate --no-casts > "$folder/$plan.no_casts"
    done
    at=0
    for plan in $plans; do
        cell "$1" "$2" "$folder" "$plan"
        at=$((at + 1))
        [ $((at % 6)) -ne 0 ] || cell "$1" "$2" "$folder" fp32
    done
}

for entry in $PREDICTION_MODELS; do
    for group in $PREDICTION_GROUPS; do
        group_run "$group" "${entry%%:*}" "${entry##*:}"
    done
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
jq -s -f bench/prediction_figures.jq "$rows" > "$work/figures.json"
bench_write "$work/figures.json"
jq -r '.figures.table[]' "bench/results/$bench_name.json"
