#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# qsync bench --tune: measured kernels are remembered, and by whom they are taken: benchmarks and profiles, until the cache is off; plans keep
# what their profile had; many at once; a file that is no cache.
. "$(dirname "$0")/check.inc"
"$QSYNC" devices | grep -q '^cpu ' || exit 77 # the only one with several kernels for a case
unset XDG_CACHE_HOME
export HOME="$work/home" QSYNC_CACHE=

tune="bench --tune --models lenet5 --dataset shapes --recipes fp32 --batch 8 --steps 6"
"$QSYNC" $tune --json > "$work/tuned" 2> "$work/err" || { cat "$work/err"; fail "--tune"; }
if ! jq -e '.models.lenet5.cases | length > 0' "$work/tuned" > "$work/out"; then
    echo "no case has a choice of kernels in this build"
    exit 77
fi
cache=$work/home/.cache/qsync/tuning.sqlite
if [ ! -s "$cache" ]; then
    grep -q 'no SQLite' "$work/err" && exit 77
    fail "there is no $cache"
fi
jq -e --arg file "$cache" '.file == $file and .threads == 1 and (.models.lenet5 | .chosen_us <= .usual_us and
    all(.cases[]; (.us | length) >= 2 and .us[.usual] > 0 and .us[.chosen] <= .us[.usual]))' "$work/tuned" > "$work/out" || {
    cat "$work/tuned"
    fail "figures of --tune"
}
"$QSYNC" $tune > "$work/table" 2> "$work/err" || { cat "$work/err"; fail "--tune as a table"; }
grep -q "remembered in $cache" "$work/table" || fail "the table does not say where"

# Profiles: every case with a choice has the chosen kernel, and says so.
"$QSYNC" $tune --json > "$work/tuned" || fail "--tune again"
printf '{"schema": "qsync/cluster/2", "classes": {"one": {"role": "training", "backend": "cpu", "formats": ["fp32"]}}}' > "$work/cluster.json"
job="--cluster $work/cluster.json --model lenet5 --dataset shapes --batch 8"
"$QSYNC" profile $job --repetitions 2 --statistics-iterations 1 --conversion-seconds 1 --out "$work/profile.json" > "$work/out" 2> "$work/err" || {
    cat "$work/err"
    fail "profile"
}
jq -e --slurpfile tuned "$work/tuned" '[.classes.one.kernels[] | {(.case): .}] | add as $row |
    $tuned[0].models.lenet5.cases | all(.[]; $row[.case].tuned and $row[.case].kernel == .chosen)' "$work/profile.json" > "$work/out" ||
    fail "the profile does not have the chosen kernels"
jq -e '[.classes.one.kernels[] | select(.tuned | not)] | length > 0' "$work/profile.json" > "$work/out" || fail "all rows are called tuned"

# A plan of that profile runs as planned when the cache is off, or says other things.
"$QSYNC" plan --cluster "$work/cluster.json" --profile "$work/profile.json" --dataset shapes --planner uniform --out "$work/plan.json" > "$work/out" 2> "$work/err" || {
    cat "$work/err"
    fail "plan"
}
train() { "$QSYNC" train --cluster "$work/cluster.json" --plan "$work/plan.json" --dataset shapes --max-steps 3 --test-limit 16 --out "$1" > "$work/out" 2> "$work/err"; }
train "$work/with" || { cat "$work/err"; fail "training with the cache"; }
QSYNC_CACHE=off train "$work/without" || { cat "$work/err"; fail "training without the cache"; }
cmp -s "$work/with/weights.safetensors" "$work/without/weights.safetensors" || fail "the cache changed what a plan trains"

# Benchmarks name their kernels.
"$QSYNC" bench --models lenet5 --recipes fp32 --batch 8 --steps 1 --kernels --json > "$work/bench" || fail "bench --kernels"
jq -e '.models.lenet5.fp32 | .cases == (.kernels | length) and .tuned == ([.kernels[] | select(.tuned)] | length) and
    all(.kernels[]; .places >= 1 and .kernel != "")' "$work/bench" > "$work/out" || { cat "$work/bench"; fail "kernels of a benchmark"; }
