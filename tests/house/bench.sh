#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: short
# What benchmarks write about themselves: the commit of a clean and of a changed tree, the line that was given.
set -u
command -v jq > /dev/null && command -v git > /dev/null || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
fail() { echo "$1"; failures=$((failures + 1)); }

# A tree of its own, whose one benchmark writes what it is told.
tree=$work/tree
mkdir -p "$tree/bench/results" "$tree/src"
cp "$QS_SOURCE/bench/common.sh" "$tree/bench/"
echo 1 > "$tree/src/source"
echo '{}' > "$tree/bench/results/made.json"
echo text > "$tree/README.md"
cat > "$tree/bench/made.sh" << 'END'
set -eu
bench_name=made
. bench/common.sh
: "${BENCH_ROUNDS:=3}"
[ -z "${CHANGE:-}" ] || echo "$CHANGE" > src/source
echo '{"rounds": "'"$BENCH_ROUNDS"'"}' > figures.json
bench_write figures.json
END
in_tree() { (cd "$tree" && git -c user.name=n -c user.email=e -c core.hooksPath=/dev/null "$@"); }
{ in_tree init -q && in_tree add . && in_tree commit -qm first; } > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
commit=$(in_tree rev-parse --short HEAD)

# wrote COMMIT COMMAND SETTINGS...: the benchmark in this environment writes so.
wrote() {
    wanted_commit=$1 wanted_command=$2
    shift 2
    (cd "$tree" && env -u QSYNC_CACHE "$@" sh bench/made.sh) 2> "$work/err" || { cat "$work/err"; fail "the benchmark failed with: $*"; }
    jq -e --arg commit "$wanted_commit" --arg command "$wanted_command" '.commit == $commit and .command == $command and (.figures | has("rounds"))
        and (.machine | length > 0)' "$tree/bench/results/made.json" > /dev/null || { cat "$tree/bench/results/made.json"; fail "not as given by: $*"; }
}
wrote "$commit" 'make bench-made'
# Results that were just written and texts change no figure.
echo more >> "$tree/README.md"
wrote "$commit" 'BENCH_CASES='"'a:1 b:2'"' BENCH_ROUNDS=7 make bench-made' BENCH_ROUNDS=7 BENCH_CASES='a:1 b:2'
wrote "$commit" 'PREDICTION_LATER='"''"' make bench-made' PREDICTION_LATER= PREDICTION_OUT=/somewhere DEMO_OUT=elsewhere QSYNC_CACHE=off
wrote "$commit" 'DEMO_EPOCHS=1 KERNEL_ROUNDS=2 QSYNC_CACHE=found.sqlite make bench-made' KERNEL_ROUNDS=2 QSYNC_CACHE=found.sqlite DEMO_EPOCHS=1
# What changes while it runs was not measured; what was changed before was.
wrote "$commit" 'make bench-made' CHANGE=2
wrote "$commit-dirty" 'make bench-made' CHANGE=3

[ $failures -eq 0 ] || { echo "$failures failed"; exit 1; }
echo "all as expected"
