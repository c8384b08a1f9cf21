#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# ranks: 2
# Training on GPUs, of doubles of CUDA's libraries: beside a rank of the host in one job, with sums that the GPUs make by themselves,
# going on from the state that the other device left, gradients that are not finite, and steps that are predicted and audited as they are
# started.
. "$(dirname "$0")/check.inc"
[ -n "${QS_CUDA_DOUBLES:-}" ] || { echo 'this build has no device cuda'; exit 77; }
export QSYNC_CUDA_LIBRARIES="$QS_CUDA_DOUBLES" QSYNC_DOUBLE_DEVICES=2
job='--model mlp --dataset shapes --batch 4 --test-limit 8'
loss() { jq -s '[.[] | select(.type == "epoch")][-1].training_loss' "$work/$1/metrics.jsonl"; }
near() {
    jq -en --argjson a "$(loss "$1")" --argjson b "$(loss "$2")" '($a - $b | fabs) <= 1e-4 * $b' > "$work/out" ||
        fail "losses of $1 and $2: $(loss "$1"), $(loss "$2")"
}
run() { # FOLDER ARGUMENTS...: on two ranks
    folder=$1
    shift
    # shellcheck disable=SC2086
    launch train $job --out "$work/$folder" "$@" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "train $folder"; }
}
one='{"schema": "qsync/cluster/2", "classes": {"a": {"role": "training", "backend": "A", "formats": ["fp32"]}, "b": {"role": "training", "backend": "B", "formats": ["fp32"]}}}'
for pair in cpu:cpu cpu:cuda cuda:cuda; do
    echo "$one" | sed "s/\"A\"/\"${pair%:*}\"/; s/\"B\"/\"${pair#*:}\"/" > "$work/$pair.json"
    run "$pair" --cluster "$work/$pair.json" --max-steps 3
done
near cpu:cuda cpu:cpu
run devices --cluster "$work/cuda:cuda.json" --max-steps 3 --all-reduce devices
cmp -s "$work/devices/metrics.jsonl" "$work/cuda:cuda/metrics.jsonl" || fail 'sums of devices give other losses than those of the host'
# ---- A state of one device on the other
alone() { # FOLDER BACKEND ARGUMENTS...: on one rank
    folder=$1 backend=$2
    shift 2
    # shellcheck disable=SC2086
    "$QSYNC" train $job --train-limit 16 --epochs 2 --backend "$backend" --out "$work/$folder" "$@" > "$work/out" 2> "$work/err" ||
        { cat "$work/err"; fail "train $folder"; }
}
alone whole cpu
alone half-cpu cpu --max-steps 4 --checkpoint-every 1
alone half-cuda cuda --max-steps 4 --checkpoint-every 1
alone rest-cuda cuda --resume "$work/half-cpu/state.qsync"
alone rest-cpu cpu --resume "$work/half-cuda/state.qsync"
near rest-cuda whole
near rest-cpu whole

# ---- Gradients that are not finite: seen where they lie, so that more steps bring no more large copies to the host
copies() { # STEPS
    QSYNC_DOUBLE_LOG=1 alone log cuda --max-steps "$1"
    [ "$(grep -c 'kernel finite_check$' "$work/err")" -eq "$1" ] || fail "$1 steps on a GPU: another number of looks at the gradients"
    awk '/cuMemcpyDtoHAsync/ && $(NF - 1) >= 4096' "$work/err" | wc -l > "$work/copies-$1"
}
copies 2
copies 4
cmp -s "$work/copies-2" "$work/copies-4" || fail "large copies to the host in 2 and 4 steps: $(cat "$work/copies-2"), $(cat "$work/copies-4")"
echo '{"schema": "qsync/plan/2", "classes": {"a": {"operators": {}}, "b": {"operators": {}, "tensors": {"fc1": {"gradient": "fp(2,1,8):overflow=inf"}}}}}' > "$work/small.json"
for sums in shared devices; do
    # shellcheck disable=SC2086
    launch train $job --cluster "$work/cuda:cuda.json" --plan "$work/small.json" --loss-scaling 65536 --all-reduce $sums --out "$work/small" > "$work/out" 2> "$work/err"
    code=$?
    [ $code -eq 4 ] || { cat "$work/err"; fail "a gradient that is not finite, $sums: exit code $code, expected 4"; }
    grep -q 'rank 1: a gradient is not finite in step 1: operator fc1, tensor gradient of fc1 ' "$work/err" ||
        { cat "$work/err"; fail "a gradient that is not finite, $sums: another message"; }
    tail -1 "$work/small/metrics.jsonl" | jq -e '.type == "failure" and .reason == "gradient" and .step == 1' > "$work/verdict" || fail "$sums: another last line"
    rm -rf "$work/small"
