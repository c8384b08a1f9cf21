#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# How well do indicators rank the operators of a model? Spearman's correlation of each with the Monte-Carlo ground truth.
# Writes results.csv, table.md and picture.svg. A truth that is there is not measured again; results are written after every one. No figure here depends
# on time, so two models are measured at once.
# INDICATOR_MODELS (all): lenet5 resnet8 resnet20 vgg11_bn mobilenet_v2 bert vit, in two lanes; INDICATOR_SEEDS: runs per operator and recipe
# (16); INDICATOR_HESSIAN (yes): with eigenvalues for the baseline hess, which take most of the time of the transformers; INDICATOR_OUT: profiles
# and truths (run/indicator).
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
: "${INDICATOR_MODELS:=lenet5 resnet8 resnet20 vgg11_bn mobilenet_v2 bert vit}" "${INDICATOR_SEEDS:=16}" "${INDICATOR_HESSIAN:=yes}" \
    "${INDICATOR_OUT:=run/indicator}"
out=$INDICATOR_OUT
mkdir -p "$out"

# measure MODEL DATASET BATCH SEED OPTIMIZER WARM-UP...: one profile, one truth for each warm-up. SEED: of weights and samples.
measure() {
    model=$1 dataset=$2 batch=$3 seed=$4 optimizer=$5
    shift 5
    name=$out/$(echo "$model" | tr ':=,' '---')-$seed hessian=''
    [ "$INDICATOR_HESSIAN" != yes ] || hessian=--hessian
    if [ ! -f "$name.profile.json" ]; then
        echo "indicator: profile of $model, $dataset, seed $seed" >&2
        # shellcheck disable=SC2086
        must "$name.log" "$QSYNC" profile --no-pinning --model "$model" --dataset "$dataset" --batch "$batch" --seed "$seed" --optimizer "$optimizer" \
            --repetitions 2 $hessian --out "$name.profile.json"
    fi
    for warm_up in "$@"; do
        [ ! -f "$name-$warm_up.rows" ] || continue
        echo "indicator: ground truth of $model, $dataset, seed $seed, after $warm_up iterations" >&2
        "$QSYNC" indicator --no-pinning --ground-truth --profile "$name.profile.json" --dataset "$dataset" --seed "$seed" --optimizer "$optimizer" \
            --seeds "$INDICATOR_SEEDS" --warm-up "$warm_up" --out "$name-$warm_up.csv" --json > "$name-$warm_up.json"
        jq -r --arg seed "$seed" --arg seeds "$INDICATOR_SEEDS" '. as $all | .spearman[] as $one
            | ($one.recipes + {pooled: $one.pooled, steps: $one.steps} | to_entries[]) as $over
            | [$all.model, $all.dataset, $all.batch, $seed, $all.warm_up, $one.indicator, $one.convention // "", $over.key,
               ($over.value * 1000 | round / 1000), $seeds] | map(tostring) | map(gsub(","; "+")) | join(",")' "$name-$warm_up.json" \
            > "$name-$warm_up.rows.new"
        mv "$name-$warm_up.rows.new" "$name-$warm_up.rows"
    done
}
lane() { # MODEL...: those of them that are wanted
    for one; do
        case " $INDICATOR_MODELS " in *" $one "*) ;; *) continue ;; esac
        case $one in
        lenet5) for seed in 1 2 3; do measure lenet5 fashion-mnist 64 $seed sgd 20; done ;;
        resnet8) for seed in 1 2 3; do measure resnet8 cifar10 64 $seed sgd 20 200; done ;;
        resnet20) measure resnet20 cifar10 64 1 sgd 20 ;;
        vgg11_bn) measure vgg11_bn cifar10 64 1 sgd 20 ;;
        mobilenet_v2) measure mobilenet_v2:width=0.25 cifar10 32 1 sgd 20 ;;
        bert) measure bert:mini sst2:length=32 32 1 adam 20 ;;
        vit) measure vit:tiny,patch=8 cifar10 16 1 adam 20 ;;
        esac
    done
}
lane lenet5 resnet8 resnet20 bert & one=$!
lane vgg11_bn mobilenet_v2 vit & two=$!
wait $one
wait $two

# Rows of models that were not measured now stay.
{
    echo "model,dataset,batch,seed,warm_up,indicator,convention,over,spearman,seeds"
    cat "$out"/*.rows | cut -d , -f 1 | sort -u > "$out/models"
    tail -n +2 "$EXPERIMENT_RESULTS/results.csv" 2> /dev/null | awk -F , 'NR == FNR {now[$0]; next} !($1 in now)' "$out/models" -
    cat "$out"/*.rows
} > "$out/results.csv"
publish results.csv < "$out/results.csv"
jq -Rsr -L experiments -f "$experiment/table.jq" "$EXPERIMENT_RESULTS/results.csv" | publish table.md
sh "$experiment/picture.sh"
cat "$EXPERIMENT_RESULTS/table.md"
