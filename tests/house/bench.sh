#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: short
# What benchmarks write about themselves, and what they make of their rows: the commit of a clean and of a changed tree, the line that was
# given, ratios and what is missed against figures worked out by hand.
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

# Two models, one of them without a figure that is wanted; int8 is the faster of its recipes: 200 and 260 on one thread, 500 and 390 on two.
row() { printf '{"group": "%s", "model": "%s", "format": "%s", "value": %s}\n' "$@"; }
{
    for value in 90 100 130; do row samples_per_s resnet20 fp32 $value; done
    row samples_per_s_2 resnet20 fp32 179
    row samples_per_s resnet20 int8/bf16 200
    row samples_per_s resnet20 int8:tensor 260
    row samples_per_s_2 resnet20 int8/bf16 500
    row samples_per_s_2 resnet20 int8:tensor 390
    row samples_per_s resnet20 bf16 220
    row samples_per_s_2 resnet20 bf16 396
    row peer resnet20 fp32 100
    row peer resnet20 bf16 110
    row peer_2 resnet20 fp32 100
    for format in fp32 bf16 int8:tensor; do
        row samples_per_s lenet5 $format 10
        row samples_per_s_2 lenet5 $format 18
    done
    for group in fraction_of_roof tuned fraction_of_roof_2 tuned_2; do
        for model in resnet20 lenet5; do row $group $model int8:tensor 0.5; done
    done
} > "$work/rows"
echo '{"models": {"resnet20": {"fp32": {"breakdown": []}, "int8/bf16": {"breakdown": []}, "int8:tensor": {"breakdown": []}}}}' > "$work/breakdowns"
echo '{"models": {}}' > "$work/quantization"
echo '{"key": "1", "value": {"fp32": 1}}' > "$work/peaks"
jq -n --arg cases 'resnet20:128 lenet5:1' --slurpfile breakdowns "$work/breakdowns" --slurpfile quantization "$work/quantization" \
    --slurpfile peaks "$work/peaks" -f "$QS_SOURCE/bench/step_figures.jq" "$work/rows" > "$work/figures" || fail "step_figures.jq"
holds() { jq -e "$2" "$work/figures" > /dev/null || { cat "$work/figures"; fail "step_figures.jq: $1"; }; }
holds 'int8 is not the faster recipe' '.int8_recipe.resnet20 == "int8:tensor" and .int8_recipe_2.resnet20 == "int8/bf16"'
holds 'the peer of int8 is the faster one' '.ratio_to_peer.resnet20 == {fp32: 1, bf16: 2, int8: (260 / 110)}'
holds 'two threads over one' '[.scaling[] | [.model, .format, .ratio, .missed]] | sort == [["lenet5", "bf16", 1.8, false], ["lenet5", "fp32", 1.8, false],
    ["lenet5", "int8", 1.8, false], ["resnet20", "bf16", 1.8, false], ["resnet20", "fp32", 1.79, true], ["resnet20", "int8", (500 / 260), false]]'
holds 'what is missed' '.missed == ["resnet20 fp32", "resnet20 fp32 scaling"]'
jq '{figures: .}' "$work/figures" | jq -r -f "$QS_SOURCE/bench/step_table.jq" > "$work/table" || fail "step_table.jq"
says() { grep -qE "$1" "$work/table" || { cat "$work/table"; fail "step_table.jq: no line with $1"; }; }
says '^resnet20 +2 +fp32 +179 +100 +1.79 +- +1.79$'
says '^resnet20 fp32: 100, 1 of 1.36$'
says '^resnet20 fp32, two threads: 1.79 of 1.8$'
# One thread alone scales to nothing.
grep -v '_2"' "$work/rows" | jq -n --arg cases '' --slurpfile breakdowns "$work/breakdowns" --slurpfile quantization "$work/quantization" \
    --slurpfile peaks "$work/peaks" -f "$QS_SOURCE/bench/step_figures.jq" > "$work/figures" || fail "step_figures.jq on one thread"
holds 'one thread' '.scaling == [] and .missed == ["resnet20 fp32"]'

# Wires on 1000 Mbit/s: a MiB is 262144 values, of 4 bytes in fp32, and packets of 9014 bytes on the way carry 8948 of them.
echo '{"key": "1", "value": {"fp32": {"median_us": 10000}, "int8": {"median_us": 8000}}}' > "$work/sizes"
printf '{"key": "%s", "value": {"predicted_us": %s, "measured_us": %s}}\n' fp32 30 40 int8 33 30 > "$work/trained"
echo '{"job": {"buckets": {"wire": "int8"}}}' > "$work/plan"
jq -n --argjson rate 1000 --argjson mtu 9000 --slurpfile sizes "$work/sizes" --slurpfile trained "$work/trained" --slurpfile plan "$work/plan" \
    -f "$QS_SOURCE/bench/wires_network_figures.jq" > "$work/figures" || fail "wires_network_figures.jq"
holds 'the time that a network needs' '.key == "1000" and .value.taken == "int8" and .value.fastest == "int8" and .value.iteration.fp32.predicted_of_measured == 0.75 and
    (.value.mib["1"].fp32.network_of_measured - 0.8450482 | fabs < 1e-6) and (.value.mib["1"].int8.network_of_measured - 0.2651091 | fabs < 1e-6) and
    .value.cpu_binds == ["1 MiB, int8"]'

[ $failures -eq 0 ] || { echo "$failures failed"; exit 1; }
echo "all as expected"
