#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Whole training steps on a GPU (qsync bench): images or tokens per second, arena, and what the operators' passes take; beside PyTorch's on
# the same GPU where python3 has it (bench/peer_cuda.py), its faster way of each format. ratio is ours over it; the peer of int8 and of formats
# of 8 bits, which it trains nothing in, is the fastest of all its formats. kernels_share is what its kernels take by themselves, each
# between two marks, over the step: more than 1 where marks cost more than gaps. `missed` names bf16 steps below the peer.
# GPU_TUNE (none): formats whose kernels are found by measurement first (qsync bench --tune), in as many rounds as GPU_TUNE_ROUNDS (6) says.
# usage: bench/cuda-step.sh [ours] [peer]    (both). What is in GPU_OUT is not measured again.
# GPU_OUT (run/cuda-step), GPU_CASES (MODEL:BATCH:EXTENT, a slash for the colon in a model's name), GPU_FORMATS: any recipe, so also e4m3fn;
# GPU_STEPS (10), GPU_SECONDS (150: of the peer, which reads GPU_WAYS and GPU_WAIT itself), GPU_CELL_SECONDS (60: of one of ours), GPU_BACKEND
# (cuda), GPU_PYTHON (python3).
set -eu
cd "$(dirname "$0")/.."
bench_name=cuda-step
. bench/common.sh
: "${GPU_OUT:=run/cuda-step}" "${GPU_CASES:=resnet50:256:224 bert/base:64:128}" "${GPU_FORMATS:=bf16 fp16 tf32 fp32 int8/bf16}" \
    "${GPU_STEPS:=10}" "${GPU_SECONDS:=150}" "${GPU_BACKEND:=cuda}" "${GPU_PYTHON:=python3}" \
    "${GPU_CELL_SECONDS:=60}" "${GPU_TUNE:=}" "${GPU_TUNE_ROUNDS:=6}"
mkdir -p "$GPU_OUT"
log=$GPU_OUT/log
over=no
trap 'over=yes' TERM # no time for more: figures of what is there

# Images of the extent, or sequences: the model's name with what it needs, the optimizer, and units of a sample.
case_read() {
    model=$(echo "${1%%:*}" | tr / :) rest=${1#*:}
    batch=${rest%%:*} extent=${rest#*:} units=${rest#*:}
    case $model in
    bert* | minilm* | gpt2* | llama*)
        named=$model,length=$extent
        case $model in *:*) ;; *) named=$model:length=$extent ;; esac
        settings="--optimizer adam"
        ;;
    *) named=$model units=1 settings="--input 3x${extent}x$extent" ;;
    esac
}

# Leaves what it found in a file that later runs ask.
tune() { # FORMAT
    export QSYNC_CACHE="$GPU_OUT/tuning.sqlite"
    # shellcheck disable=SC2086
    timeout --foreground -k 5 "$GPU_CELL_SECONDS" "$QSYNC" bench --tune --backend "$GPU_BACKEND" --models "$named" --batch "$batch" --recipes "$1" \
        --steps "$GPU_TUNE_ROUNDS" ${settings%--optimizer*} > "$GPU_OUT/tune-$(echo "$model-$1" | tr ':/' '--').txt" 2> "$log" ||
        echo "bench: $model $1 is not tuned: $(tail -n 1 "$log")" >&2
}

ours() { # CASE FORMAT: a row, or why there is none
    case_read "$1"
    row=$GPU_OUT/ours-$(echo "$1-$2" | tr ':/,' '---').json
    [ ! -s "$row" ] && [ $over = no ] || return 0
    case " $GPU_TUNE " in *" $2 "*) tune "$2" ;; esac
    [ "$2" != fp16 ] || settings="$settings --loss-scaling"
    code=0
    # shellcheck disable=SC2086
    timeout --foreground -k 5 "$GPU_CELL_SECONDS" "$QSYNC" bench --backend "$GPU_BACKEND" --models "$named" --batch "$batch" --recipes "$2" --steps "$GPU_STEPS" \
        $settings --breakdown --kernels --json > "$row.new" 2> "$log" || code=$?
    [ $over = no ] || return 0
    if [ $code -eq 0 ]; then
        jq -c --arg model "$model" --arg format "$2" --argjson units "$units" '.models[][] | {model: $model, format: $format} + .
            | .units_per_s = .samples_per_s * $units | .kernels_us = ([.breakdown[].us] | add)' "$row.new" > "$row"
    else
        jq -nc --arg model "$model" --arg format "$2" --argjson code $code --arg why "$(tail -n 2 "$log")" \
            '{model: $model, format: $format, failure: "exit code \($code): \($why)"}' > "$row"
    fi
    rm -f "$row.new"
    jq -r '"\(.model) \(.format): " + if .failure then .failure else "\(.units_per_s | round)/s, \(.step_us / 10 | round / 100) ms a step, kernels \(100 * .kernels_us / .step_us | round) % of it\(if .recorded then ", as graphs \(.recorded.us / 10 | round / 100) ms, one by one \(.recorded.one_by_one_us / 10 | round / 100)" else "" end), arena \(.arena_bytes / 1048576 | round) MiB\n" + ([.breakdown[:8][]
        | "    \(.us / 10 | round / 100) ms  \(.count) x \(.pass)"] | join("\n")) end' "$row"
}

peer() {
    [ ! -s "$GPU_OUT/peer.jsonl" ] || return 0
    if ! "$GPU_PYTHON" -c 'import torch' 2> /dev/null; then
        echo "bench: $GPU_PYTHON has no PyTorch, no peer" >&2
        return 0
    fi
    formats=$(for one in $GPU_FORMATS; do case $one in int* | e4m3* | e5m2*) ;; *) echo "$one" ;; esac; done | paste -sd, -)
    # shellcheck disable=SC2086
    timeout --foreground -k 5 $((GPU_SECONDS + 20)) "$GPU_PYTHON" bench/peer_cuda.py "$GPU_SECONDS" "$GPU_STEPS" "$formats" $GPU_CASES \
        > "$GPU_OUT/peer.jsonl" 2> "$log" || tail -n 3 "$log" >&2
    jq -r '"PyTorch \(.model) \(.format)\(if .compiled then " compiled" else "" end): "
        + if .failure then .failure[:100] else "\(.samples_per_s | round) samples/s" end + " (\(.took_s) s)"' "$GPU_OUT/peer.jsonl"
}

[ $# -gt 0 ] || set -- ours peer
for what; do
    case $what in
    ours) for format in $GPU_FORMATS; do for one in $GPU_CASES; do ours "$one" "$format"; done; done ;;
    peer) peer ;;
    *) echo "bench: $what: must be ours or peer" >&2 && exit 2 ;;
    esac
done
touch "$GPU_OUT/peer.jsonl"
find "$GPU_OUT" -name 'ours-*.json' -size +0 -exec cat {} + | jq -s --slurpfile peer "$GPU_OUT/peer.jsonl" --arg cases "$GPU_CASES" \
    -f bench/cuda_step_figures.jq > "$GPU_OUT/figures.json"
bench_write "$GPU_OUT/figures.json"
jq -r '.figures.steps[] | select(.ratio) | "\(.model) \(.format): \(.ratio * 100 | round / 100) of the peer"' bench/results/cuda-step.json
