#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What is run on a machine with a GPU, part by part: usage: tools/gpu-check.sh PART [FOLDER] [--again]
#
#   build      on the machine that compiles: programs, the libraries they need and data, packed into run/gpu: of the parts in GPU_PARTS
#              (all) what they need, of the tests those of GPU_TESTS; GPU_DATA: folder of sets, GPU_IMAGES (9000 2500): of CIFAR-10
#   devices    what there is: the GPU, its driver, libraries, what qsync says of it
#   kernels    the device's tests and golden steps, all of them, whatever fails (GPU_TESTS: a pattern of names)
#   sanitize   compute-sanitizer (GPU_TOOLS: memcheck synccheck initcheck racecheck) on our own kernels, for GPU_SECONDS (150)
#   bench      kernels beside a copy, products, whole steps (bench/cuda-kernels.sh, bench/cuda-step.sh; GPU_BENCHES: kernels steps)
#   peer       PyTorch's steps beside them
#   predict    random mixes of formats: predicted and measured steps, from recordings and kernel by kernel; uniform bf16 and a mix trained
#              (GPU_LATER) in both ways
#   demo       two unlike classes of one GPU: profiles, plans, training (bench/cuda-demo.sh)
#   together   ranks of one job: a CPU beside the GPU, and both of the demo's classes at once, by MPI (bench/cuda-together.sh)
#   accuracy   resnet20 on CIFAR-10 in several formats, for GPU_SECONDS
#   all        the parts behind build, in this order
#
# FOLDER (run/gpu-results) receives of each part PART.log, its JSON, and PART.done once it has come to its end: a part that has is not run
# again, unless --again is said. A part ends by itself within nine minutes, or is ended (GPU_LIMIT: seconds for a part, at most). Nothing
# is fetched, built or installed but by `build`, and git is not needed: a copy of the tree and of run/gpu (GPU_PACKAGE) is enough.
#
# The GPU's libraries are those of QSYNC_CUDA_LIBRARIES (folders), else the system's, else those that python3's packages bring.
set -eu
cd "$(dirname "$0")/.."
export GPU_PACKAGE="${GPU_PACKAGE:-run/gpu}"
package=$GPU_PACKAGE
programs=$package/programs

# ---- build: on the machine that compiles --------------------------------------------------------------------------------------------

