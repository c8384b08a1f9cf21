# SPDX-License-Identifier: Apache-2.0
# Shared by the benchmarks: the form of a result, {machine, commit, command, figures}. Set bench_name before sourcing it. QSYNC, QSYNC_BENCH: the programs. Kernels are those that the
# device takes by itself, or, where QSYNC_CACHE is set, those of that file.
# `commit` and `command` are taken here, before anything is measured: the tree may change meanwhile.

# The commit, and -dirty where a tracked file differs from it that figures can depend on: results and texts are none. QSYNC_COMMIT says it
# where the tree is a copy without git.
bench_commit() {
    [ -z "${QSYNC_COMMIT:-}" ] || { echo "$QSYNC_COMMIT"; return; }
    git rev-parse --short HEAD 2> /dev/null || { echo unknown; return; }
    git diff --quiet HEAD -- . ':!bench/results' ':!experiments' ':!*.md' || echo -dirty
}
# The line that was given, with the settings in it that change figures; not where runs are kept, where the peer is, or how long it may take.
bench_command() {
    jq -nr --arg name "$bench_name" '[$ENV | to_entries | sort_by(.key)[]
        | select((.key | test("^(ACCURACY|ADAPT|BENCH|DEMO|GPU|KERNEL|PREDICTION|TOGETHER|TRANSFORMER)_") and (test("_(BENCHES|JOBS|LIMIT|LINES|OUT|PACKAGE|PARTS|PEER|PYTHON|TESTS|TOOLS|WAIT)$") | not)) or (.key == "QSYNC_CACHE" and (.value | IN("", "off") | not)))
        | "\(.key)=" + (.value | if test("^[\\w.,:/=+-]+$") then . else @sh end)] + ["make bench-\($name)"] | join(" ")'
}
case ${QSYNC:=build/release/qsync} in
*/*) : "${QSYNC_BENCH:=$(dirname "$QSYNC")/qsync-bench}" ;;
*) : "${QSYNC_BENCH:=qsync-bench}" ;;
esac
bench_commit=$(bench_commit | tr -d '\n')
bench_command=$(bench_command)
export OMP_NUM_THREADS=1 QSYNC_CACHE="${QSYNC_CACHE:-off}"
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE 2> /dev/null || true

# Of benchmarks that run on one: ", NVIDIA H200, 143771 MiB, driver 580.159.03".
bench_gpu() {
    case $bench_name in
    cuda-*) nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader 2> /dev/null | head -n 1 |
        sed 's/^\(.*\), \([^,]*\)$/, \1, driver \2/' ;;
    esac
}

bench_machine() {
    model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo 2> /dev/null | head -n 1)
    echo "${model:-$(uname -m)}, $(getconf _NPROCESSORS_ONLN) cores, $(awk '/^MemTotal/ {printf "%.0f GiB", $2 / 1048576}' /proc/meminfo 2> /dev/null)$(bench_gpu)"
}

# bench_write FIGURES_FILE: writes bench/results/NAME.json atomically.
bench_write() {
    mkdir -p bench/results
    jq -n --arg machine "$(bench_machine)" --arg commit "$bench_commit" --arg command "$bench_command" --slurpfile figures "$1" \
        '{machine: $machine, commit: $commit, command: $command, figures: $figures[0]}' > "bench/results/$bench_name.json.new"
    mv "bench/results/$bench_name.json.new" "bench/results/$bench_name.json"
    echo "bench: written to bench/results/$bench_name.json" >&2
}
