#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# ranks: 2
# Training on GPUs, of doubles of CUDA's libraries: beside a rank of the host in one job, with sums that the GPUs make by themselves, and
# going on from the state that the other device left.
. "$(dirname "$0")/check.inc"
[ -n "${QS_CUDA_DOUBLES:-}" ] || { echo 'this build has no device cuda'; exit 77; }
export QSYNC_CUDA_LIBRARIES="$QS_CUDA_DOUBLES" QSYNC_DOUBLE_DEVICES=2
job='--model mlp --dataset shapes --batch 4 --test-limit 8'
loss() { jq -s '[.[] | select(.type == "epoch")][-1].training_loss' "$work/$1/metrics.jsonl"; }
near() {
    jq -en --argjson a "$(loss "$1")" --argjson b "$(loss "$2")" '($a - $b | fabs) <= 1e-4 * $b' > "$work/out" ||
        fail "losses of $1 and $2: $(loss "$1"), $(loss "$2")"
}
run() { # FOLDER ARGUMENTS...: on two ranks
    folder=$1
    shift
    # shellcheck disable=SC2086
    launch train $job --out "$work/$folder" "$@" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "train $folder"; }
}
one='{"schema": "qsync/cluster/2", "classes": {"a": {"role": "training", "backend": "A", "formats": ["fp32"]}, "b": {"role": "training", "backend": "B", "formats": ["fp32"]}}}'
for pair in cpu:cpu cpu:cuda cuda:cuda; do
    echo "$one" | sed "s/\"A\"/\"${pair%:*}\"/; s/\"B\"/\"${pair#*:}\"/" > "$work/$pair.json"
    run "$pair" --cluster "$work/$pair.json" --max-steps 3
done
near cpu:cuda cpu:cpu
run devices --cluster "$work/cuda:cuda.json" --max-steps 3 --all-reduce devices
cmp -s "$work/devices/metrics.jsonl" "$work/cuda:cuda/metrics.jsonl" || fail 'sums of devices give other losses than those of the host'
# ---- A state of one device on the other
alone() { # FOLDER BACKEND ARGUMENTS...: on one rank
    folder=$1 backend=$2
    shift 2
    # shellcheck disable=SC2086
    "$QSYNC" train $job --train-limit 16 --epochs 2 --backend "$backend" --out "$work/$folder" "$@" > "$work/out" 2> "$work/err" ||
        { cat "$work/err"; fail "train $folder"; }
}
alone whole cpu
alone half-cpu cpu --max-steps 4 --checkpoint-every 1
alone half-cuda cuda --max-steps 4 --checkpoint-every 1
alone rest-cuda cuda --resume "$work/half-cpu/state.qsync"
alone rest-cpu cpu --resume "$work/half-cuda/state.qsync"
near rest-cuda whole
near rest-cpu whole

# ---- Who cannot
# shellcheck disable=SC2086
launch train $job --cluster "$work/cpu:cuda.json" --max-steps 1 --all-reduce devices > "$work/out" 2> "$work/err" && fail 'a CPU in a group of GPUs'
grep -q 'rank 0: the device cpu adds up with no other: choose an all-reduce through the host' "$work/err" || { cat "$work/err"; fail 'who cannot add up by itself'; }
finish
