#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Models of ONNX files, trained: every model at hand and those of the tests, twenty steps over two unlike ranks, once in fp32 and once with one
# rank in a mix of fp32, bf16 and int8. For each the loss of the first five and of the last five steps, which must be less, and the bytes that
# each rank's arena was predicted and reserved at, which must be equal. What cannot be imported says why. `make onnx-training` is the same.
# Where a data set fits the model's input it is taken, else samples with a rule are made (onnx_training_data.py). Models whose file holds one
# number for all weights draw them anew. Small models are profiled, and what is predicted is their plans'; of the others (BENCH_TIMES=no),
# whose profile would take long, it is what `inspect --memory` lowers.
# BENCH_LARGE=yes: also VGG-19, of 144 million parameters, of which two ranks take 6 GiB and a long time.
# BENCH_MODELS: the folder of models ($QSYNC_TEST_DATA/onnx/models); BENCH_ONLY: names of those to run, nothing is then written;
# BENCH_TIMES=yes: profiles of all, and how long an iteration was predicted and measured to take, on a machine that does nothing else;
# BENCH_OUT: a run goes on with what is there; remove the folder to start anew; BENCH_PYTHON: Python 3, without any package.
set -eu
cd "$(dirname "$0")/.."
bench_name=onnx-training
. bench/common.sh
. tools/launch.sh
[ -n "${QSYNC_DATA:-}" ] || export QSYNC_DATA="${QSYNC_TEST_DATA:-../shared/data}"
: "${BENCH_MODELS:=$QSYNC_DATA/onnx/models}" "${BENCH_ONLY=}" "${BENCH_TIMES:=no}" "${BENCH_LARGE:=no}" "${BENCH_OUT:=run/$bench_name}" "${BENCH_PYTHON:=python3}"
[ -d "$BENCH_MODELS" ] || { echo "bench: $BENCH_MODELS is not there: BENCH_MODELS says where the models are" >&2; exit 1; }
small=tests/golden/onnx out=$BENCH_OUT
mkdir -p "$out"

# Model and options of its import; data set, "clothes" (a batch of photographs of each of ten kinds), or "made"; batch of a rank; rate of Adam; other options of train.
models() {
    cat << END
$BENCH_MODELS/mnist-cntk-opset8/mnist.onnx fashion-mnist 16 0.001 --scale 1
$BENCH_MODELS/mnist-onnxmlir-opset13.onnx fashion-mnist 16 0.002 --mean 0.1307 --deviation 0.3081
$BENCH_MODELS/squeezenet1.0-fp16-opset7.onnx clothes:size=224 2 0.0003
$BENCH_MODELS/resnet50-first-block.onnx made 1 0.003
$BENCH_MODELS/ultraface-RFB-320-opset9.onnx:output=scores made 2 0.001
$BENCH_MODELS/ultraface-RFB-320-opset9.onnx:output=boxes made 2 0.001
$BENCH_MODELS/ppocr-mobile-v2-cls-mobilenetv3-opset14.onnx:p2o.DynamicDimension.1=48,p2o.DynamicDimension.2=192 made 4 0.001
$BENCH_MODELS/bert-large-topology-tiny-qa-opset11.onnx made 8 0.003
$BENCH_MODELS/t5-encoder-random-opset12.onnx:length=16 made 8 0.01
$BENCH_MODELS/silero-vad-16k-opset15.onnx made 4 0.001
$BENCH_MODELS/bert-dummy-2layer-opset12.onnx made 4 0.001
$small/resnet18.onnx clothes:size=64 8 0.001
$small/mobilenet_v3.onnx clothes:size=64 8 0.001
$small/gated.onnx made 8 0.001
$small/vit.onnx cifar10 8 0.003
$small/swin.onnx made 8 0.003
$small/bert-span.onnx made 8 0.003
$small/bert-tokens.onnx made 8 0.003
$small/distilbert-class.onnx made 8 0.003
$small/roberta-class.onnx:length=8 made 8 0.003
$small/gpt2-tokens.onnx made 8 0.003
$small/rnn.onnx:length=8 made 8 0.003
$small/gru.onnx:length=8 made 8 0.003
$small/lstm.onnx:length=8 made 8 0.003
$small/lstm-folded.onnx:length=8 made 8 0.003
$BENCH_MODELS/light/light_inception_v1.onnx clothes:size=224 2 0.001 --weights-new *
$BENCH_MODELS/light/light_squeezenet.onnx clothes:size=224 2 0.001 --weights-new *
$BENCH_MODELS/light/light_resnet50.onnx clothes:size=224 2 0.0005 --weights-new *
$BENCH_MODELS/light/light_bvlc_alexnet.onnx clothes:size=224 2 0.0003 --weights-new *
END
    [ "$BENCH_LARGE" = no ] || echo "$BENCH_MODELS/light/light_vgg19.onnx clothes:size=224 1 0.0001 --weights-new *"
}

