#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Kernels on a GPU one by one (qsync-bench kernels): those that move bytes beside a device-to-device copy in the same run, with `slow` naming
# our own that move less than 85 % of what the copy does; products by every kernel that can run them.
# GPU_VALUES (67108864: of a tensor), GPU_ROUNDS (8), GPU_BACKEND (cuda).
set -eu
cd "$(dirname "$0")/.."
bench_name=cuda-kernels
. bench/common.sh
: "${GPU_VALUES:=67108864}" "${GPU_ROUNDS:=8}" "${GPU_BACKEND:=cuda}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A list, as far as the device and 100 s reach.
list() { # NAME OPTIONS...
    name=$1
    shift
    timeout --foreground -k 5 100 "$QSYNC_BENCH" kernels --backend "$GPU_BACKEND" --values "$GPU_VALUES" --rounds "$GPU_ROUNDS" --json "$@" \
        > "$work/$name" || echo "bench: $name ended with exit code $?" >&2
    [ -s "$work/$name" ] || echo null > "$work/$name"
}
list moving
list products --products --candidates
jq -n --slurpfile moving "$work/moving" --slurpfile products "$work/products" '$moving[0] // {} | {backend, device, values, copy_gb_per_s,
    slow: [.kernels[]? | select((.kernel | startswith("own:")) and .fraction_of_copy < 0.85)
        | "\(.fraction_of_copy * 100 | round) %: \(.case)"],
    moving: {kernels, refused}, products: ($products[0] | if . then {kernels, refused} else null end)}' > "$work/figures"
bench_write "$work/figures"
jq -r '.figures | "a copy: \(.copy_gb_per_s // 0 | round) GB/s",
    (.moving.kernels[]? | "\(.fraction_of_copy * 100 | round) %  \(.us * 10 | round / 10) us  \(.kernel)  \(.case[:120])"),
    (.products.kernels // [] | group_by(.case)[] | min_by(.us) | "\(.gflop_per_s / 1e3 | round) TFLOP/s  \(.us * 10 | round / 10) us  \(.kernel)  \(.case[:120])"),
    ((.moving.refused // []) + (.products.refused // []) | .[] | "refused: \(.case[:90]): \(.reason[-120:])")' bench/results/cuda-kernels.json
