#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Images per second of whole training steps, one thread and two, beside PyTorch's where Debian's python3-torch is installed, and the
# fraction of the roof (qsync bench --help). qsync and its peer are measured in turn, three rounds, and the median of each is kept: the
# machine's noise hits both. int8 stands for the faster of int8/bf16 and all three products in int8; its peer is the faster of PyTorch's.
# What is wanted (step_figures.jq) is a ratio to the peer, and of two threads a ratio to one (scaling); `missed` names what is below. Then,
# once: what the operators' passes take of each step on one thread (breakdown), and what changing formats takes over batches
# (quantization: qsync-bench quantization).
# BENCH_TUNE=yes finds the fastest kernels of every case first (qsync bench --tune; many minutes), into a file of its own.
# BENCH_CASES (MODEL:BATCH[:CxHxW] ...), BENCH_ROUNDS (3), BENCH_STEPS (12), BENCH_THREADS (1 2), BENCH_BATCHES (16,32,64,128,256),
# BENCH_QUANTIZATION (models, comma-separated; resnet20,vgg11_bn).
set -eu
cd "$(dirname "$0")/.."
bench_name=step
. bench/common.sh
: "${BENCH_CASES:=resnet20:128 resnet18:16:3x64x64 resnet50:16:3x64x64 vgg11_bn:128 mobilenet_v2:128}"
: "${BENCH_ROUNDS:=3}" "${BENCH_STEPS:=12}" "${BENCH_QUANTIZATION:=resnet20,vgg11_bn}" "${BENCH_BATCHES:=16,32,64,128,256}"
: "${BENCH_TUNE:=no}" "${BENCH_THREADS:=1 $([ "$(getconf _NPROCESSORS_ONLN)" -ge 2 ] && echo 2)}"
export OMP_PROC_BIND=close OMP_PLACES=cores
recipes="fp32 bf16 int8/bf16 int8:tensor"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

[ "$BENCH_TUNE" = no ] || QSYNC_CACHE=$work/tuning.sqlite

python=/usr/bin/python3
has_peer=no
"$python" -c 'import torch; print(open("/proc/self/maps").read())' > "$work/mapped" 2> /dev/null && has_peer=yes
[ $has_peer = yes ] || echo "bench: no python3-torch, no peer" >&2
# Beside the reference BLAS, which is many times slower in linear operators, every ratio would flatter.
if grep -q '/libblas\.so' "$work/mapped" && ! grep -qE 'openblas|atlas|blis|/libmkl' "$work/mapped"; then
    echo "bench: PyTorch multiplies by the reference BLAS: install a fast one (apt-get install libopenblas0-openmp)" >&2
    exit 1
fi

# Sets model, batch and input from a case.
case_read() {
    model=${1%%:*} rest=${1#*:}
    batch=${rest%%:*} input=
    [ "$rest" = "$batch" ] || input=${rest#*:}
}
ours() { # threads options...
    threads=$1
    shift
    OMP_NUM_THREADS=$threads "$QSYNC" bench --models "$model" ${input:+--input "$input"} --batch "$batch" --steps "$BENCH_STEPS" \
        --threads "$threads" --json "$@"
}
# PyTorch at its best: a fast BLAS, channels last, an allocator that keeps large blocks, and what else peer_torch.py finds to be faster.
theirs() { # threads format
    OMP_NUM_THREADS=$1 MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=17179869184 \
        "$python" bench/peer_torch.py "$model" "$2" "$batch" "$1" ${input:+"${input##*x}"}
}

# Both train the same model.
for one in $BENCH_CASES; do
    case_read "$one"
    [ $has_peer = yes ] || break
    mine=$("$QSYNC" inspect "$model" ${input:+--input "$input"} --json | jq .parameters)
    peers=$("$python" bench/peer_torch.py --parameters "$model")
    [ "$mine" = "$peers" ] || { echo "bench: $model has $mine parameters here and $peers in bench/peer_torch.py" >&2; exit 1; }
done

if [ "$BENCH_TUNE" != no ]; then
    for one in $BENCH_CASES; do
        case_read "$one"
        for threads in $BENCH_THREADS; do
            OMP_NUM_THREADS=$threads "$QSYNC" bench --tune --models "$model" ${input:+--input "$input"} --batch "$batch" \
                --recipes "$(echo "$recipes" | tr ' ' ,)" --threads "$threads" | tail -n 3 >&2
        done
    done
fi

# Rows: {group, model, format, value}, group without what tells threads apart.
row() { # group threads format value
    suffix=
    [ "$2" = 1 ] || suffix=_$2
    jq -cn --arg group "$1$suffix" --arg model "$model" --arg format "$3" --argjson value "$4" '$ARGS.named' >> "$work/rows"
}
: > "$work/rows"
for round in $(seq "$BENCH_ROUNDS"); do
    for one in $BENCH_CASES; do
        case_read "$one"
        for threads in $BENCH_THREADS; do
            for recipe in $recipes; do
                ours "$threads" --recipes "$recipe" | jq -c ".models[\"$model\"][\"$recipe\"]" > "$work/step"
                row samples_per_s "$threads" "$recipe" "$(jq .samples_per_s "$work/step")"
                row fraction_of_roof "$threads" "$recipe" "$(jq .fraction_of_roof "$work/step")"
                row tuned "$threads" "$recipe" "$(jq .tuned "$work/step")"
                case $has_peer:$recipe in
                yes:fp32 | yes:bf16) row peer "$threads" "$recipe" "$(theirs "$threads" "$recipe")" ;;
                esac
            done
        done
    done
    echo "bench: round $round of $BENCH_ROUNDS done" >&2
done

for one in $BENCH_CASES; do
    case_read "$one"
    ours 1 --breakdown --recipes "$(echo "$recipes" | tr ' ' ,)"
done > "$work/breakdowns"
echo "bench: breakdowns done" >&2
"$QSYNC_BENCH" quantization --models "$BENCH_QUANTIZATION" --batches "$BENCH_BATCHES" --steps "$BENCH_STEPS" --json > "$work/quantization"
for threads in $BENCH_THREADS; do
    OMP_NUM_THREADS=$threads "$QSYNC" devices --peaks --threads "$threads" --json |
        jq --arg threads "$threads" '{key: $threads, value: (.devices[] | select(.backend == "cpu") | .peak_gop_per_s)}'
done > "$work/peaks"

jq -n --arg cases "$BENCH_CASES" --slurpfile breakdowns "$work/breakdowns" --slurpfile quantization "$work/quantization" \
    --slurpfile peaks "$work/peaks" -f bench/step_figures.jq "$work/rows" > "$work/figures.json"
bench_write "$work/figures.json"
jq -r -f bench/step_table.jq bench/results/step.json