# Copies the libraries that programs need beside the C library's own.
libraries_pack() { # LIB PROGRAM...
    lib=$1
    shift
    ldd "$@" | sed -n 's/^.* => \(\/[^ ]*\) .*/\1/p' | sort -u |
        grep -vE '/(libc|libm|libpthread|libdl|librt|ld-linux[^/]*)\.so[.0-9]*$' | while read -r file; do
        cp -L "$file" "$lib/"
    done
    # Tables of characters, 30 MB, behind a library that archives in XML would want: only their name is asked for.
    for file in "$lib"/libicudata.so.*; do
        [ -f "$file" ] || continue
        version=${file##*.}
        echo "const char icudt${version}_dat[16] = {0};" | ${CC:-cc} -shared -fPIC -Wl,-soname,"${file##*/}" -x c - -o "$file"
    done
}

# Open MPI as it is installed here, moved: what it opens when it runs is found by the environment (environment_set). What talks to networks
# stays behind.
mpi_pack() { # TO
    plugins=$(ompi_info --path pkglibdir --parsable | cut -d: -f3)
    mkdir -p "$1/plugins" "$1/pmix"
    cp -L "$(command -v mpirun)" "$to/bin/"
    cp "$plugins"/mca_*.so "$1/plugins/"
    for kind in ucx ofi openib portals psm usnic monitoring slurm tm gridengine; do
        rm -f "$1"/plugins/*"$kind"*.so
    done
    libraries_pack "$to/lib" "$1"/plugins/*.so "$to/bin/mpirun"
    find "$(dirname "$plugins")/../.." -path '*pmix*' -name 'pmix_mca_*.so' -exec cp -L {} "$1/pmix/" \;
    cp -r "$(ompi_info --path pkgdatadir --parsable | cut -d: -f3)" "$1/share"
}

# Images of the first training file of CIFAR-10 and of the test file, and SST-2 with its vocabulary. What is packed is not packed again.
data_pack() {
    from=${GPU_DATA:-${QSYNC_DATA:-../shared/data}} to=$package/data
    images=${GPU_IMAGES:-9000 2500}
    [ "$(cat "$package/images" 2> /dev/null)" != "$images" ] || [ ! -f "$package/data.tar.xz" ] || return 0
    rm -f "$package/data.tar.xz"
    [ -d "$from/cifar10" ] || { echo "gpu-check: no cifar10 in $from: what needs it will train on generated images" >&2; return 0; }
    mkdir -p "$to/cifar10" "$to/text" "$to/vocab"
    gzip -dc "$from/cifar10/data_batch_1.bin.gz" | head -c $((${images% *} * 3073)) > "$to/cifar10/data_batch_1.bin"
    gzip -dc "$from/cifar10/test_batch.bin.gz" | head -c $((${images#* } * 3073)) > "$to/cifar10/test_batch.bin"
    [ ! -d "$from/text/sst2" ] || cp -rL "$from/text/sst2" "$to/text/"
    [ ! -d "$from/vocab/bert-uncased" ] || cp -rL "$from/vocab/bert-uncased" "$to/vocab/"
    # Neighbouring bytes of an image differ little.
    tar -C "$package" -cf - data | xz -T1 --delta=dist=1 --lzma2=preset=6,lc=0,pb=0 > "$package/data.tar.xz"
    echo "$images" > "$package/images"
    rm -rf "$to"
}

operators() {
    sed -n 's/^QS_OP(\([a-z0-9_]*\)).*/\1/p' src/op/ops.def
}

# Whether one of the parts is among those that are packed.
packs() { # PART...
    for one; do
        case " $GPU_PARTS " in *" $one "*) return 0 ;; esac
    done
    return 1
}

# What runs of a test is told apart by: the device's own goes through the operators one by one, and a kernel that fails takes its process with
# it.
names_of() { # TEST
    [ "$1" = device.cuda ] && operators | sed 's/^/device.cuda./' || echo "$1"
}

# The tests of the device, golden steps, and what is known to ask nothing of a device that only the host's memory gives.
tests_known() {
    ctest --test-dir build/gpu -N | sed -n 's/^ *Test *#[0-9]*: //p' | grep -E '^(cuda|part)\.[a-z]+\.|^far\.(train|profiler|generate)\.|^train\.golden$' |
        sed 's/^\(cuda\|far\)\.//' | sort -u | while read -r test; do
        if packs kernels && names_of "$test" | grep -qE "${GPU_TESTS:-.}"; then
            echo "$test"
        elif packs sanitize && [ "$test" = device.cuda ]; then
            echo "$test"
        fi
    done
}

