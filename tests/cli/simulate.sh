#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# ranks: 2
# What if: more ranks, slower ranks, no casts; and a run's measured timeline beside the predicted one.
. "$(dirname "$0")/check.inc"
cluster=$(dirname "$0")/cluster.json
job="--model lenet5 --dataset shapes --batch 16"
# holds FILTER: true of the last simulation.
holds() { jq -e "$1" "$work/sim" > /dev/null || { fail "not so: $1"; cat "$work/sim"; }; }

# shellcheck disable=SC2086
launch profile --cluster "$cluster" $job --repetitions 3 --statistics-iterations 3 --out "$work/profile.json" > "$work/out" 2> "$work/err" ||
    { cat "$work/err"; fail profile; }
# shellcheck disable=SC2086
"$QSYNC" plan --cluster "$cluster" --profile "$work/profile.json" $job --out "$work/plan.json" > "$work/out" || fail plan
files="--cluster $cluster --profile $work/profile.json --plan $work/plan.json"
# shellcheck disable=SC2086
simulate() { "$QSYNC" simulate $files "$@"; }

simulate --json > "$work/sim" || fail "simulate"
holds '.ranks == 2 and (.notes | map(select(test("extrapolated"))) | length) == 0'
# Phases are the iteration, of every group of ranks.
holds '.iteration_us as $t | .groups | all((.phases | add) / $t - 1 | fabs < 1e-6)'

simulate --json --count weak=16,big=16 > "$work/sim" || fail "simulate with other counts"
holds '.ranks == 32 and (.groups | length) == 2 and (.notes | map(select(test("all-reduce of 32 ranks .*extrapolated from 2"))) | length) == 1'
simulate --count weak=16 > "$work/out" || fail "simulate in words"
grep -q 'note: all-reduce of 17 ranks' "$work/out" || fail "what is extrapolated is not told"
# A cluster file with other counts is as good.
sed 's/"count": 1/"count": 16/' "$cluster" > "$work/large.json"
"$QSYNC" simulate --cluster "$work/large.json" --profile "$work/profile.json" --plan "$work/plan.json" --json > "$work/sim2" || fail "a larger cluster"
cmp -s "$work/sim" "$work/sim2" || fail "the file's counts are not the option's"

simulate --json --count big=3 --slow rank:2:5000,weak:1.5 > "$work/sim" || fail "simulate with stragglers"
holds '.groups | map(select(.class == "big")) | length == 2 and (.[1].slow == 5000 and .[1].first_rank == 2)'
holds '.groups | map(.late_us[1]) | .[0] > .[1]'
simulate --json --no-casts > "$work/sim" || fail "simulate --no-casts"
holds '.no_casts and all(.groups[]; .phases.cast_us == 0)'

# shellcheck disable=SC2086
{
    refuse 2 'CLASS=RANKS' simulate $files --count weak
    refuse 2 'no class "nobody"' simulate $files --count nobody=2
    refuse 2 'CLASS:FACTOR or rank:N:FACTOR' simulate $files --slow weak:0
    refuse 2 'ranks 0 to 1' simulate $files --slow rank:2:2
    refuse 2 '--measured needs --trace' simulate $files --measured "$work/run"
    refuse 1 'qsync train --trace' simulate $files --trace "$work/trace.json" --measured "$work/run"
}
[ -e "$work/trace.json" ] && fail "a refused trace was written"

# shellcheck disable=SC2086
launch train --cluster "$cluster" --plan "$work/plan.json" $job --train-limit 1920 --test-limit 100 --trace --out "$work/run" > "$work/out" 2> "$work/err" ||
    { cat "$work/err"; fail "train --trace"; }
simulate --trace "$work/trace.json" --measured "$work/run" > "$work/out" || fail "simulate --measured"
grep -q 'measured in .*: iteration' "$work/out" || fail "the measured iteration is not told"
keeps_rules "$work/run/trace.json"
keeps_rules "$work/trace.json"
cp "$work/trace.json" "$work/sim"
holds '[.traceEvents[] | select(.name == "process_name") | .args.name] == ["rank 0 (big) predicted", "rank 1 (weak) predicted", "rank 0 (big) measured", "rank 1 (weak) measured"]'
holds '[.traceEvents[] | select(.ph == "X")] | length > 0 and all(.ts >= 0 and .dur >= 0 and .pid >= 0 and .pid < 4 and .tid >= 0 and .tid < 5)'
# Kernels of the same step have the same names, and are as many, in both.
holds '[.traceEvents[] | select(.ph == "X" and .tid == 1)] | (map(select(.pid == 0).name)) == (map(select(.pid == 1).name))'
finish
