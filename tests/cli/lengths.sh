#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# ranks: 2
# Several lengths from profile to training, over two unlike ranks: sentences of SST-2, a small encoder. Times are
# means over lengths, memory is that of the longest; what does not fit together is refused.
. "$(dirname "$0")/check.inc"
folder=$(dirname "$0")
QSYNC_DATA=${QS_TEST_SHARED:-none}/data
export QSYNC_DATA
{ [ -d "$QSYNC_DATA/text/sst2" ] || [ -d "$QSYNC_DATA/sst2" ]; } || exit 77

job="--model bert:layers=1,hidden=64,heads=2,inner=128 --dataset sst2:length=64 --batch 8 --optimizer adam"
cluster="--cluster $folder/cluster.json"

launch profile $cluster $job --lengths 16,32,64 --repetitions 2 --statistics-iterations 3 --conversion-seconds 0.5 --out "$work/profile.json" \
    > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "profile"; }
grep -q 'lengths 16 ([0-9]* sentences), 32 ([0-9]* sentences), 64 ([0-9]* sentences)' "$work/out" || { cat "$work/out"; fail "the profile does not tell its lengths"; }
jq -e '[.lengths[].length] == [16, 32, 64] and ([.lengths[].samples] | add) == 67349' "$work/profile.json" > "$work/out" || fail "the samples of lengths"

plan() {
    "$QSYNC" plan $cluster --profile "$work/profile.json" --dataset sst2:length=64 --optimizer adam "$@"
}
plan --epochs 1 --out "$work/plan.json" --explain > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "plan"; }
grep -q 'steps by length' "$work/out" || { cat "$work/out"; fail "--explain does not tell the lengths"; }
# Means over lengths, the most memory of any.
jq -e '.job.lengths == [16, 32, 64] and ([.classes[] | . as $c | ([.lengths[] | .share * .iteration_us] | add) as $mean
    | ($mean / $c.predicted.iteration_us - 1 | fabs) < 1e-9 and ([.lengths[].arena] | max) == $c.predicted.memory.arena
    and .lengths[2].schedule == $c.schedule and ([.lengths[].schedule] | unique | length) == 3] | all)' "$work/plan.json" > "$work/out" ||
    { jq '.classes[] | .lengths, .predicted' "$work/plan.json"; fail "the plan is not put together from its lengths"; }
"$QSYNC" simulate $cluster --profile "$work/profile.json" --plan "$work/plan.json" --json > "$work/sim" || fail "simulate"
# Printed with twelve digits.
jq -e --slurpfile plan "$work/plan.json" '[[.lengths[].iteration_us, .iteration_us],
    ($plan[0].classes.weak | [.lengths[].iteration_us, .predicted.iteration_us])] | transpose | map(.[0] / .[1] - 1 | fabs < 1e-9) | all' "$work/sim" > "$work/out" ||
    { cat "$work/sim"; fail "simulate says something else"; }

for run in one two; do
    launch train $cluster --plan "$work/plan.json" --train-limit 500 --test-limit 100 --epochs 1 --rate 0.001 --out "$work/$run" > "$work/out" 2> "$work/err" ||
        { cat "$work/err"; fail "train $run"; }
done
cmp -s "$work/one/metrics.jsonl" "$work/two/metrics.jsonl" || fail "two runs are not alike"
grep -q 'length 16: [0-9]* full-size steps' "$work/out" || { cat "$work/out"; fail "train does not tell the lengths"; }
jq -e '[.lengths[] | .length] == [16, 32, 64] and (.lengths[0].iteration_us | .predicted > 0 and .measured > 0)' "$work/one/audit.json" > "$work/out" ||
    { cat "$work/one/audit.json"; fail "the audit lacks lengths"; }
"$QSYNC" report --json "$work/one" > "$work/report" || fail "report"
jq -e '[.memory[][] | .predicted == .reserved] | all' "$work/report" > "$work/out" || { cat "$work/report"; fail "memory is not as predicted"; }
said=$(jq .test_accuracy "$work/one/result.json")
got=$("$QSYNC" eval "$work/one/weights.safetensors" --dataset sst2:length=64 --lengths 16,32,64 --test-limit 100 --json | jq .accuracy)
[ "$said" = "$got" ] || fail "eval says $got, training said $said"

