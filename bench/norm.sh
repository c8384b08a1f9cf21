#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# How fast normalisations are beside batch_norm: forward, backward and both, per shape and as geometric means, in fp32 and bf16. All kernels
# of a shape run in turn and of each the least time counts, so that other work on the machine hits all alike. PyTorch's batch norm of the
# same shapes stands beside where Debian's python3-torch is installed.
# BENCH_ROUNDS (40), BENCH_THREADS (1).
set -eu
cd "$(dirname "$0")/.."
bench_name=norm
. bench/common.sh
: "${BENCH_ROUNDS:=40}" "${BENCH_THREADS:=1}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

export OMP_NUM_THREADS="$BENCH_THREADS"
"$QSYNC_BENCH" norm --rounds "$BENCH_ROUNDS" --threads "$BENCH_THREADS" --json > "$work/ours"
peer='{}'
if /usr/bin/python3 -c 'import torch' 2> /dev/null; then
    peer=$(/usr/bin/python3 bench/norm_torch.py "$BENCH_ROUNDS" "$BENCH_THREADS")
else
    echo "bench: no python3-torch, no peer" >&2
fi
jq --argjson peer "$peer" '.torch_batch_norm_us = $peer
    | .l2_over_torch = (.shapes as $ours | $peer | with_entries(.value = {
        forward: (.value.forward / $ours[.key].times.batch_norm.forward.us),
        backward: (.value.backward / $ours[.key].times.batch_norm.backward.us)}))' "$work/ours" > "$work/figures.json"
bench_write "$work/figures.json"
jq '.figures | del(.shapes[].times)' bench/results/norm.json
