# SPDX-License-Identifier: Apache-2.0
# Shared by experiments that go on where they were stopped. Set `experiment` to the experiment's folder before sourcing; afterwards the
# working directory is the project's root. QSYNC: the program; QSYNC_DATA: folder of data sets; EXPERIMENT_RESULTS: where CSV and pictures go
# (the experiment's folder), for trials that must not touch what is committed. No cache of kernels is asked, unless QSYNC_CACHE names one.
# shellcheck shell=sh disable=SC2034,SC2154
export OMP_NUM_THREADS=1 QSYNC_CACHE="${QSYNC_CACHE:-off}"
cd "$experiment/../.." || exit 1
: "${QSYNC:=build/release/qsync}" "${EXPERIMENT_RESULTS:=$experiment}"
[ -n "${QSYNC_DATA:-}" ] || { [ -d ../shared/data/cifar10 ] && export QSYNC_DATA=../shared/data; } || export QSYNC_DATA=data
mkdir -p "$EXPERIMENT_RESULTS"
. tools/launch.sh

# class NAME ROLE COUNT SPEED LIMIT FORMATS: a class of cluster.json.
class() {
    printf '"%s": {"role": "%s", "backend": "cpu", "count": %s, "speed": %s, "formats": [%s], "storage": [%s],
        "memory": {"capacity": "8GiB", "limit": "%s"}}' "$1" "$2" "$3" "$4" "$6" "$6" "$5"
}
cluster() { # CLASSES
    echo "{\"schema\": \"qsync/cluster/2\", \"classes\": {$1}, \"links\": []}"
}
all_formats='"fp32", "bf16", "int8"'

# profile_once RANKS FOLDER MODEL DATASET BATCH OPTIONS...: FOLDER/profile.json for FOLDER/cluster.json, unless it is there.
profile_once() {
    ranks=$1 folder=$2 model=$3 dataset=$4 batch=$5
    shift 5
    [ ! -f "$folder/profile.json" ] || return 0
    echo "$(basename "$experiment"): profile of $model, $dataset, batch $batch" >&2
    must "$folder/log" launch "$ranks" profile --cluster "$folder/cluster.json" --model "$model" --dataset "$dataset" --batch "$batch" \
        --out "$folder/profile.json" "$@"
}

# hand_plan CLUSTER MODEL DATASET BATCH RECIPE: a plan by hand for a cluster file; RECIPE: a jq expression, from an operator's name to its
# recipe on inference classes. Training classes run in fp32.
hand_plan() {
    "$QSYNC" inspect --json "$2" | jq --slurpfile cluster "$1" --arg model "$2" --arg dataset "$3" --argjson batch "$4" '
        ([.nodes[] | select(.class == "adjustable") | {key: .name, value: (.name | '"$5"')}] | from_entries) as $lowered
        | {schema: "qsync/plan/2", job: {model: $model, dataset: $dataset, batch: $batch},
           classes: ($cluster[0].classes | map_values({operators: (if .role == "inference" then $lowered else {} end)}))}'
}

# publish NAME: standard input becomes EXPERIMENT_RESULTS/NAME, whole or not at all, also where two experiments do so at a time.
publish() {
    cat > "$EXPERIMENT_RESULTS/$1.new.$$"
    mv "$EXPERIMENT_RESULTS/$1.new.$$" "$EXPERIMENT_RESULTS/$1"
}

# draw PICTURE JQ_ARGUMENTS...: the description that a jq program prints becomes the picture EXPERIMENT_RESULTS/PICTURE.
draw() {
    picture=$1
    shift
    jq -L experiments "$@" | "$QSYNC" plot - --out "$EXPERIMENT_RESULTS/$picture"
}