# refused WHAT TEXT ARGUMENTS...: the program refuses, and says so.
refused() {
    what=$1 text=$2
    shift 2
    "$@" > "$work/out" 2> "$work/err" && fail "$what was taken"
    grep -q -- "$text" "$work/err" || { cat "$work/err"; fail "$what: the refusal lacks: $text"; }
}
refused "another list than the plan's" 'the plan was made for lengths 16,32,64, the job has 32,64' launch train $cluster --plan "$work/plan.json" --lengths 32,64 --train-limit 64
refused "another list than the profile's" 'the job has lengths 32,64, the profile knows 16,32,64' plan --lengths 32,64
plan --lengths 64 --epochs 1 --out "$work/longest.json" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "the longest alone"; }
jq -e '.job.lengths == [64] and ([.classes[] | has("lengths")] | any | not)' "$work/longest.json" > "$work/out" || fail "a plan of the longest alone"
launch train $cluster --plan "$work/longest.json" --train-limit 200 --test-limit 16 --out "$work/three" > "$work/out" 2> "$work/err" ||
    { cat "$work/err"; fail "train the longest alone"; }
jq -e '.lengths[0].iteration_us.predicted > 0' "$work/three/audit.json" > "$work/out" || { cat "$work/three/audit.json"; fail "no prediction of the longest alone"; }
"$QSYNC" plan --diff "$work/plan.json" "$work/longest.json" > "$work/out" && fail "plans of other lengths are the same"
grep -q '^plan .* lengths *16,32,64 -> 64$' "$work/out" || { cat "$work/out"; fail "plan diff does not tell lengths"; }
refused "lengths where none are measured" 'lengths' "$QSYNC" indicator --lengths 16
refused "a list that does not reach the end" 'the longest must be the length of the samples, 64' "$QSYNC" train $job --lengths 16,32 --train-limit 64 --test-limit 8
refused "images" 'takes no samples of a length that varies' "$QSYNC" train --model lenet5 --dataset shapes --lengths 32
refused "lengths beside batches" 'both are measured at one length' launch profile $cluster $job --lengths 16,64 --batches 4,16 --out "$work/other.json"
for list in 0,64 16,x , 16,,64 64,16 1,2,3,4,5,6,7,8,64; do
    refused "--lengths $list" "--lengths $list" "$QSYNC" train $job --lengths "$list"
done
jq 'del(.lengths)' "$work/profile.json" > "$work/one.json"
refused "a profile of one length" 'the profile knows one alone: profile with --lengths 16,32,64' \
    "$QSYNC" plan $cluster --profile "$work/one.json" --dataset sst2:length=64 --lengths 16,32,64

# Published devices: the data set tells how often each length occurs.
"$QSYNC" profile --estimate --cluster "$folder/../../examples/cluster-a.json" $job --lengths 16,64 --out "$work/estimate.json" > "$work/out" 2> "$work/err" ||
    { cat "$work/err"; fail "estimate"; }
jq -e '[.lengths[].samples] | add == 67349' "$work/estimate.json" > "$work/out" || fail "an estimate does not count lengths"

# An encoder of an ONNX file that leaves the length open: it takes that of the set, runs at several, and evaluates as it was trained.
if [ -d "$QSYNC_DATA/text/wnut17" ] || [ -d "$QSYNC_DATA/wnut17" ]; then
    printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' a b c d e f g h i '##a' '##b' '##e' '##i' '##n' '##o' '##r' '##s' '##t' . > "$work/vocab.txt"
    bert=$(cd "$folder/../golden/onnx" && pwd)/bert-tokens.onnx
    set="--dataset wnut17:vocab=$work/vocab.txt,length=11 --test-limit 60"
    "$QSYNC" train --model "$bert" $set --lengths 8,11 --batch 4 --rate 0.01 --epochs 1 --train-limit 600 --out "$work/file" > "$work/out" 2> "$work/err" ||
        { cat "$work/err"; fail "train a file at several lengths"; }
    jq -e '[.lengths[] | .length] == [8, 11] and ([.lengths[].iteration_us.measured > 0] | all)' "$work/file/audit.json" > "$work/out" ||
        { jq .lengths "$work/file/audit.json"; fail "a file did not run at every length"; }
    jq -e '[.inputs[] | .length] == [11, 11, 11]' "$work/file/graph.json" > "$work/out" || { jq .inputs "$work/file/graph.json"; fail "the length is not the set's"; }
    said=$(jq .test_accuracy "$work/file/result.json")
    got=$("$QSYNC" eval "$work/file/weights.safetensors" $set --lengths 8,11 --json | jq .accuracy)
    [ "$said" = "$got" ] || fail "eval of a file at several lengths says $got, training said $said"
    refused "a list beyond the file's" 'the longest must be the length of the samples, 9' "$QSYNC" train --model "$bert:length=9" --lengths 6,11 \
        --dataset "wnut17:vocab=$work/vocab.txt,length=9" --train-limit 64
fi
finish
