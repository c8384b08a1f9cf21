#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The demo's table as figures: accuracy, prediction error (per cent) and memory of the plans fp32, uniform and qsync.
set -eu
cd "$(dirname "$0")/.."
bench_name=demo
. bench/common.sh
: "${DEMO_OUT:=run/demo}"
export QSYNC DEMO_OUT
sh examples/demo.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$QSYNC" report --json "$DEMO_OUT/fp32" "$DEMO_OUT/uniform" "$DEMO_OUT/qsync" > "$work/figures.json"
bench_write "$work/figures.json"
