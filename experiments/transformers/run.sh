#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Transformers in low precision; run.sh [PART]..., all four without arguments. What is finished is not done again (remove a line, or the run in
# TRANSFORMERS_OUT, to have it again); results, tables and pictures are written after every run.
#   finetune   finetune/: MiniLM on SST-2, AG News and SQuAD by two unlike ranks under every planner, as experiments/allocation has it
#   vit        formats.csv: a vision transformer on CIFAR-10 from scratch, in five formats and two normalisations
#   decoder    formats.csv: a decoder on the bytes of TinyShakespeare and WikiText-2, the same
#   demote     demote.csv: formats of tensors of MiniLM on SST-2, as experiments/fp-assignment has it
# finetune uses two cores; the others train one run on each of TRANSFORMERS_LANES cores.
#
# TRANSFORMERS_SEEDS (1 2 3); TRANSFORMERS_OUT: runs, profiles (run/transformers); TRANSFORMERS_LANES (2); TRANSFORMERS_WEIGHTS: of MiniLM, to
# begin with (minilm/model.safetensors of QSYNC_DATA, or of the cache that continuous integration fills); TRANSFORMERS_TASKS: of finetune
# (sst2 ag_news squad); TRANSFORMERS_TRAIN_OPTIONS: more for every training (--max-steps 4).
# FINETUNE_PARTS (plans accuracy speed); FINETUNE_ROUNDS (2), FINETUNE_STEPS (12): of speed; FINETUNE_SST2, FINETUNE_AG_NEWS, FINETUNE_SQUAD: DATASET BATCH-OF-A-RANK SAMPLES
# TEST-SAMPLES EPOCHS RATE (0 samples: all; the first of squad are all of one article); FINETUNE_PLANNERS, FINETUNE_LIMITS. VIT_MODEL, VIT_BATCH, VIT_EPOCHS, VIT_SAMPLES, VIT_RATE, VIT_NORMS;
# DECODER_MODEL, DECODER_BATCH, DECODER_SAMPLES, DECODER_EPOCHS, DECODER_RATE, DECODER_SETS, DECODER_NORMS; FORMATS (NAME=RECIPE ...).
# DEMOTE_RATIOS, DEMOTE_SEEDS, DEMOTE_SST2: as FINETUNE_SST2.
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
: "${TRANSFORMERS_SEEDS:=1 2 3}" "${TRANSFORMERS_OUT:=run/transformers}" "${TRANSFORMERS_LANES:=2}" "${TRANSFORMERS_TRAIN_OPTIONS:=}" \
    "${TRANSFORMERS_TASKS:=sst2 ag_news squad}" "${TRANSFORMERS_WEIGHTS:=$QSYNC_DATA/minilm/model.safetensors}" \
    "${FINETUNE_SST2:=sst2:length=32 16 3072 872 1 2e-4}" "${FINETUNE_AG_NEWS:=ag_news:length=64 16 1280 1000 1 2e-4}" \
    "${FINETUNE_SQUAD:=squad:length=160 8 0 1600 1 3e-4}" "${FINETUNE_PLANNERS:=fp32 uniform dbs qsync}" "${FINETUNE_LIMITS:=ample tight}" \
    "${FINETUNE_PARTS:=plans accuracy speed}" "${FINETUNE_ROUNDS:=2}" "${FINETUNE_STEPS:=12}" \
    "${VIT_MODEL:=vit:layers=4,hidden=128,heads=4,inner=256,patch=8,dropout=0}" "${VIT_BATCH:=32}" "${VIT_EPOCHS:=3}" "${VIT_SAMPLES:=20000}" \
    "${VIT_RATE:=1e-3}" "${DECODER_MODEL:=gpt2:layers=4,hidden=128,heads=4,inner=512,vocab=256,dropout=0}" "${DECODER_BATCH:=8}" \
    "${DECODER_SAMPLES:=8192}" "${DECODER_EPOCHS:=1}" "${DECODER_RATE:=2e-3}" "${DECODER_SETS:=tinyshakespeare wikitext2}" \
    "${FORMATS:=fp32=fp32 bf16=bf16 int8=int8:tensor W4A4G4=int4:shift4 W6A6G6=int6:shift4}" "${VIT_NORMS:=ln l1ln}" "${DECODER_NORMS:=ln}" \
    "${DEMOTE_RATIOS:=0 0.4 0.8 1}" "${DEMOTE_SEEDS:=1 2}" "${DEMOTE_SST2:=sst2:length=32 32 2048 872 1 2e-4}"