part_build() {
    : "${GPU_PARTS:=$parts}"
    with_mpi=OFF
    mpirun --version 2> /dev/null | grep -q 'Open MPI' && with_mpi=ON
    cmake --preset gpu -DQS_WITH_MPI=$with_mpi > /dev/null
    tests_known > build/gpu/gpu_tests
    targets=$(sed 's/^part\.//; s/\./_/; s/^/test_/' build/gpu/gpu_tests | sort -u)
    wanted=qsync
    ! packs bench || wanted="$wanted qsync-bench"
    ! packs kernels || wanted="$wanted qsync-far"
    # shellcheck disable=SC2086
    cmake --build --preset gpu -j "${GPU_JOBS:-$(nproc)}" --target $wanted $targets
    to=$package/programs
    rm -rf "$to" "$package/programs.tar.xz"
    mkdir -p "$to/bin" "$to/lib"
    cp build/gpu/gpu_tests "$to/tests"
    for program in $wanted; do
        cp "build/gpu/$program" "$to/bin/"
    done
    cp "$(command -v jq)" "$to/bin/jq-alone"
    for target in $targets; do
        cp "build/gpu/tests/$target" "$to/bin/"
    done
    strip "$to"/bin/*
    libraries_pack "$to/lib" "$to"/bin/*
    [ $with_mpi = OFF ] || ! packs kernels together || mpi_pack "$to/mpi"
    # shellcheck disable=SC2016 # for the shell that runs it
    printf '#!/bin/sh\nfolder=$(dirname "$0")\nLD_LIBRARY_PATH=$folder/../lib exec "$folder/jq-alone" "$@"\n' > "$to/bin/jq"
    chmod +x "$to/bin/jq"
    { git rev-parse --short HEAD && git diff --quiet HEAD || echo -dirty; } | tr -d '\n' > "$to/commit"
    # Programs are much alike: a window that holds them all finds what they share.
    tar -C "$package" -cf - programs | xz -T1 --x86 --lzma2=preset=4,dict=256MiB > "$package/programs.tar.xz"
    rm -rf "$to"
    if packs predict demo together accuracy; then data_pack; else rm -f "$package/data.tar.xz"; fi
    bytes=$(cat "$package"/*.tar.xz | wc -c)
    echo "gpu-check: $package: $((bytes / 1048576 + 1)) MiB, $(wc -l < build/gpu/gpu_tests) test programs"
    [ "$bytes" -lt $((60 << 20)) ] || { echo "gpu-check: more than 60 MiB" >&2; exit 1; }
}

# ---- Where things are, on the machine with the GPU ------------------------------------------------------------------------------------

unpack() {
    for what in programs data; do
        packed=$package/$what.tar.xz
        [ ! -d "$package/$what" ] && [ -f "$packed" ] || continue
        if command -v xz > /dev/null; then
            xz -dc "$packed" | tar -C "$package" -xf -
        else
            python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1], "r:xz").extractall(sys.argv[2])' "$packed" "$package"
        fi
    done
    [ -d "$package/programs" ] || { echo "gpu-check: no $package/programs.tar.xz: tools/gpu-check.sh build makes it" >&2; exit 1; }
}

# Folders with the libraries that neither the environment names nor the system has.
libraries_find() {
    files="libcublasLt.so.13 libcudnn.so.9 libnccl.so.2"
    missing=no
    for file in $files; do
        ldconfig -p 2> /dev/null | grep -q "[[:space:]]$file " || missing=yes
    done
    [ $missing = yes ] || return 0
    python3 - $files << 'PYTHON'
import glob
import os
import sys

folders = []
for base in ["/usr/local/cuda/lib64"] + [one for path in sys.path for one in sorted(glob.glob(os.path.join(path, "nvidia", "*", "lib")))]:
    if base not in folders and any(os.path.exists(os.path.join(base, file)) for file in sys.argv[1:]):
        folders.append(base)
print(":".join(folders))
PYTHON
}

environment_set() {
    here=$(pwd)
    PATH=$here/$programs/bin:$PATH
    python_libraries=${LD_LIBRARY_PATH:-} # PyTorch brings its own
    : "${QSYNC_CUDA_LIBRARIES:=$(libraries_find || true)}"
    [ -z "$QSYNC_CUDA_LIBRARIES" ] || LD_LIBRARY_PATH=$QSYNC_CUDA_LIBRARIES${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    QSYNC=$here/$programs/bin/qsync
    QSYNC_BENCH=$here/$programs/bin/qsync-bench
    QSYNC_FAR=$here/$programs/bin/qsync-far
    QSYNC_COMMIT=$(cat "$programs/commit")
    if [ -d "$programs/mpi" ]; then # one machine, which may have no network
        mpi=$here/$programs/mpi
        export OPAL_PREFIX="$mpi" OMPI_MCA_mca_base_component_path="$mpi/plugins" PMIX_MCA_mca_base_component_path="$mpi/pmix" \
            PMIX_INSTALL_PREFIX="$mpi" OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader OMPI_MCA_btl_vader_single_copy_mechanism=none \
            OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
        # Only where its programs run: PyTorch brings libraries of these names.
        LD_LIBRARY_PATH=$here/$programs/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    fi
    [ ! -d "$package/data/cifar10" ] || QSYNC_DATA=$here/$package/data
    : "${LD_LIBRARY_PATH:=}" "${QSYNC_DATA:=}"
    export PATH LD_LIBRARY_PATH QSYNC QSYNC_BENCH QSYNC_FAR QSYNC_CUDA_LIBRARIES QSYNC_COMMIT QSYNC_DATA
}

# ---- Parts ----------------------------------------------------------------------------------------------------------------------------

say() {
    echo "== $*"
}

part_devices() {
    nvidia-smi --query-gpu=name,uuid,driver_version,memory.total,memory.used,compute_cap,clocks.sm,clocks.mem,power.limit --format=csv || true
    nvidia-smi -q -d CLOCK,POWER,TEMPERATURE,COMPUTE,ECC > "$out/nvidia-smi.txt" 2>&1 || true
    uname -srm
    ldd --version | head -n 1
    nproc
    echo "libraries: ${QSYNC_CUDA_LIBRARIES:-those of the system}"
    ldd "$QSYNC" | grep 'not found' || true
    "$QSYNC" devices || true
    "$QSYNC" devices --peaks --json > "$out/devices.json" || true
    say "commit $QSYNC_COMMIT"
}

# A test program: what it prints goes into a file, its exit code into $code. It ends with this script, and its children with it: timeout passes
# on what ends it.
test_run() { # LOG COMMAND...
    test_log=$1 code=0
    shift
    export QSYNC_TEST_DEVICE=cuda QS_SOURCE="$here" QS_TEST_SHARED="$here/$package" OMP_NUM_THREADS=1 QSYNC_CACHE=off
    "$@" > "$test_log" 2>&1 &
    child=$!
    trap 'kill $child && exit 1' TERM
    wait $child || code=$?
}

# One test, in a process of its own: what it printed, and a line of how it ended.
part_test() { # NAME PROGRAM [OPERATOR]
    begin=$(date +%s)
    case $1 in part.*) export QSYNC_TEST_CUDA_PART=64 ;; esac
    ranks=
    grep -qs TEST_MAIN_RANKS "tests/$(echo "${1#part.}" | tr . /).c" && ranks='mpirun --oversubscribe --bind-to none -n 2'
    # shellcheck disable=SC2086
    test_run "$out/tests/$1.log" timeout -k 5 "${GPU_TEST_LIMIT:-100}" $ranks "$programs/bin/$2" ${3:-}
    echo "$1 $code $(($(date +%s) - begin))" > "$out/tests/$1.end"
}

# Names and programs of the tests, and the operator of which.
tests_list() {
    while read -r test; do
        for name in $(names_of "$test"); do
            operator=${name#"$test"}
            echo "$name test_$(echo "${test#part.}" | sed 's/\./_/')${operator:+ ${operator#.}}"
        done
    done < "$programs/tests" | GPU_TESTS=${GPU_TESTS:-.} awk '$1 ~ ENVIRON["GPU_TESTS"]'
}

# Runs what tests_list says; what failed is told in a few lines each, all of it is in FOLDER.
tests_run() { # NAME OF THE JSON
    tests=$out/tests
    rm -rf "$tests"
    mkdir -p "$tests"
    tests_list > "$tests/list"
    [ -s "$tests/list" ] || { say "no test has a name like ${GPU_TESTS:-.}" && return 1; }
    xargs -L 1 -P "${GPU_JOBS:-8}" sh tools/gpu-check.sh test "$out" < "$tests/list" || true
    find "$tests" -name '*.end' -exec cat {} + | sort > "$tests/ends"
    jq -Rn '[inputs | split(" ") | {name: .[0], code: (.[1] | tonumber), seconds: (.[2] | tonumber)}]' "$tests/ends" > "$out/$1.json"
    grep -hE '^[a-z0-9_]+ +[0-9]+ passed \(by|^    refused' "$tests"/*.log || true
    while read -r name code seconds; do
        [ "$code" != 0 ] || continue
        say "$name: exit code $code after $seconds s"
        grep -vE '^\[ +(RUN|OK|PASSED|SKIPPED) |passed \(by|^    refused' "$tests/$name.log" | cut -c 1-240 | head -n "${GPU_LINES:-8}" || true
    done < "$tests/ends"
    while read -r name rest; do
        [ -f "$tests/$name.end" ] || say "$name: has not ended"
    done < "$tests/list"
    say "$(jq -r '"\(map(select(.code == 0)) | length) tests passed, \(map(select(.code != 0)) | length) failed; the longest: \(sort_by(-.seconds)[:3]
        | map("\(.name) \(.seconds) s") | join(", "))"' "$out/$1.json")"
    [ "$(wc -l < "$tests/list")" -eq "$(jq 'map(select(.code == 0)) | length' "$out/$1.json")" ]
}

part_kernels() {
    tests_run kernels
}

# What compute-sanitizer is told, of what it knows: cases go on behind an error, and calls that the driver refuses are no errors of kernels.
sanitizer_options() { # TOOL
    help=$(compute-sanitizer --help 2>&1 || true)
    for option in "--destroy-on-device-error kernel" "--report-api-errors no" "--print-limit 20"; do
        case $help in *"${option% *} "*) printf ' %s' "$option" ;; esac
    done
    [ "$1" != memcheck ] || printf ' --leak-check no'
}

# One process under a tool: its share of the cases, small ones first, as far as the seconds reach.
part_looked() { # TOOL SHARE SECONDS
    log=$out/sanitize/$1-${2%/*}.log
    export QSYNC_TEST_APART=1 QSYNC_TEST_CUDA_OWN="$3" QSYNC_TEST_CUDA_SHARE="$2"
    # The tool has libraries of its own; the program finds what it needs beside it.
    # shellcheck disable=SC2046
    test_run "$log" env LD_LIBRARY_PATH="$python_libraries" timeout -k 5 $(($3 + 15)) compute-sanitizer --tool "$1" $(sanitizer_options "$1") \
        --error-exitcode 99 "$programs/bin/test_device_cuda"
    echo "exit code $code" >> "$log"
}

# What the processes under a tool found, as a line of figures: operators all of whose cases were run, cases, what the tool calls errors.
looked_figures() { # TOOL SECONDS
    cat "$out/sanitize/$1"-*.log | jq -Rnc --arg tool "$1" --argjson seconds "$2" '
        [inputs] as $lines
        | def numbers($pattern): [$lines[] | capture($pattern) | with_entries({key, value: (.value | if test("^[0-9]+$") then tonumber else . end)})];
          numbers("^(?<op>[a-z0-9_]+) +(?<passed>[0-9]+) passed \\(by (?<by>[0-9]+) candidates\\), (?<failed>[0-9]+) failed, (?<refused>[0-9]+) refused, (?<left>[0-9]+) not run") as $rows
        | ($rows | group_by(.op) | map({op: .[0].op, passed: (map(.passed) | add), failed: (map(.failed) | add), left: (map(.left) | add)})) as $ops
        | {tool: $tool, seconds: $seconds, processes: (numbers("^exit code (?<n>[0-9]+)$") | length),
           without_end: ((numbers("^exit code (?<n>[0-9]+)$") | length) - (numbers("^(?<n>[0-9]+) entries, ") | length)),
           operators: ($ops | map(select(.left == 0)) | length), out_of_time: [$ops[] | select(.left > 0).op],
           cases: ($ops | map(.passed + .failed) | add), not_run: ($ops | map(.left) | add), failed: ($ops | map(.failed) | add),
           errors: (numbers("^=+ (RACECHECK|ERROR) SUMMARY: (?<n>[0-9]+)") | map(.n) | add),
           reports: [$lines[] | select(test("^=+ +(at [A-Za-z0-9_]+\\+|Invalid|Error|Warning|Uninitialized|Barrier|Race|Program|Unused|Internal|Target)")) | sub("^=+ +"; "")]
               | (group_by(.) | map("\(length) x \(.[0])")[:12])}'
}

# What is not ours is not looked into. Tools one after the other, each in as many processes as GPU_JOBS says; racecheck, which takes ten times
# as long as the others, has what is left.
part_sanitize() {
    command -v compute-sanitizer > /dev/null || { say "no compute-sanitizer here" && return 1; }
    failed=0 jobs=${GPU_JOBS:-12} end=$(($(date +%s) + ${GPU_SECONDS:-150}))
    rm -rf "$out/sanitize"
    mkdir -p "$out/sanitize"
    for tool in ${GPU_TOOLS:-memcheck synccheck initcheck racecheck}; do
        begin=$(date +%s)
        case $tool in racecheck) share=100 ;; *) share=40 ;; esac
        seconds=$(((end - begin) * share / 100 - 12)) # starting, and what is begun when time is up
        [ $seconds -ge 8 ] || { say "$tool: no time left" && failed=1 && continue; }
        seq 0 $((jobs - 1)) | xargs -I {} -P "$jobs" sh tools/gpu-check.sh looked "$out" "$tool" "{}/$jobs" "$seconds" || true
        looked_figures "$tool" $(($(date +%s) - begin)) > "$out/sanitize/$tool.json"
        jq -r '"== \(.tool): \(.operators) operators, \(.cases) cases, \(.errors // "unknown") errors, \(.failed) cases failed; \(.not_run) cases of \(.out_of_time | length) operators not in time, \(.without_end) of \(.processes) processes without an end; \(.seconds) s",
            (.reports[] | "    \(.)")' "$out/sanitize/$tool.json"
        jq -e '.errors == 0 and .failed == 0 and .without_end == 0' "$out/sanitize/$tool.json" > /dev/null || failed=1
        for log in "$out/sanitize/$tool"-*.log; do
            grep -q '^exit code 0$' "$log" || { say "$(basename "$log"): $(tail -n 1 "$log")" && grep -E '^=====|ERROR|FAILED' "$log" | head -n "${GPU_LINES:-8}" | cut -c 1-240; }
        done
    done
    find "$out/sanitize" -name '*.json' -exec cat {} + | jq -s . > "$out/sanitize.json"
    return $failed
}

# Figures that were written since the part began, also where its script failed afterwards: not those that came with the tree.
bench_results() { # NAME
    [ ! "bench/results/$1.json" -nt "$out/begun" ] || cp "bench/results/$1.json" "$out/"
}

part_bench() {
    failed=0
    for one in ${GPU_BENCHES:-kernels steps}; do
        case $one in
        kernels) sh bench/cuda-kernels.sh || failed=1 ;;
        steps) GPU_OUT=$out/step sh bench/cuda-step.sh ours || failed=1 ;;
        *) say "$one: must be kernels or steps" && failed=1 ;;
        esac
    done
    bench_results cuda-kernels
    bench_results cuda-step
    return $failed
}

part_peer() {
    failed=0
    GPU_OUT=$out/step LD_LIBRARY_PATH=$python_libraries sh bench/cuda-step.sh peer || failed=1
    bench_results cuda-step
    return $failed
}

part_predict() {
    failed=0
    PREDICTION_BACKEND=cuda PREDICTION_NAME=cuda-prediction PREDICTION_OUT=$out/prediction PREDICTION_CONTEXTS=no PREDICTION_ROUNDS=1 \
        PREDICTION_MODELS="${GPU_MODELS:-resnet20:64}" PREDICTION_GROUPS="${GPU_GROUPS:-native:20 one_by_one:2}" PREDICTION_LATER="${GPU_LATER:-half mix0}" \
        PREDICTION_REPETITIONS="${GPU_REPETITIONS:-10}" \
        sh bench/prediction.sh || failed=1
    bench_results cuda-prediction
    return $failed
}

part_demo() {
    failed=0
    DEMO_OUT=$out/demo sh bench/cuda-demo.sh || failed=1
    bench_results cuda-demo
    return $failed
}

part_together() {
    command -v mpirun > /dev/null || { say "no mpirun here" && return 1; }
    failed=0
    TOGETHER_OUT=$out/together sh bench/cuda-together.sh || failed=1
    bench_results cuda-together
    return $failed
}

part_accuracy() {
    ACCURACY_OUT=$out/accuracy ACCURACY_SECONDS=${GPU_SECONDS:-150} sh bench/cuda-accuracy.sh
    bench_results cuda-accuracy
}

# ---- A part with its limit ----------------------------------------------------------------------------------------------------------------

limit_of() {
    case $1 in
    devices) limit=60 ;;
    kernels | sanitize | bench | predict | accuracy) limit=300 ;;
    peer) limit=170 ;;
    demo | together) limit=240 ;;
    esac
    [ "$limit" -le "${GPU_LIMIT:-530}" ] || limit=$GPU_LIMIT
}

# What the part prints is in its log as well; it has come to its end when its time was not up.
part_run() { # NAME
    if [ -f "$out/$1.done" ] && [ $again = no ]; then
        echo "gpu-check: $1 is done in $out (--again runs it again)"
        return 0
    fi
    limit_of "$1"
    rm -f "$out/$1.done" "$out/$1.code"
    begin=$(date +%s)
    echo "==== $1, for $limit s at most"
    {
        code=0
        timeout -k 10 "$limit" sh tools/gpu-check.sh inside "$out" "$1" 2>&1 || code=$?
        echo $code > "$out/$1.code"
    } | tee "$out/$1.log"
    code=$(cat "$out/$1.code")
    echo "==== $1: exit code $code after $(($(date +%s) - begin)) s"
    case $code in
    124 | 137) return 1 ;; # may be run again
    esac
    mv "$out/$1.code" "$out/$1.done"
    [ "$code" -eq 0 ]
}

parts="devices kernels sanitize bench peer predict demo together accuracy"
part=${1:-}
[ $# -eq 0 ] || shift
out=run/gpu-results
again=no
case $part in
test | looked | inside) # as this script calls itself: the folder, then what is to be run
    out=$1
    shift
    environment_set
    if [ "$part" = inside ]; then
        part=$1
        : > "$out/begun"
        trap : TERM # the part's time is up: what is known by then is told, and kept
    fi
    "part_$part" "$@"
    exit
    ;;
esac
for argument; do
    case $argument in
    --again) again=yes ;;
    -*) echo "gpu-check: unknown option $argument" >&2 && exit 2 ;;
    *) out=$argument ;;
    esac
done
case " build all $parts " in
*" $part "*) ;;
*) echo "usage: tools/gpu-check.sh build | all | $(echo "$parts" | sed 's/ / | /g') [FOLDER] [--again]" >&2 && exit 2 ;;
esac
if [ "$part" = build ]; then
    part_build
    exit
fi
unpack
mkdir -p "$out"
out=$(cd "$out" && pwd)
[ "$part" != all ] || part=$parts
failed=0
for one in $part; do
    part_run "$one" || failed=1
done
exit $failed