done

# ---- A step is predicted, and its iteration audited, in the way in which it is started
holds() { jq -e "$3" "$1" > "$work/verdict" || { cat "$1"; fail "$2"; }; }
for record in always no; do
    echo "{\"schema\": \"qsync/cluster/2\", \"classes\": {\"a\": {\"role\": \"training\", \"backend\": \"cuda\", \"cuda\": {\"record\": \"$record\"}, \"formats\": [\"fp32\"]}}}" \
        > "$work/$record.json"
    "$QSYNC" profile --cluster "$work/$record.json" --model mlp --dataset shapes --batch 4 --repetitions 2 --statistics-iterations 2 \
        --conversion-seconds 0.05 --out "$work/$record-profile.json" > "$work/out" 2>&1 || { cat "$work/out"; fail "profile, record $record"; }
    "$QSYNC" plan --cluster "$work/$record.json" --profile "$work/$record-profile.json" --planner fp32 --out "$work/$record-plan.json" > "$work/out" 2>&1 ||
        { cat "$work/out"; fail "plan, record $record"; }
    "$QSYNC" simulate --cluster "$work/$record.json" --profile "$work/$record-profile.json" --plan "$work/$record-plan.json" --json > "$work/$record-said" ||
        fail "simulate, record $record"
    # shellcheck disable=SC2086
    "$QSYNC" train $job --cluster "$work/$record.json" --plan "$work/$record-plan.json" --max-steps 40 --rate 0.001 --out "$work/$record" > "$work/out" 2>&1 ||
        { cat "$work/out"; fail "train, record $record"; }
    "$QSYNC" report "$work/$record" > "$work/$record-report" 2>&1 || fail "report, record $record"
done
taken='kernels of class a take the times of recordings'
grep -q "$taken" "$work/always-said" || { cat "$work/always-said"; fail 'recordings are not what is predicted'; }
grep -q "$taken" "$work/no-said" && fail 'recordings are predicted of a class without them'
holds "$work/always-profile.json" 'no row knows recordings' '.classes.a | .recorded > 0 and all(.kernels[]; .us.recorded > 0)'
holds "$work/no-profile.json" 'rows know recordings that are not made' '.classes.a | has("recorded") or any(.kernels[]; .us | has("recorded")) | not'
holds "$work/always/audit.json" 'phases of recordings were not measured' '.ranks[0].recorded and ([.ranks[0].phases[] | has("predicted")] | any | not) and .iteration_us.predicted > 0'
holds "$work/no/audit.json" 'phases are not all there' '(.ranks[0] | has("recorded") | not) and all(.ranks[0].phases[]; has("predicted"))'
for record in always no; do
    jq -e --slurpfile timing "$work/$record/timing.json" '.iteration_us.measured / $timing[0].median_step_us - 1 | fabs < 1e-6' "$work/$record/audit.json" > "$work/verdict" ||
        fail "record $record: the audit's iteration is not the step's"
done
grep -q 'steps are started as recordings, phases are of those that were timed kernel by kernel, iteration' "$work/always-report" || { cat "$work/always-report"; fail 'a report without recordings'; }

# ---- Who cannot
# shellcheck disable=SC2086
launch train $job --cluster "$work/cpu:cuda.json" --max-steps 1 --all-reduce devices > "$work/out" 2> "$work/err" && fail 'a CPU in a group of GPUs'
grep -q 'rank 0: the device cpu adds up with no other: choose an all-reduce through the host' "$work/err" || { cat "$work/err"; fail 'who cannot add up by itself'; }
finish