class() { # name role formats
    printf '"%s": {"role": "%s", "backend": "cpu", "count": 1, "speed": 1, "formats": [%s], "storage": [%s],
        "memory": {"capacity": "8GiB", "limit": "100%%"}}' "$1" "$2" "$3" "$3"
}
echo "{\"schema\": \"qsync/cluster/2\", \"classes\": {$(class big training '"fp32"'), $(class weak inference '"fp32", "bf16", "int8"')}, \"links\": []}" \
    > "$out/cluster.json"

# run NAME MODEL DATASET BATCH RATE OPTIONS...: figures of one model into $out/NAME/figures; 1 where a command failed, whose output is in log.
run() {
    name=$1 model=$2 set=$3 batch=$4 rate=$5
    shift 5
    here=$out/$name
    mkdir -p "$here"
    # How data are normalised belongs to the job, which parameters start anew to the training alone.
    case $* in --weights-new*) start="--weights $model $*" job='' ;; *) start='' job=$* ;; esac
    if ! "$QSYNC" inspect "$model" --graph "$here/graph.json" > "$here/log" 2>&1; then
        jq -n --arg why "$(tail -n 1 "$here/log" | sed "s|.*$(basename "${model%%:*}"): ||")" '{refused: $why}' > "$here/figures"
        return
    fi
    case $set in
    made) set=$("$BENCH_PYTHON" bench/onnx_training_data.py "$here/graph.json" "$here/data.npz" $((12 * batch))) || return ;;
    clothes:*)
        find "$QSYNC_DATA/images/clothing10/train" -mindepth 1 -type d | while read -r kind; do
            mkdir -p "$here/clothes/train/${kind##*/}" "$here/clothes/val/${kind##*/}"
            find "$kind" -type f | sort | head -n "$batch" | xargs cp -t "$here/clothes/train/${kind##*/}"
            find "$kind" -type f | sort | tail -n 1 | xargs cp -t "$here/clothes/val/${kind##*/}"
        done
        set=folder:$(cd "$here" && pwd)/clothes,${set#*:}
        ;;
    esac
    # shellcheck disable=SC2086
    set -- --model "$model" --dataset "$set" --batch "$batch" --optimizer adam $job
    profiled=$BENCH_TIMES
    [ "$(jq -s '[.[].operators[].shape[1:] // [1] | map(numbers) | reduce .[] as $n (1; . * $n)] | add < 1000000' "$here/graph.json")" = false ] || profiled=yes
    [ $profiled = no ] || launch 2 profile --cluster "$out/cluster.json" "$@" --repetitions 2 --statistics-iterations 1 \
        --conversion-seconds 0.1 --out "$here/profile.json" > "$here/log" 2>&1 || return
    for plan in fp32 mixed; do
        "$QSYNC" inspect "$model" --json | jq --arg plan $plan --arg model "$model" --arg set "$set" --argjson batch "$batch" '
            [.nodes[] | select(.class == "adjustable").name] as $names
            | def pins(f): {operators: ($names | to_entries | map({key: .value, value: {recipe: (.key | f), pin: true}}) | from_entries)};
            {schema: "qsync/plan/2", job: {model: $model, dataset: $set, batch: $batch, epochs: 4, optimizer: {name: "adam"}},
             classes: {big: pins("fp32"), weak: pins(if $plan == "fp32" then "fp32" else ["int8/bf16", "bf16", "int8/bf16", "fp32"][. % 4] end)}}' \
            > "$here/$plan.plan"
        if [ $profiled = yes ]; then
            jq 'del(.job)' "$here/$plan.plan" > "$here/$plan.pins"
            "$QSYNC" plan --cluster "$out/cluster.json" --profile "$here/profile.json" --pins "$here/$plan.pins" "$@" --epochs 4 \
                --out "$here/$plan.plan" > "$here/log" 2>&1 || return
        fi
        # shellcheck disable=SC2086
        launch 2 train --cluster "$out/cluster.json" --plan "$here/$plan.plan" "$@" $start --rate "$rate" --schedule constant --warmup-epochs 0 \
            --no-augmentation --epochs 4 --train-limit $((10 * batch)) --test-limit "$batch" --out "$here/$plan" > "$here/log" 2>&1 || return
        jq -s '[.[] | select(.type == "epoch") | .training_loss]' "$here/$plan/metrics.jsonl" > "$here/$plan.losses"
        for class in big weak; do
            "$QSYNC" inspect "$model" --memory --batch "$batch" --plan "$here/$plan.plan" --class $class --json || return
        done | jq -s 'map(.arena_bytes)' > "$here/$plan.arenas"
    done
    jq -n --arg times "$BENCH_TIMES" --arg profiled $profiled --slurpfile graph "$here/graph.json" --slurpfile plan "$here/mixed.plan" \
        --slurpfile fp32 "$here/fp32.losses" --slurpfile mixed "$here/mixed.losses" \
        --slurpfile fp32_audit "$here/fp32/audit.json" --slurpfile mixed_audit "$here/mixed/audit.json" \
        --slurpfile fp32_arenas "$here/fp32.arenas" --slurpfile mixed_arenas "$here/mixed.arenas" '
        def figures($loss; $audit; $arenas): {first_loss: $loss[0], last_loss: $loss[-1], falls: ($loss[-1] < $loss[0]),
            arenas: [$audit.ranks | to_entries[] | {predicted: (.value.memory.arena.predicted // $arenas[.key]), reserved: .value.memory.arena.reserved}]}
            + (if $times == "yes" then {iteration_us: $audit.iteration_us} else {} end);
        {operators: ($graph[0].operators | length), predicted_by: (if $profiled == "yes" then "plan" else "inspect --memory" end),
         recipes: ([$plan[0].classes.weak.operators[].recipe] | group_by(.) | map({key: .[0], value: length}) | from_entries),
         fp32: figures($fp32[0]; $fp32_audit[0]; $fp32_arenas[0]), mixed: figures($mixed[0]; $mixed_audit[0]; $mixed_arenas[0])}' > "$here/figures"
}

models | while read -r text dataset batch rate options; do
    name=$(basename "${text%%.onnx*}")
    case $text in *:output=*) name=$name-${text##*:output=} ;; esac
    case " ${BENCH_ONLY:-$name} " in *" $name "*) ;; *) continue ;; esac
    here=$out/$name
    if [ ! -f "$here/figures" ]; then
        echo "bench: $name" >&2
        set -f
        # shellcheck disable=SC2086
        run "$name" "$text" "$dataset" "$batch" "$rate" $options < /dev/null || true
        set +f
    fi
    row=$here/figures
    if [ ! -f "$row" ]; then
        row=$here/failed
        jq -n --arg why "$(grep -m 1 '^qsync:' "$here/log" || tail -n 1 "$here/log")" '{failed: $why}' | tee "$row" >&2
    fi
    jq --arg name "$name" --arg data "$dataset" --argjson batch "$batch" '{($name): ({data: $data, batch: $batch} + .)}' "$row"
done | jq -s add > "$out/figures.json"

jq -r 'def loss: if . then (. * 1000 | round / 1000 | tostring) else "-" end;
    (["model", "data", "fp32: first, last loss", "mixed: first, last loss", "arenas of the mixed plan, as predicted"] | @tsv),
    (to_entries[] | .value as $v | [.key, $v.data] + if $v.refused or $v.failed then [$v.refused // ("FAILED: " + $v.failed)] else
        [($v.fp32 | (.first_loss | loss) + " " + (.last_loss | loss)), ($v.mixed | (.first_loss | loss) + " " + (.last_loss | loss)),
         ([$v.mixed.arenas[] | "\(.reserved)" + (if .predicted == .reserved then "" else " (predicted \(.predicted))" end)] | join(" "))] end | @tsv)' \
    "$out/figures.json"
[ -n "$BENCH_ONLY" ] || bench_write "$out/figures.json"
jq -e '[.[] | select(.refused | not) | select(.failed or ([.fp32, .mixed] | all(.falls and (.arenas | all(.predicted == .reserved))) | not))] == []' \
    "$out/figures.json" > /dev/null || { echo "bench: a model did not train, or its memory was not as predicted" >&2; exit 1; }
