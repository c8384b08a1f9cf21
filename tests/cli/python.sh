#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# ranks: 2
# timeout: 1200
# The Python package: its own tests (tests/python) with this build's program, those of PyTorch where it is there, and the lines of
# docs/pytorch.md as they stand; and that pip installs it without a network. QSYNC_PYTHON names the interpreter; without NumPy nothing is tested.
. "$(dirname "$0")/check.inc"
root=$(cd "$(dirname "$0")/../.." && pwd)
export QSYNC_CACHE=off PYTHONDONTWRITEBYTECODE=1

for python in "${QSYNC_PYTHON:-python3}" /usr/bin/python3; do
    "$python" -c 'import numpy' 2> /dev/null && break
    python=
done
[ -n "$python" ] || { echo "no Python with NumPy: skipped"; exit 77; }
torch=yes
"$python" -c 'import torch' 2> /dev/null || torch=

export PYTHONPATH="$root/python:$root/tests/python"
for test in test_program ${torch:+test_torch test_page}; do
    (cd "$work" && "$python" -m unittest -q "$test") > "$work/out" 2>&1 || fail "$test: $(cat "$work/out")"
done
[ -n "$torch" ] || echo "no PyTorch: its tests were left out"

# Installed away from the tree, it finds what `make release` built there; no package but NumPy, no network.
if "$python" -m pip --version > /dev/null 2>&1; then
    cp -r "$root/python" "$work/python"
    "$python" -m pip install --quiet --no-index --no-deps --disable-pip-version-check --target "$work/site" "$work/python" > "$work/out" 2>&1 ||
        fail "pip install: $(cat "$work/out")"
    mkdir -p "$work/build/release"
    ln -s "$QSYNC" "$work/build/release/qsync"
    found=$(cd / && env -u QSYNC PATH=/usr/bin:/bin PYTHONPATH="$work/site" "$python" -c 'import qsync; print(qsync.program_path())' 2> "$work/err") ||
        fail "the installed package: $(cat "$work/err")"
    [ "$found" = "$work/build/release/qsync" ] || fail "the installed package found $found"
    [ -f "$work/site/qsync/py.typed" ] || fail "py.typed was not installed"
fi
finish
