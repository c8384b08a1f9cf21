#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# GPUs as the program sees them, of doubles of CUDA's libraries: which there are, why one cannot be used, which one a class takes.
. "$(dirname "$0")/check.inc"
[ -n "${QS_CUDA_DOUBLES:-}" ] || { echo 'this build has no device cuda'; exit 77; }
export QSYNC_CUDA_LIBRARIES="$QS_CUDA_DOUBLES"

# gpus WHAT FILTER: jq says true of the backend cuda in the list of devices.
gpus() {
    "$QSYNC" devices --json > "$work/list" 2> "$work/err" || { cat "$work/err"; fail "$1: devices failed"; return; }
    jq -e ".devices[] | select(.backend == \"cuda\") | $2" "$work/list" > "$work/out" || { cat "$work/list"; fail "$1"; }
}

# ---- Which there are
export QSYNC_DOUBLE_DEVICES=2
gpus 'two GPUs by index and UUID' '[.gpus[].index] == [0, 1] and (.gpus | map(.uuid) | unique | length == 2)
    and all(.gpus[]; .uuid | test("^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"))'
gpus 'memory, capability and formats' 'all(.gpus[]; .capability == "9.0" and .multiprocessors == 132 and .part_least == 8 and .part_step == 8 and .memory_bytes > 0 and .free_bytes > 0
    and .free_bytes <= .memory_bytes and .unusable == null and (.formats | index("fp32") == 0 and index("tf32") and index("e4m3fn")))'
"$QSYNC" devices > "$work/out" || fail 'devices'
grep -q '^       1: .*, GPU-' "$work/out" || { cat "$work/out"; fail 'the second GPU in the list for people'; }
QSYNC_DOUBLE_CAPABILITY=75 gpus 'an older GPU has no bf16, tf32 and fp8' 'if .unusable then .gpus[0].formats else .formats end | . == ["fp32", "fp16", "int8"]'

# ---- Why one cannot be used: told, and no failure of the list
QSYNC_DOUBLE_CAPABILITY=70 gpus 'an architecture that is too old' '.gpus[0].unusable | test("compute capability 7.0: 7.5 is the least")'
QSYNC_DOUBLE_CAPABILITY=127 gpus 'an architecture without kernels' '.gpus[0].unusable | test("12.7: this build has kernels for .* alone")'
QSYNC_DOUBLE_DRIVER=12040 gpus 'a driver that is too old' '.gpus[0].unusable | test("driver is too old: it speaks CUDA 12.4, this build needs [0-9]+.0")'
QSYNC_DOUBLE_DEVICES=0 gpus 'no GPU' '.unusable | test("no GPU")'
mkdir "$work/broken" && : > "$work/broken/libcuda.so.1"
ldconfig -p 2> /dev/null | grep -q 'libcuda\.so\.1' ||
    QSYNC_CUDA_LIBRARIES="$work/broken" gpus 'no driver' '.unusable | test("libcuda.so.1: .*name its folder in QSYNC_CUDA_LIBRARIES")'

# ---- Which one a class takes
job='--model mlp --dataset shapes --batch 4 --max-steps 1'
cluster() {
    echo '{"schema": "qsync/cluster/2", "classes": {"a": {"role": "training", "backend": "cuda", '"$1"'"formats": ["fp32"]}}}' > "$work/$2"
}
cluster '"cuda": {"device": "2"}, ' third.json
cluster '"cuda": {"multiprocessors": 100}, ' odd.json
cluster '"cuda": {"multiprocessors": 64}, ' part.json
cluster '"cuda": {"device": "GPU-00000000-0000-0000-0000-000000000000"}, ' uuid.json
# shellcheck disable=SC2086
refuse 2 "GPU '2': give a number from 0 to 1, or a UUID (GPU-...)" train --cluster "$work/third.json" $job
# shellcheck disable=SC2086
refuse 2 'no GPU here has the UUID GPU-00000000-0000-0000-0000-000000000000; there are 2, numbered from 0' train --cluster "$work/uuid.json" $job
# shellcheck disable=SC2086
refuse 2 '100 multiprocessors of the GPU double of a GPU: it gives at least 8, in multiples of 8, of its 132; it would be 104' train --cluster "$work/odd.json" $job
# shellcheck disable=SC2086
"$QSYNC" train --cluster "$work/part.json" $job --out "$work/part" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail 'a part of a GPU'; }
grep -q 'compute capability 9.0, 64 of 132 multiprocessors' "$work/part/config.json" || fail 'config.json does not say on which part of the GPU'
finish