out=$TRANSFORMERS_OUT
mkdir -p "$out"
cached=${XDG_CACHE_HOME:-${HOME:-}/.cache}/qsync/minilm/model.safetensors
[ -f "$TRANSFORMERS_WEIGHTS" ] || [ ! -f "$cached" ] || TRANSFORMERS_WEIGHTS=$cached
# Adam, linear warm-up and decay; the table of words, half of MiniLM's parameters, stays as it is.
job_options="--optimizer adam --freeze embeddings.*" rates="--schedule linear --warmup-epochs 0.1"
set -f # patterns of parameters are no files

say() {
    echo "transformers: $*" >&2
}

weights_check() {
    [ -f "$TRANSFORMERS_WEIGHTS" ] || { say "no weights of MiniLM at $TRANSFORMERS_WEIGHTS: sh tools/fetch-data.sh $QSYNC_DATA minilm"; exit 1; }
}

# ---- finetune

finetune_call() { # PARTS SEEDS TASK...: experiments/allocation, a task at a time or, for tables, all together
    parts=$1 seeds=$2 entries=''
    shift 2
    for task; do
        case $task in
        sst2) setting=$FINETUNE_SST2 start="--weights-new classifier.*,pooler.*" ;;
        ag_news) setting=$FINETUNE_AG_NEWS start="--weights-new classifier.*,pooler.*" ;;
        squad) setting=$FINETUNE_SQUAD start="--weights-new qa_outputs.* --weights-unused pooler.*" ;;
        *) echo "transformers: TRANSFORMERS_TASKS: no task $task; tasks: sst2 ag_news squad" >&2; exit 2 ;;
        esac
        # shellcheck disable=SC2086
        set -- $setting
        [ $# -eq 6 ] || { echo "transformers: $task: must be DATASET BATCH SAMPLES TEST-SAMPLES EPOCHS RATE" >&2; exit 2; }
        entries="$entries minilm/$1/$2/$5/$6" limits="$rates --train-limit $3 --test-limit $4"
    done
    mkdir -p "$EXPERIMENT_RESULTS/finetune"
    EXPERIMENT_RESULTS=$EXPERIMENT_RESULTS/finetune ALLOCATION_MODELS=$entries ALLOCATION_PARTS=$parts ALLOCATION_SEEDS=$seeds \
        ALLOCATION_PLANNERS=$FINETUNE_PLANNERS ALLOCATION_LIMITS=$FINETUNE_LIMITS ALLOCATION_OUT=$out/finetune ALLOCATION_ROUNDS=$FINETUNE_ROUNDS \
        ALLOCATION_STEPS=$FINETUNE_STEPS ALLOCATION_EIGHTHS="4 12" ALLOCATION_JOB_OPTIONS=$job_options \
        ALLOCATION_PROFILE_OPTIONS="--repetitions 4 --statistics-iterations 20 --conversion-seconds 3" \
        ALLOCATION_TRAIN_OPTIONS="--weights $TRANSFORMERS_WEIGHTS $start $limits $TRANSFORMERS_TRAIN_OPTIONS" \
        sh experiments/allocation/run.sh > "$out/finetune.table"
}
finetune() {
    weights_check
    for finetune_part in $FINETUNE_PARTS; do
        [ "$finetune_part" = accuracy ] && seeds_in_turn=$TRANSFORMERS_SEEDS || seeds_in_turn=-
        for seed in $seeds_in_turn; do
            for task in $TRANSFORMERS_TASKS; do finetune_call "$finetune_part" "$seed" "$task"; done
        done
    done
    # shellcheck disable=SC2086
    finetune_call tables "$TRANSFORMERS_SEEDS" $TRANSFORMERS_TASKS
    cat "$out/finetune.table"
}

# ---- Runs of one device, several at a time

