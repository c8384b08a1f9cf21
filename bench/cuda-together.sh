#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Ranks of one job on one machine with a GPU, by MPI, as figures of examples/demo.sh: `mixed`, a CPU beside the GPU
# (examples/cluster-mixed.json), and `shared`, two unlike classes of one GPU at once (examples/cluster-gpu.json).
# TOGETHER_OUT (run/cuda-together) keeps runs; TOGETHER_PAIRS (mixed shared).
set -eu
cd "$(dirname "$0")/.."
bench_name=cuda-together
. bench/common.sh
: "${TOGETHER_OUT:=run/cuda-together}" "${TOGETHER_PAIRS:=mixed shared}"
export QSYNC
mkdir -p "$TOGETHER_OUT"

job() { # NAME CLUSTER MODEL BATCH EPOCHS LIMIT
    DEMO_OUT=$TOGETHER_OUT/$1 DEMO_CLUSTER=examples/$2 DEMO_MODEL=$3 DEMO_BATCH=$4 DEMO_EPOCHS=$5 DEMO_DATASET=${6%%:*} \
        DEMO_PROFILE="--repetitions 4 --conversion-seconds 2 --statistics-iterations 10" DEMO_OPTIONS="--train-limit ${6#*:}" sh examples/demo.sh
    for planner in fp32 uniform qsync; do
        set -- "$@" "$TOGETHER_OUT/$1/$planner"
    done
    name=$1
    shift 6
    "$QSYNC" report --json "$@" > "$TOGETHER_OUT/$name/report.json"
    jq --arg folder "$TOGETHER_OUT/$name/" 'def short: if type == "object" then with_entries(.key |= ltrimstr($folder) | .value |= short) else . end; short' \
        "$TOGETHER_OUT/$name/report.json" > "$TOGETHER_OUT/$name.figures"
}

images=shapes
[ ! -d "${QSYNC_DATA:-}/cifar10" ] || images=cifar10
for one in $TOGETHER_PAIRS; do
    case $one in
    mixed) job mixed cluster-mixed.json resnet8 64 2 "$images:2560" ;;
    shared) job shared cluster-gpu.json resnet20 256 2 "$images:10000" ;;
    *) echo "bench: $one: must be mixed or shared" >&2 && exit 2 ;;
    esac
done
for name in mixed shared; do
    [ ! -f "$TOGETHER_OUT/$name.figures" ] || jq --arg name "$name" '{($name): .}' "$TOGETHER_OUT/$name.figures"
done | jq -s 'add' > "$TOGETHER_OUT/figures.json"
bench_write "$TOGETHER_OUT/figures.json"
