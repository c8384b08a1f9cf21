#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tokens per second (of vit: images) of whole training steps of transformers, one thread and two, with Adam, beside today's PyTorch with
# AdamW where tools/peer.sh has installed it, and the fraction of the roof (qsync bench --help). Measured in turn, and the median of the rounds is
# kept. int8 is int8:tensor in every product; its peer is the faster of PyTorch's formats. `missed` names the ratios below what is wanted:
# fp32 1.3, bf16 1.5, int8 2.0. Then once: what the operators' passes take of each step on one thread (breakdown).
# TRANSFORMER_CASES (MODEL:BATCH:EXTENT, where MODEL's own colon is a slash: bert/mini:32:128), TRANSFORMER_ROUNDS (3), TRANSFORMER_STEPS (8),
# TRANSFORMER_THREADS (1 2), TRANSFORMER_PEER (python with torch; run/peer/bin/python).
set -eu
cd "$(dirname "$0")/.."
bench_name=transformer
. bench/common.sh
: "${TRANSFORMER_CASES:=minilm:16:128 bert/mini:32:128 bert/base:4:128 gpt2:2:256 vit/tiny:32:64}"
: "${TRANSFORMER_ROUNDS:=3}" "${TRANSFORMER_STEPS:=8}" "${TRANSFORMER_PEER:=run/peer/bin/python}"
: "${TRANSFORMER_THREADS:=1 $([ "$(getconf _NPROCESSORS_ONLN)" -ge 2 ] && echo 2)}"
export OMP_PROC_BIND=close OMP_PLACES=cores
recipes="fp32 bf16 int8:tensor"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
has_peer=no
"$TRANSFORMER_PEER" -c 'import torch' 2> /dev/null && has_peer=yes
[ $has_peer = yes ] || echo "bench: no PyTorch at $TRANSFORMER_PEER, no peer (tools/peer.sh installs it)" >&2

# Sets model, batch, extent, its name with an option for the length, and how many units a sample has.
case_read() {
    model=$(echo "${1%%:*}" | tr / :) rest=${1#*:}
    batch=${rest%%:*} extent=${rest#*:} units=${rest#*:} input=
    case $model in
    vit*) input=3x${extent}x${extent} units=1 named=$model ;;
    *:*) named=$model,length=$extent ;;
    *) named=$model:length=$extent ;;
    esac
}
ours() { # threads options...
    threads=$1
    shift
    OMP_NUM_THREADS=$threads "$QSYNC" bench --models "$named" ${input:+--input "$input" --classes 10} --batch "$batch" \
        --steps "$TRANSFORMER_STEPS" --threads "$threads" --optimizer adam --json "$@" | jq -c '.models[]'
}
theirs() { # threads format
    OMP_NUM_THREADS=$1 MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=17179869184 \
        "$TRANSFORMER_PEER" bench/peer_transformer.py "$model" "$2" "$batch" "$1" "$extent"
}
row() { # group threads format value
    suffix=
    [ "$2" = 1 ] || suffix=_$2
    jq -cn --arg group "$1$suffix" --arg model "$model" --arg format "$3" --argjson value "$4" '$ARGS.named' >> "$work/rows"
}

for one in $TRANSFORMER_CASES; do
    case_read "$one"
    [ $has_peer = yes ] || break
    mine=$("$QSYNC" inspect "$model" --json | jq .parameters)
    peers=$("$TRANSFORMER_PEER" bench/peer_transformer.py --parameters "$model")
    [ "$mine" = "$peers" ] || { echo "bench: $model has $mine parameters here and $peers in bench/peer_transformer.py" >&2; exit 1; }
done
: > "$work/rows"
for round in $(seq "$TRANSFORMER_ROUNDS"); do
    for one in $TRANSFORMER_CASES; do
        case_read "$one"
        for threads in $TRANSFORMER_THREADS; do
            for recipe in $recipes; do
                ours "$threads" --recipes "$recipe" | jq -c '.[]' > "$work/step"
                format=${recipe%%:*}
                row tokens_per_s "$threads" "$format" "$(jq ".samples_per_s * $units" "$work/step")"
                row fraction_of_roof "$threads" "$format" "$(jq .fraction_of_roof "$work/step")"
                case $has_peer:$recipe in
                yes:fp32 | yes:bf16)
                    theirs "$threads" "$recipe" > "$work/peer"
                    row peer "$threads" "$format" "$(jq ".samples_per_s * $units" "$work/peer")"
                    ;;
                esac
            done
        done
        echo "bench: round $round of $TRANSFORMER_ROUNDS: $model done" >&2
    done
done
for one in $TRANSFORMER_CASES; do
    case_read "$one"
    ours 1 --breakdown --recipes "$(echo "$recipes" | tr ' ' ,)" | jq -c --arg model "$model" '{($model): .}'
done > "$work/breakdowns"
peer_version=none
[ $has_peer = no ] || peer_version=$("$TRANSFORMER_PEER" -c 'import torch; print(torch.__version__)')
jq -n --arg cases "$TRANSFORMER_CASES" --arg torch "$peer_version" --slurpfile breakdowns "$work/breakdowns" \
    -f bench/transformer_figures.jq "$work/rows" > "$work/figures.json"
bench_write "$work/figures.json"
jq -r '.figures | . as $all | .tokens_per_s | to_entries[] | .key as $model | .value | to_entries[]
    | "\($model) \(.key): \(.value | floor)/s, \($all.ratio_to_peer[$model][.key] // "-" | tostring[:4]) of the peer"' bench/results/transformer.json
