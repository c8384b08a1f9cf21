#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What examples/demo-gpu.sh shows, as figures: accuracy, prediction error (per cent) and memory of each class's rank by itself. Settings are the
# demo's.
set -eu
cd "$(dirname "$0")/.."
bench_name=cuda-demo
. bench/common.sh
: "${DEMO_OUT:=run/demo-gpu}"
export QSYNC DEMO_OUT
sh examples/demo-gpu.sh
jq --arg folder "$DEMO_OUT/" 'def short: if type == "object" then with_entries(.key |= ltrimstr($folder) | .value |= short) else . end; short' \
    "$DEMO_OUT/report.json" > "$DEMO_OUT/figures.json"
bench_write "$DEMO_OUT/figures.json"
