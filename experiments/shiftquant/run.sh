#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Training in 4-bit integers, one device: fp32, ShiftQuant with 1 to 6 groups, per-tensor 8 bits, 4 bits behind Hadamard transforms (Xi et
# al.), normalisations. Writes results.csv, table.md and picture.svg beside itself, of every seed that OUT has of these variants; a run that is
# finished is not run again (OUT keeps them), so the experiment goes on where it was stopped.
# QSYNC: the program; QSYNC_DATA: folder with cifar10; MODEL, EPOCHS, RATE, BATCH, LIMIT (training samples; 0: all), SEEDS, VARIANTS, OUT,
# FIRST_LAST (recipe of the model's first and last operator; default: that of all others).
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
: "${OUT:=run/shiftquant}"
. "$experiment/variants.sh"
: "${VARIANTS:=fp32=l2bn/fp32 g1=l1bnq/int4:shift1 g2=l1bnq/int4:shift2 g3=l1bnq/int4:shift3 g4=l1bnq/int4:shift4 g5=l1bnq/int4:shift5
    g6=l1bnq/int4:shift6 g4-l2bn=l2bn/int4:shift4 g4-l1bn=l1bn/int4:shift4 g4-l2bnq=l2bnq/int4:shift4 g4-l2bnq-std=l2bnq-std/int4:shift4
    int8=l2bn/w8 hadamard=l2bn/int4:hadamard}"

rows() {
    echo "variant,norm,recipe,seed,epoch,training_loss,test_loss,test_accuracy,iteration_us"
    for variant in $VARIANTS; do
        name=${variant%%=*} rest=${variant#*=}
        for folder in "$OUT/$name"-[0-9]*; do
            seed=${folder##*-}
            if [ ! -f "$folder/result.json" ] || [ ! -f "$folder/metrics.jsonl" ]; then continue; fi
            us=$(jq -r '.iteration_us // ""' "$folder/result.json")
            jq -r --arg v "$name" --arg n "${rest%%/*}" --arg r "${rest#*/}" --arg s "$seed" --arg us "$us" 'select(.type == "epoch")
                | [$v, $n, $r, $s, .epoch, .training_loss, .test_loss, .test_accuracy, $us] | map(tostring) | join(",")' "$folder/metrics.jsonl"
        done
    done
}

for seed in $SEEDS; do
    for variant in $VARIANTS; do
        name=${variant%%=*} rest=${variant#*=}
        train_one "$name" "${rest%%/*}" "${rest#*/}" "$seed"
        rows | publish results.csv
    done
done
jq -Rsr -L "$experiment/.." -f "$experiment/table.jq" "$EXPERIMENT_RESULTS/results.csv" | publish table.md
sh "$experiment/picture.sh"
