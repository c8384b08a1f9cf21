#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Accuracy of resnet20 on the CIFAR-10 that is there, trained on a GPU in several formats: as many seeds of each as ACCURACY_SECONDS allow, one
# seed of all before the next. demote rounds all tensors that a plan of the planner demote names, under dynamic loss scaling; e4m3fn has a fixed
# loss scale, ACCURACY_SCALE (4096), since it saturates. What a device refuses is told by its reason.
# ACCURACY_OUT (run/cuda-accuracy) keeps what is trained; ACCURACY_SECONDS (150), ACCURACY_VARIANTS (fp32 bf16 int8/bf16 int8:tensor
# int4:shift4 demote; any recipe), ACCURACY_SEEDS (1 2 3), ACCURACY_EPOCHS (30), ACCURACY_BATCH (128), ACCURACY_RATE (0.1), ACCURACY_BACKEND (cuda),
# ACCURACY_OPTIONS: more for train.
set -eu
cd "$(dirname "$0")/.."
bench_name=cuda-accuracy
. bench/common.sh
: "${ACCURACY_OUT:=run/cuda-accuracy}" "${ACCURACY_SECONDS:=150}" "${ACCURACY_SEEDS:=1 2 3}" "${ACCURACY_EPOCHS:=30}" "${ACCURACY_BATCH:=128}" \
    "${ACCURACY_RATE:=0.1}" "${ACCURACY_BACKEND:=cuda}" "${ACCURACY_VARIANTS:=fp32 bf16 int8/bf16 int8:tensor int4:shift4 demote}" \
    "${ACCURACY_OPTIONS:=}" "${ACCURACY_SCALE:=4096}"
[ -n "${QSYNC_DATA:-}" ] || export QSYNC_DATA=../shared/data
mkdir -p "$ACCURACY_OUT"
out=$ACCURACY_OUT
begin=$(date +%s)
job="--model resnet20 --dataset cifar10 --batch $ACCURACY_BATCH"

jq -n --arg backend "$ACCURACY_BACKEND" '{schema: "qsync/cluster/2", links: [], classes: {single: {role: "training", backend: $backend, count: 1,
    speed: 1, formats: ["fp32"], storage: ["fp32", "fp(6,9,0)", "fp(4,3,4)", "fp(5,2,0)"], memory: {capacity: "16GiB", limit: "100%"}}}}' \
    > "$out/cluster.json"
jq '.classes.single |= (.formats = ["fp32", "bf16", "e4m3fn"] | .storage = .formats)' "$out/cluster.json" > "$out/cluster-e4m3fn.json"

plan_by_hand() { # RECIPE
    "$QSYNC" inspect --json resnet20 | jq --arg recipe "$1" '{schema: "qsync/plan/2", classes: {single: {operators:
        ([.nodes[] | select(.class == "adjustable") | {key: .name, value: $recipe}] | from_entries)}}}'
}

plan_demote() {
    # shellcheck disable=SC2086
    [ -f "$out/profile.json" ] || "$QSYNC" profile --cluster "$out/cluster.json" $job --loss-scaling dynamic --repetitions 2 \
        --statistics-iterations 2 --conversion-seconds 2 --fresh --out "$out/profile.json"
    # shellcheck disable=SC2086
    "$QSYNC" plan --cluster "$out/cluster.json" --profile "$out/profile.json" --planner demote $job --loss-scaling dynamic \
        --epochs "$ACCURACY_EPOCHS" --rate "$ACCURACY_RATE" --out "$out/demote.json"
}

# A run that is finished is not run again; what is left of the time is all that one may take.
variant_run() { # VARIANT SEED
    name=$(echo "$1" | tr '/:' '--')
    folder=$out/$name-$2 left=$((ACCURACY_SECONDS - $(date +%s) + begin))
    [ ! -f "$folder.row" ] || return 0
    [ $left -gt 3 ] || return 0
    code=0
    if [ "$1" = demote ]; then
        [ -f "$out/demote.json" ] || plan_demote > "$folder.log" 2>&1 || code=$?
        set -- "$1" "$2" --cluster "$out/cluster.json" --plan "$out/demote.json" --loss-scaling dynamic
    else
        plan_by_hand "$1" > "$out/$name.json"
        case $1 in
        e4m3fn) set -- "$1" "$2" --cluster "$out/cluster-e4m3fn.json" --plan "$out/$name.json" --loss-scaling "$ACCURACY_SCALE" ;;
        *) set -- "$1" "$2" --backend "$ACCURACY_BACKEND" --plan "$out/$name.json" ;;
        esac
    fi
    variant=$1 seed=$2
    shift 2
    rm -rf "$folder"
    # shellcheck disable=SC2086
    [ $code -ne 0 ] || timeout --foreground -k 5 $left "$QSYNC" train "$@" $job --epochs "$ACCURACY_EPOCHS" --rate "$ACCURACY_RATE" --seed "$seed" \
        --out "$folder" $ACCURACY_OPTIONS > "$folder.log" 2>&1 || code=$?
    [ $code -ne 124 ] && [ $code -ne 137 ] || return 0 # no time for it: nothing is known
    if [ $code -eq 0 ]; then
        jq -c --arg variant "$variant" --argjson seed "$seed" '{variant: $variant, seed: $seed, test_accuracy, test_loss, training_loss, iteration_us,
            steps, seconds, reserved_bytes: .ranks[0].reserved_bytes}' "$folder/result.json" > "$folder.row"
    else
        jq -nc --arg variant "$variant" --argjson seed "$seed" --argjson code $code --arg why "$(tail -n 1 "$folder.log")" \
            '{variant: $variant, seed: $seed, failure: "exit code \($code): \($why)"}' > "$folder.row"
    fi
    jq -r '"\(.variant) seed \(.seed): " + (.failure // "\(.test_accuracy * 10000 | round / 100) % in \(.seconds * 10 | round / 10) s")' "$folder.row"
}

for seed in $ACCURACY_SEEDS; do
    for variant in $ACCURACY_VARIANTS; do
        variant_run "$variant" "$seed"
    done
done
find "$out" -name '*.row' -exec cat {} + | jq -s --argjson epochs "$ACCURACY_EPOCHS" --argjson batch "$ACCURACY_BATCH" '
    {model: "resnet20", dataset: "cifar10", epochs: $epochs, batch: $batch, runs: sort_by(.variant, .seed),
     variants: (group_by(.variant) | map(map(select(.failure == null)) as $done | {key: .[0].variant, value: (if $done == [] then {failure: .[0].failure} else
        {seeds: ($done | length), test_accuracy: ([$done[].test_accuracy] | add / length),
         lowest: ([$done[].test_accuracy] | min), highest: ([$done[].test_accuracy] | max),
         iteration_us: ([$done[].iteration_us] | add / length)} end)}) | from_entries)}' > "$out/figures"
bench_write "$out/figures"