# train_once FOLDER OPTIONS...: leaves FOLDER/done with the exit code, of which 4 (the loss was not finite) is a result.
train_once() {
    run=$1
    shift
    say "$(basename "$(dirname "$run")"), $(basename "$run")"
    code=0
    # shellcheck disable=SC2086
    "$QSYNC" train --no-pinning --out "$run" "$@" $TRANSFORMERS_TRAIN_OPTIONS > "$run.log" 2>&1 || code=$?
    [ $code -eq 0 ] || [ $code -eq 4 ] || { tail -n 3 "$run.log" >&2; return 1; }
    echo $code > "$run/done"
    collect
}
# lanes FUNCTION LINES: FUNCTION with the words of each line, of which lane n takes every TRANSFORMERS_LANES-th.
lanes() {
    function=$1 lines=$2 pids='' failed=0
    for lane in $(seq 0 $((TRANSFORMERS_LANES - 1))); do
        echo "$lines" | awk -v lane="$lane" -v lanes="$TRANSFORMERS_LANES" 'NF && at++ % lanes == lane' | while read -r line; do
            # shellcheck disable=SC2086
            "$function" $line || exit 1
        done &
        pids="$pids $!"
    done
    for pid in $pids; do wait "$pid" || failed=1; done
    [ $failed -eq 0 ] || exit 1
}
# A row a finished run: KIND.jq makes it of what the run was (.cell) and what came out; without a run it is the header.
summarise() { # KIND [RUN]
    if [ $# -eq 1 ]; then
        jq -nr --argjson cell null --argjson line null --argjson plan null --arg code '' -f "experiments/transformers/$1.jq"
    else
        jq -nr --slurpfile cell "$2.cell" --slurpfile line "$2/metrics.jsonl" --slurpfile plan "$2/plan.json" --rawfile code "$2/done" \
            -f "experiments/transformers/$1.jq"
    fi
}
# merge COLUMNS NEW OLD: rows that differ in their first columns, in order; of two that do not, the new one. Runs may have been made elsewhere.
merge() {
    head -n 1 "$2"
    awk -F, -v columns="$1" '{ key = ""; for (i = 1; i <= columns; i++) key = key FS $i } !seen[key]++ && FNR > 1' "$2" "$3" | LC_ALL=C sort
}
collect() (
    flock 9 # lanes write the same files
    touch "$out/formats.csv" "$out/demote.csv"
    for kind in formats demote; do
        [ -d "$out/$kind" ] || continue
        {
            summarise $kind
            find "$out/$kind" -name 'done' | while read -r finished; do summarise $kind "${finished%/done}"; done
        } > "$out/$kind.new"
        merge "$(if [ $kind = formats ]; then echo 5; else echo 3; fi)" "$out/$kind.new" "$(results_of $kind)" | publish $kind.csv
    done
    jq -nr -L experiments --rawfile formats "$(results_of formats)" --rawfile demote "$(results_of demote)" -f experiments/transformers/table.jq | publish table.md
) 9> "$out/lock"
results_of() {
    if [ -f "$EXPERIMENT_RESULTS/$1.csv" ]; then echo "$EXPERIMENT_RESULTS/$1.csv"; else echo "$out/$1.csv"; fi
}

# ---- vit, decoder

# One recipe for every adjustable operator; products of two activations, normalisations and losses follow their inputs.
one_recipe() { # MODEL RECIPE INSPECT-OPTIONS...
    model=$1 recipe=$2
    shift 2
    "$QSYNC" inspect --json "$model" "$@" | jq --arg recipe "$recipe" '{schema: "qsync/plan/2", classes: {single: {operators:
        ([.nodes[] | select(.class == "adjustable") | {key: .name, value: $recipe}] | from_entries)}}}'
}
format_run() { # SET FORMAT=RECIPE NORM SEED
    set=$1 format=${2%%=*} recipe=${2#*=} norm=$3 seed=$4
    run=$out/formats/$set/$format-$norm-$seed
    [ ! -f "$run/done" ] || return 0
    mkdir -p "$out/formats/$set"
    case $set in
    cifar10-*) model=$VIT_MODEL,norm=$norm dataset=cifar10 shape="--input 3x32x32 --classes 10"
        options="--batch $VIT_BATCH --epochs ${set#*-} --train-limit $VIT_SAMPLES --rate $VIT_RATE --schedule cosine --no-augmentation" ;;
    *) model=$DECODER_MODEL,norm=$norm dataset=$set:vocab=bytes,length=128 shape=''
        options="--batch $DECODER_BATCH --epochs $DECODER_EPOCHS --train-limit $DECODER_SAMPLES --rate $DECODER_RATE --schedule linear --test-limit 1000" ;;
    esac
    # shellcheck disable=SC2086
    one_recipe "$model" "$recipe" $shape > "$run.json"
    jq -n --arg set "$set" --arg model "$model" --arg norm "$norm" --arg format "$format" --arg recipe "$recipe" --arg seed "$seed" '$ARGS.named' > "$run.cell"
    # shellcheck disable=SC2086
    train_once "$run" --model "$model" --dataset "$dataset" --plan "$run.json" --optimizer adam --seed "$seed" $options
}
format_cells() { # NORMS SET...: lines, seeds outermost
    norms=$1
    shift
    for seed in $TRANSFORMERS_SEEDS; do
        for set; do
            for norm in $norms; do
                for format in $FORMATS; do echo "$set $format $norm $seed"; done
            done
        done
    done
}

