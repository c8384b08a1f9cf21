#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: short
# The installed tree stands by itself: every door compiles alone as C and as C++ where a C++ compiler is there, and a program found
# through pkg-config links and runs with the shared and with the static library.
set -eu
[ -z "$QS_SANITIZE" ] || exit 77
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$QS_CMAKE" --install "$QS_BUILD" --prefix "$scratch/usr" > "$scratch/log"
PKG_CONFIG_PATH=$(dirname "$(find "$scratch/usr" -name qsync.pc)")
export PKG_CONFIG_PATH

cat > "$scratch/program.c" <<'C'
#include <qsync/base.h>
int main(void) {
    return qs_threads_set(2) == QS_OK && qs_hash("abc", 3, 0) == 0x44BC2CF5AD770999u && qs_status_exit_code(QS_USAGE) == 2 ? 0 : 1;
}
C
prefix="--define-variable=prefix=$scratch/usr"
for door in "$scratch"/usr/include/qsync/*.h; do
    echo "#include <qsync/$(basename "$door")>" > "$scratch/door.c"
    # shellcheck disable=SC2046
    "$QS_CC" -std=c17 -Wall -Wextra -Wpedantic -Werror $(pkg-config $prefix --cflags qsync) -fsyntax-only "$scratch/door.c"
done
libraries=$(dirname "$(find "$scratch/usr" -name libqsync.so)")
# shellcheck disable=SC2046
"$QS_CC" "$scratch/program.c" -o "$scratch/shared" $(pkg-config $prefix --cflags --libs qsync)
LD_LIBRARY_PATH=$libraries "$scratch/shared"
flags=$(pkg-config $prefix --static --libs qsync | sed "s|-lqsync|$libraries/libqsync.a|")
# shellcheck disable=SC2046,SC2086
"$QS_CC" "$scratch/program.c" -o "$scratch/static" $(pkg-config $prefix --cflags qsync) $flags
"$scratch/static"
hidden=$("$QS_NM" -D --defined-only "$libraries/libqsync.so" | awk '$3 !~ /^qs_[^_]/ && $2 != "A" && $3 !~ /^_(init|fini)$/ { print $3 }')
[ -z "$hidden" ] || { echo "the shared library exports names that are in no door: $hidden"; exit 1; }
echo "installed doors, libraries and pkg-config file work"
