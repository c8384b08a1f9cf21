#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The form of the tree: clang-format's, files of at most 600 lines, functions of at most 80 outside kernel files, a licence line first.
# Kernel files (long unrolled loops): those with "kernel" or "vector" in their path.
set -u
cd "$(dirname "$0")/.." || exit 1
failures=0
sources=$(git ls-files --cached --others --exclude-standard '*.c' '*.h' 'src/*.inc')

if command -v clang-format > /dev/null; then
    # shellcheck disable=SC2086
    clang-format --dry-run -Werror $sources || failures=1
else
    echo "lint: clang-format is not installed: formatting was not checked" >&2
fi

# shellcheck disable=SC2086
LC_ALL=C awk '
    function complain(text) { print text; failures = 1 }
    function close_file() { if (lines > 600) complain(file ": " lines " lines, at most 600") }
    FNR == 1 {
        if (file != "") close_file()
        file = FILENAME
        kernel = file ~ /kernel|vector/
        if ($0 !~ /SPDX-License-Identifier: Apache-2.0/) complain(file ":1: the first line is the licence line")
    }
    { lines = FNR }
    { text = $0; gsub(/[\200-\277]/, "", text) } # characters, not bytes
    length(text) > 140 { complain(file ":" FNR ": " length(text) " columns, at most 140") }
    /\t/ { complain(file ":" FNR ": tab") }
    /[ \t]$/ { complain(file ":" FNR ": blanks at the end") }
    /TODO|FIXME|XXX/ && !/XXXXXX/ { complain(file ":" FNR ": unfinished: " $0) }
    /^[a-z].*\) \{$/ || (/^ .*\) \{$/ && open_head) { start = FNR; open_head = 0 }
    /^[a-z].*\(.*,$/ { open_head = 1 }
    /^\}/ {
        if (start && FNR - start + 1 > 80 && !kernel) complain(file ":" start ": function of " FNR - start + 1 " lines, at most 80")
        start = 0; open_head = 0
    }
    END { close_file(); exit failures }' $sources || failures=1

if [ $failures -eq 0 ]; then
    echo "lint: clean"
fi
exit $failures
