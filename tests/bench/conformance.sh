#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# timeout: 600
# ONNX's official cases: no operator and no suite passes fewer than bench/results/conformance.json says, none of its cases got lost or became
# one that is not runnable, and every case that does not run has its reason. A run of a few cases says of each how it went.
program=$QSYNC_BENCH
. "$(dirname "$0")/../cli/check.inc"
archive=$QS_TEST_SHARED/data/onnx/onnx-v1.17.0-backend-tests.tar.gz
expected=$QS_SOURCE/bench/results/conformance.json
[ -f "$archive" ] || { echo "no $archive"; exit 77; }
mkdir "$work/cases"
tar -xzf "$archive" -C "$work/cases"

"$program" conformance "$work/cases" --json > "$work/figures" || { echo "conformance"; failures=$((failures + 1)); }
jq -n --slurpfile now "$work/figures" --slurpfile before "$expected" '
    def groups: (.operators | to_entries[]), (to_entries[] | select(.value | objects | has("runnable")));
    ([$now[0] | groups] | from_entries) as $have
    | [$before[0].figures | groups]
    | map(.key as $key | .value as $was | ($have[$key] // {}) as $is
        | ("passed", "runnable", "all", "passed_by_kernels") | select(($is[.] // -1) < $was[.]) | "\($key): \(.) fell from \($was[.]) to \($is[.] // 0)")
    | .[]' -r > "$work/fell" || failures=$((failures + 1))
[ ! -s "$work/fell" ] || { cat "$work/fell"; failures=$((failures + 1)); }
jq -e '([.failed[] | .kernels, .folding] + [.not_runnable[]]) as $reasons | ($reasons | all(length > 0))
    and (.not_runnable | length) == ([.node, .["pytorch-converted"], .["pytorch-operator"], .simple, .training | .all - .runnable] | add)
    and .node.passed <= .node.runnable and (.of_models | .passed >= .runnable * 0.85)' "$work/figures" > "$work/said" || {
    echo "figures that contradict each other:"
    jq 'del(.operators)' "$work/figures"
    failures=$((failures + 1))
}

"$program" conformance "$work/cases" --cases 'softplus*' > "$work/table" || failures=$((failures + 1))
grep -q '^node/softplus: kernels: passed' "$work/table" || { cat "$work/table"; failures=$((failures + 1)); }
"$program" conformance "$work" > "$work/said" 2>&1 && failures=$((failures + 1))
grep -q 'no folder node of cases' "$work/said" || { cat "$work/said"; failures=$((failures + 1)); }
finish