QSYNC_CACHE=off "$QSYNC" bench --models lenet5 --recipes fp32 --batch 8 --steps 1 --json > "$work/bench"
jq -e '.models.lenet5.fp32 | .tuned == 0 and (has("kernels") | not)' "$work/bench" > "$work/out" || fail "QSYNC_CACHE=off is not obeyed"
QSYNC_CACHE=off "$QSYNC" $tune --json > "$work/tuned" || fail "--tune without a cache"
jq -e '.file == null' "$work/tuned" > "$work/out" || fail "--tune without a cache names a file"

# Images by their size are those of the set.
"$QSYNC" bench --tune --models lenet5 --input 3x32x32 --classes 10 --recipes fp32 --batch 8 --steps 6 --json > "$work/sized" || fail "--tune --input"
jq -e --slurpfile tuned "$work/tuned" '[.models.lenet5.cases[].case] == [$tuned[0].models.lenet5.cases[].case]' "$work/sized" > "$work/out" ||
    fail "--input and --dataset give other cases"
refuse 2 'do not go together' bench --tune --dataset shapes --classes 10

# Several at once, into a file that is not there yet.
for i in 1 2 3 4; do
    QSYNC_CACHE=$work/shared/cache "$QSYNC" $tune --json > "$work/tuned.$i" 2> "$work/err.$i" &
done
wait
for i in 1 2 3 4; do
    jq -e '.models.lenet5.cases | length > 0' "$work/tuned.$i" > "$work/out" || { cat "$work/err.$i"; fail "several at once: $i"; }
done
[ -s "$work/shared/cache" ] || fail "several at once left no file"

# Ranks of a class run alike, by what the first of them reads: what another one has does not matter, and is not even looked at.
echo 'this is no cache' > "$work/broken"
if [ "${MPIEXEC#*--oversubscribe}" != "$MPIEXEC" ]; then # Open MPI, whose ranks know their number
    printf '{"schema": "qsync/cluster/2", "classes": {"one": {"role": "training", "backend": "cpu", "count": 2, "formats": ["fp32"]}}}' > "$work/pair.json"
    cat > "$work/rank.sh" << 'END'
#!/bin/sh
[ "$OMPI_COMM_WORLD_RANK" != "$BROKEN_RANK" ] || export QSYNC_CACHE=$BROKEN
exec "$@"
END
    pair() {
        $MPIEXEC 2 sh "$work/rank.sh" "$QSYNC" train --cluster "$work/pair.json" --model lenet5 --dataset shapes --batch 8 --max-steps 3 --test-limit 16 \
            --out "$1" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "two ranks"; }
    }
    export BROKEN="$work/broken"
    BROKEN_RANK=none pair "$work/both"
    BROKEN_RANK=1 pair "$work/one"
    grep -q 'left aside' "$work/err" && fail "the second rank of a class looked at a cache"
    cmp -s "$work/both/weights.safetensors" "$work/one/weights.safetensors" || fail "ranks of a class did not run alike"
    BROKEN_RANK=0 pair "$work/first"
    [ "$(grep -c 'left aside' "$work/err")" -eq 1 ] || { cat "$work/err"; fail "the first rank of a class did not look at its cache"; }
fi

# What is no cache: a run goes on without it, and says so once; whoever measures for it is told.
QSYNC_CACHE=$work/broken "$QSYNC" bench --models lenet5 --recipes fp32 --batch 8 --steps 1 --json > "$work/bench" 2> "$work/err" || fail "a broken cache"
jq -e '.models.lenet5.fp32.tuned == 0' "$work/bench" > "$work/out" || fail "tuned by a broken cache"
[ "$(grep -c 'left aside' "$work/err")" -eq 1 ] || { cat "$work/err"; fail "a broken cache is not told once"; }
QSYNC_CACHE=$work/broken "$QSYNC" $tune > "$work/out" 2> "$work/err" && fail "--tune into a broken cache"
[ "$(cat "$work/broken")" = 'this is no cache' ] || fail "a broken cache was changed"

refuse 2 '--dataset needs --tune' bench --dataset shapes
refuse 2 'do not go together: leave one out' bench --tune --kernels
finish
