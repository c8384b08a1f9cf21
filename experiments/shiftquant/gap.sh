#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# How far 8 bits move the normalised values while a model trains (the paper's Figure 12): variants with quantized norms are trained, and every
# EVERY steps the gap is written down. Writes gap.csv and gap.svg; a run that is finished is not run again.
# QSYNC, QSYNC_DATA, MODEL, EPOCHS, RATE, BATCH, LIMIT, SEEDS, VARIANTS, FIRST_LAST: as in run.sh; OUT: a folder of its own, since the runs of run.sh
# do not look at gaps.
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
: "${OUT:=run/shiftquant-gap}" "${EVERY:=10}"
. "$experiment/variants.sh"
: "${VARIANTS:=g4=l1bnq/int4:shift4 g4-l2bnq=l2bnq/int4:shift4 g4-l2bnq-std=l2bnq-std/int4:shift4}"

rows() {
    echo "variant,norm,recipe,seed,step,gap,statistics_gap,worst_gap,worst"
    for variant in $VARIANTS; do
        rest=${variant#*=}
        for seed in $SEEDS; do
            folder=$OUT/${variant%%=*}-$seed
            if [ ! -f "$folder/result.json" ] || [ ! -f "$folder/metrics.jsonl" ]; then continue; fi
            jq -r --arg start "${variant%%=*},${rest%%/*},${rest#*/},$seed" 'select(.type == "norm-gap")
                | "\($start),\(.step),\(.gap),\(.statistics_gap),\(.worst_gap),\(.worst)"' "$folder/metrics.jsonl"
        done
    done
}

for seed in $SEEDS; do
    for variant in $VARIANTS; do
        rest=${variant#*=}
        train_one "${variant%%=*}" "${rest%%/*}" "${rest#*/}" "$seed" --norm-gap "$EVERY"
        rows | publish gap.csv
    done
done
sh "$experiment/gap_picture.sh"
