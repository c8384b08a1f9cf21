#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Images per second of whole training steps, one thread and two, beside PyTorch's where Debian's python3-torch is installed. qsync and its
# peer are measured in turn, three rounds, and the median of each is kept: the machine's noise hits both.
# BENCH_MODELS (resnet20 resnet8 vgg11_bn), BENCH_BATCH (128), BENCH_ROUNDS (3).
set -eu
cd "$(dirname "$0")/.."
bench_name=step
. bench/common.sh
: "${QSYNC:=build/release/qsync}" "${BENCH_MODELS:=resnet20 resnet8 vgg11_bn}" "${BENCH_BATCH:=128}" "${BENCH_ROUNDS:=3}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python=/usr/bin/python3
has_peer=no
"$python" -c 'import torch' 2> /dev/null && has_peer=yes
[ $has_peer = yes ] || echo "bench: no python3-torch, no peer" >&2

ours() { # model recipe threads
    OMP_NUM_THREADS=$3 OMP_PROC_BIND=close OMP_PLACES=cores "$QSYNC" bench --models "$1" --recipes "$2" --batch "$BENCH_BATCH" --threads "$3" --json |
        jq ".models[\"$1\"][\"$2\"].images_per_s"
}
# PyTorch at its best: channels last, and an allocator that keeps large blocks.
theirs() { # model format threads
    OMP_NUM_THREADS=$3 OMP_PROC_BIND=close OMP_PLACES=cores MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=17179869184 \
        "$python" bench/peer_torch.py "$1" "$2" "$BENCH_BATCH" "$3"
}

: > "$work/rows"
for round in $(seq "$BENCH_ROUNDS"); do
    for model in $BENCH_MODELS; do
        for threads in 1 $( [ "$(getconf _NPROCESSORS_ONLN)" -ge 2 ] && echo 2 ); do
            for recipe in fp32 bf16 int8/bf16; do
                format=${recipe%%/*}
                group=images_per_s
                [ "$threads" = 2 ] && group=images_per_s_2
                echo "$group $model $format $(ours "$model" "$recipe" "$threads")" >> "$work/rows"
                [ $has_peer = yes ] && [ "$format" != int8 ] || continue
                peer=peer
                [ "$threads" = 2 ] && peer=peer_2
                echo "$peer $model $format $(theirs "$model" "$format" "$threads")" >> "$work/rows"
            done
        done
    done
    echo "bench: round $round of $BENCH_ROUNDS done" >&2
done

# Medians per (group, model, format), and the ratio to the peer.
jq -nR 'def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;
    [inputs | split(" ") | {group: .[0], model: .[1], format: .[2], value: (.[3] | tonumber)}]
    | group_by([.group, .model, .format])
    | reduce .[] as $rows ({}; .[$rows[0].group][$rows[0].model][$rows[0].format] = ([$rows[].value] | median))
    | . as $all
    | reduce (["images_per_s", "peer", "ratio_to_peer"], ["images_per_s_2", "peer_2", "ratio_to_peer_2"]) as $names ($all;
        reduce ($all[$names[1]] // {} | to_entries[]) as $model (.;
            reduce ($model.value | to_entries[]) as $format (.;
                .[$names[2]][$model.key][$format.key] = ($all[$names[0]][$model.key][$format.key] / $format.value))))' "$work/rows" > "$work/figures.json"
bench_write "$work/figures.json"
jq .figures bench/results/step.json
