# SPDX-License-Identifier: Apache-2.0
# What the scripts of this experiment share: variants, plans by hand, one run. A variant is NAME=RECIPE, with any of @ends=RECIPE (the model's
# first and last operator), @shortcuts=RECIPE (its 1x1 convolutions), @norm=NAME, @rate=X and @decay=X behind. Sourced behind common.sh.
# shellcheck shell=sh disable=SC2154
: "${OUT:=run/few-bits}" "${MODEL:=resnet20}" "${EPOCHS:=45}" "${BATCH:=128}" "${LIMIT:=0}" "${RATE:=0.1}" "${DECAY:=0.0005}" "${SEEDS:=1}"
: "${BACKEND:=cpu}"
# The suspects, each by one change of the baseline or of the variant that README.md names beside it, and one combination; VARIANTS has others.
: "${VARIANTS:=fp32=fp32 base=int4:shift4 forward=int4:shift4/bf16 backward=bf16/int4:shift4 nearest=int4:shift4:nearest-even mse=int4:shift4:mse
    mse-forward=int4:shift4:mse/bf16 log=int4:shift4/log4 log-shift=int4:shift4/log4:shift4 log-backward=bf16/log4 draws=int4:shift4/log4/log4:draw2
    input8=int4:shift4/int8:shift4/int4:shift4 weights8=int4:shift4/int4:shift4/int8:shift4
    ends=int4:shift4@ends=fp32 ends-shortcuts=int4:shift4@ends=fp32@shortcuts=fp32 log-ends=int4:shift4/log4@ends=int8:tensor@shortcuts=int8:tensor
    mse-ends=int4:shift4:mse@ends=int8:tensor@shortcuts=int8:tensor mse-log=int4:shift4:mse/log4
    mse-log-ends=int4:shift4:mse/log4@ends=int8:tensor@shortcuts=int8:tensor decay=int4:shift4@decay=0.0001 rate=int4:shift4@rate=0.05
    paper=int4:shift4@norm=l1bnq}"
mkdir -p "$OUT"

# part NAME DEFAULT: of `variant`.
part() {
    case $variant in
    *"@$1="*)
        found=${variant#*"@$1="}
        echo "${found%%@*}"
        ;;
    *) echo "$2" ;;
    esac
}

plan_by_hand() { # MODEL RECIPE ENDS SHORTCUTS
    "$QSYNC" inspect --json "$1" | jq --arg recipe "$2" --arg ends "$3" --arg shortcuts "$4" '
        [.nodes[] | select(.class == "adjustable") | .name] as $names | ([$names | first, last]) as $outer
        | {schema: "qsync/plan/2", classes: {single: {operators: ($names | map({key: ., value:
            (if IN($outer[]) then $ends elif test("shortcut") then $shortcuts else $recipe end)}) | from_entries)}}}'
}

# One run, and its row: a JSON object, with `failure` where there is no result. A run that has a row is not run again.
train_one() { # VARIANT SEED
    variant=$1 seed=$2
    name=${variant%%=*} rest=${variant#*=}
    recipe=${rest%%@*} folder=$OUT/${variant%%=*}-$2
    ends=$(part ends "$recipe") shortcuts=$(part shortcuts "$recipe") norm=$(part norm l2bn) rate=$(part rate "$RATE") decay=$(part decay "$DECAY")
    model=$MODEL
    [ "$norm" = l2bn ] || case $MODEL in *:*) model=$MODEL,norm=$norm ;; *) model=$MODEL:norm=$norm ;; esac
    rm -rf "$folder"
    code=0
    plan_by_hand "$model" "$recipe" "$ends" "$shortcuts" > "$folder.plan.json"
    set -- --model "$model" --dataset cifar10 --batch "$BATCH" --epochs "$EPOCHS" --rate "$rate" --weight-decay "$decay" --seed "$seed"
    [ "$LIMIT" -eq 0 ] || set -- "$@" --train-limit "$LIMIT"
    "$QSYNC" train "$@" --backend "$BACKEND" --plan "$folder.plan.json" --out "$folder" > "$folder.log" 2>&1 || code=$?
    [ $code -ge 128 ] && return 0 # it was ended from without: nothing is known
    if [ $code -eq 0 ]; then
        "$QSYNC" eval "$folder/weights.safetensors" --backend "$BACKEND" --recalibrate 100 --json > "$folder/new.json" 2>> "$folder.log" ||
            echo '{}' > "$folder/new.json"
        jq -c --slurpfile new "$folder/new.json" '{training_loss, test_accuracy, test_loss, planned_accuracy: .planned_test_accuracy,
            planned_loss: .planned_test_loss, recalibrated_accuracy: $new[0].accuracy, recalibrated_planned_accuracy: $new[0].planned_accuracy,
            iteration_us, seconds, steps}' "$folder/result.json" > "$folder.found"
    else
        jq -nc --arg why "exit code $code: $(tail -n 1 "$folder.log")" '{failure: ($why | gsub("[,\"\n]"; ";"))}' > "$folder.found"
    fi
    jq -c --arg variant "$name" --arg recipe "$recipe" --arg ends "$ends" --arg shortcuts "$shortcuts" --arg norm "$norm" --arg rate "$rate" \
        --arg decay "$decay" --arg seed "$seed" --arg epochs "$EPOCHS" '{variant: $variant, recipe: $recipe, ends: $ends, shortcuts: $shortcuts,
        norm: $norm, rate: $rate, decay: $decay, seed: $seed, epochs: $epochs} + .' "$folder.found" > "$folder.row.new"
    mv "$folder.row.new" "$folder.row"
    rm -f "$folder.found"
    jq -r '"\(.variant) seed \(.seed): " + (.failure // "\(.test_accuracy * 10000 | round / 100) %")' "$folder.row" >&2
}
