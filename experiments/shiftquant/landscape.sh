#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Slices of the loss landscape (the paper's Figure 4): variants are trained as by run.sh, in the same OUT, then the training loss is taken along
# random directions through the trained weights, in the variant's own arithmetic. Writes landscape.csv, landscape.md and landscape.svg; what
# is there is not done again.
# QSYNC, QSYNC_DATA, MODEL, EPOCHS, RATE, BATCH, LIMIT, SEEDS, OUT, FIRST_LAST: as in run.sh. VARIANTS: by default full precision; 4 bits with the
# quantized L2 norm, with the full-precision one, and with the quantized L1 norm. POINTS and RANGE of a slice, BATCHES that a loss is the mean
# over, DIRECTIONS (numbers).
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
: "${OUT:=run/shiftquant}"
. "$experiment/variants.sh"
: "${POINTS:=41}" "${RANGE:=1}" "${BATCHES:=8}" "${DIRECTIONS:=1 2 3}"
: "${VARIANTS:=fp32=l2bn/fp32 g4-l2bnq=l2bnq/int4:shift4 g4-l2bn=l2bn/int4:shift4 g4=l1bnq/int4:shift4}"

slice_of() { # DIRECTION: its file, of the run in `folder`
    echo "$folder/landscape-$1-$POINTS-$RANGE-$BATCHES.json"
}

slice_one() { # DIRECTION
    slice=$(slice_of "$1")
    if [ -f "$slice" ] || [ ! -f "$folder/weights.safetensors" ]; then return 0; fi
    echo "shiftquant: $folder, direction $1" >&2
    "$QSYNC" landscape "$folder/weights.safetensors" --plan "$folder/plan.json" --train-limit "$LIMIT" --points "$POINTS" --range "$RANGE" \
        --batches "$BATCHES" --direction "$1" --json > "$slice.new" 2> "$slice.log" || { tail -n 1 "$slice.log" >&2; exit 1; }
    mv "$slice.new" "$slice"
}

rows() {
    echo "variant,norm,recipe,seed,direction,alpha,loss,accuracy"
    for variant in $VARIANTS; do
        rest=${variant#*=}
        for seed in $SEEDS; do
            folder=$OUT/${variant%%=*}-$seed
            for direction in $DIRECTIONS; do
                slice=$(slice_of "$direction")
                [ -f "$slice" ] || continue
                jq -r --arg start "${variant%%=*},${rest%%/*},${rest#*/},$seed,$direction" \
                    '.points[] | "\($start),\(.alpha),\(.loss // ""),\(.accuracy)"' "$slice"
            done
        done
    done
}

for seed in $SEEDS; do
    for variant in $VARIANTS; do
        rest=${variant#*=}
        train_one "${variant%%=*}" "${rest%%/*}" "${rest#*/}" "$seed"
        for direction in $DIRECTIONS; do
            slice_one "$direction"
            rows | publish landscape.csv
        done
    done
done
jq -Rsr -L "$experiment/.." -f "$experiment/landscape.jq" "$EXPERIMENT_RESULTS/landscape.csv" | publish landscape.md
sh "$experiment/landscape_picture.sh"
