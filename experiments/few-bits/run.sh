#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Where the points of training in four bits go: variants of one plan, each with one change, beside fp32 (README.md). LANES runs stand side by
# side; a run that is finished is not run again (OUT keeps them), and none begins when SECONDS_LEFT have passed, so the experiment goes on where
# it was stopped. Ends with collect.sh.
# QSYNC: the program; QSYNC_DATA: folder with cifar10; BACKEND (cpu), LANES (1), SECONDS_LEFT (0: no end), SEEDS (1), VARIANTS (variants.sh),
# MODEL (resnet20), EPOCHS (45), BATCH (128), RATE (0.1), DECAY (0.0005), LIMIT (training samples; 0: all), OUT (run/few-bits).
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
. "$experiment/variants.sh"
: "${LANES:=1}" "${SECONDS_LEFT:=0}"
begin=$(date +%s)
rm -rf "$OUT"/*.taken

# Takes whatever no other lane has taken, one seed of all variants before the next.
lane() {
    for seed in $SEEDS; do
        for variant in $VARIANTS; do
            job=$OUT/${variant%%=*}-$seed
            [ ! -f "$job.row" ] || continue
            [ "$SECONDS_LEFT" -eq 0 ] || [ $(($(date +%s) - begin)) -lt "$SECONDS_LEFT" ] || return 0
            mkdir "$job.taken" 2> /dev/null || continue
            train_one "$variant" "$seed" || echo "few-bits: ${job##*/} gave no row" >&2
        done
    done
}

number=1
while [ "$number" -lt "$LANES" ]; do
    lane &
    number=$((number + 1))
done
lane
wait
rm -rf "$OUT"/*.taken
sh "$experiment/collect.sh"
