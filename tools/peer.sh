#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Today's PyTorch, the peer of bench/transformer.sh, into a virtual environment of its own: some 5 GB, which nothing else needs. Debian's
# python3-torch, the peer of the other benchmarks, is years older.
# usage: tools/peer.sh [FOLDER]    (run/peer)
set -eu
cd "$(dirname "$0")/.."
folder=${1:-run/peer}
[ -x "$folder/bin/python" ] || python3 -m venv "$folder"
"$folder/bin/pip" install --quiet --upgrade torch numpy
"$folder/bin/python" -c 'import torch; print("PyTorch", torch.__version__)'
