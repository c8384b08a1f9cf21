#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The official cases of ONNX (backend tests of its release 1.17, as far as they are at hand): which qsync computes as they say, by operator,
# and why the others do not run. `make conformance` is the same.
# BENCH_CASES: the archive ($QSYNC_TEST_DATA/onnx/onnx-v1.17.0-backend-tests.tar.gz).
set -eu
cd "$(dirname "$0")/.."
bench_name=conformance
. bench/common.sh
: "${BENCH_CASES:=${QSYNC_TEST_DATA:-../shared/data}/onnx/onnx-v1.17.0-backend-tests.tar.gz}"
[ -f "$BENCH_CASES" ] || { echo "bench: $BENCH_CASES is not there: BENCH_CASES says where the archive of cases is" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/cases"
tar -xzf "$BENCH_CASES" -C "$work/cases"
"$QSYNC_BENCH" conformance "$work/cases" --json > "$work/figures.json"
bench_write "$work/figures.json"
jq '.figures | {node, training, of_models: (.of_models | del(.rest))}' bench/results/conformance.json