# ---- demote

demote_run() { # PLANNER RATIO SEED
    run=$out/demote/$1-r$2-$3
    [ ! -f "$run/done" ] || return 0
    # shellcheck disable=SC2086
    if [ ! -f "$run.plan" ]; then
        [ "$2" = - ] && chosen='' || chosen="--ratio $2"
        must "$run.log" "$QSYNC" plan --cluster "$out/demote/cluster.json" --profile "$out/demote/profile.json" --dataset "$demote_set" --planner "$1" $chosen \
            --loss-scaling dynamic $job_options $rates --epochs "$demote_epochs" --rate "$demote_rate" --out "$run.plan"
    fi
    jq -n --arg planner "$1" --arg ratio "$2" --arg seed "$3" '$ARGS.named' > "$run.cell"
    train_once "$run" --cluster "$out/demote/cluster.json" --plan "$run.plan" --dataset "$demote_set" --seed "$3" --weights "$TRANSFORMERS_WEIGHTS" \
        --weights-new 'classifier.*,pooler.*' --train-limit "$demote_samples" --test-limit "$demote_tests"
}
demote() {
    weights_check
    # shellcheck disable=SC2086
    set -- $DEMOTE_SST2
    [ $# -eq 6 ] || { echo "transformers: DEMOTE_SST2: must be DATASET BATCH SAMPLES TEST-SAMPLES EPOCHS RATE" >&2; exit 2; }
    demote_set=$1 demote_batch=$2 demote_samples=$3 demote_tests=$4 demote_epochs=$5 demote_rate=$6
    mkdir -p "$out/demote"
    cluster '"single": {"role": "training", "backend": "cpu", "count": 1, "speed": 1, "formats": ["fp32"],
        "storage": ["fp32", "fp(6,9,0)", "fp(4,3,4)", "fp(5,2,0)"], "memory": {"capacity": "64GiB", "limit": "100%"}}' > "$out/demote/cluster.json"
    # shellcheck disable=SC2086
    profile_once 1 "$out/demote" minilm "$demote_set" "$demote_batch" --loss-scaling dynamic $job_options --repetitions 2 \
        --statistics-iterations 2 --conversion-seconds 2
    lanes demote_run "$(for seed in $DEMOTE_SEEDS; do
        for planner in fp32 uniform-fp op; do echo "$planner - $seed"; done
        for ratio in $DEMOTE_RATIOS; do echo "demote $ratio $seed"; done
    done)"
}

[ $# -gt 0 ] || set -- finetune vit decoder demote
for part; do
    case $part in
    finetune) finetune ;;
    vit) lanes format_run "$(format_cells "$VIT_NORMS" "cifar10-$VIT_EPOCHS")" ;;
    decoder)
        # shellcheck disable=SC2086
        lanes format_run "$(format_cells "$DECODER_NORMS" $DECODER_SETS)" ;;
    demote) demote ;;
    *) echo "transformers: no part $part; parts: finetune vit decoder demote" >&2; exit 2 ;;
    esac
done
collect
[ ! -f "$EXPERIMENT_RESULTS/formats.csv" ] || sh "$experiment/picture.sh"
cat "$EXPERIMENT_RESULTS/table.md"
