# SPDX-License-Identifier: Apache-2.0
# How benchmarks and experiments start the program. QSYNC: the program. LAUNCH_BINDING (core): none where jobs run side by side.
# shellcheck shell=sh disable=SC2154

# must LOG COMMAND...: its output is shown only when it fails.
must() {
    log=$1
    shift
    "$@" > "$log" 2>&1 || { cat "$log" >&2; exit 1; }
}

# launch RANKS ARGUMENTS...: the program, a core to each rank where there are enough.
launch() {
    count=$1
    shift
    if [ "$count" -gt "$(getconf _NPROCESSORS_ONLN)" ]; then
        OMPI_MCA_mpi_yield_when_idle=1 mpirun --oversubscribe --bind-to none -n "$count" "$QSYNC" "$@"
    elif [ "$count" -gt 1 ]; then
        mpirun --bind-to "${LAUNCH_BINDING:-core}" -n "$count" "$QSYNC" "$@"
    else
        "$QSYNC" "$@"
    fi
}
