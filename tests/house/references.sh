#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: short
# Everything that a text of the tree refers to is there.
#   1. documents: a name that ends in .md, in sources by its path from the root (docs/method.md); links of pages, with their anchors
#   2. sections and equations: "§4.3" and "eq. (4.6)", "eqs. (4.6) and (4.7)" stand in docs/method.md. What a paper numbers follows its
#      short name in brackets: "[QSync] eq. (6)", "[Shift] §4.1"
#   3. paths from the root, in pages and in comments of sources: `src/op/ops.def`; with <name> they are patterns
#   4. tests in back quotes, `op.variance`, `train.*`
# Environment: QS_SOURCE, the root of the tree.
set -u
cd "$QS_SOURCE" || exit 1
list_files() {
    if [ -e .git ] && command -v git > /dev/null; then
        git ls-files --cached --others --exclude-standard
    else
        find . -path ./build -prune -o -type f -print | sed 's,^\./,,'
    fi
}
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
list_files | while read -r file; do [ -f "$file" ] && echo "$file"; done > "$scratch/all"
grep -E '\.(md|c|h|inc|def|sh|awk|txt|cmake|jq)$|^Makefile$' "$scratch/all" |
    grep -vE '^bench/results/' > "$scratch/texts"

# shellcheck disable=SC2046
LC_ALL=C awk -v all="$scratch/all" '
    function complain(text) { print FILENAME ":" FNR ": " text; failures++ }
    # The anchor of a heading, as GitHub forms it.
    function anchor_of(heading,    text) {
        text = heading
        sub(/^#+ */, "", text)
        gsub(/Ω/, "ω", text)
        text = tolower(text)
        gsub(/[][(){}.,:;!?`"\047\/\\*+=<>&|~%@#$^]/, "", text)
        gsub(/ /, "-", text)
        return text
    }
    # The headings and equations of a page, read when it is first asked for.
    function page_load(path,    line, fenced, at) {
        if (path in loaded) return
        loaded[path] = 1
        while ((getline line < path) > 0) {
            if (line ~ /^```/) fenced = !fenced
            if (!fenced && line ~ /^#+ /) {
                anchors[path, anchor_of(line)] = 1
                if (match(line, /[0-9]+(\.[0-9]+)?/) && RSTART < 7) sections[path, substr(line, RSTART, RLENGTH)] = 1
            }
            if (match(line, /^\*\*\([0-9]+\.[0-9]+\)\*\*/)) equations[path, substr(line, RSTART + 3, RLENGTH - 6)] = 1
        }
        close(path)
    }
    # A path without "x/.." and "./" in it.
    function plain_path(path) {
        gsub(/\/\.\//, "/", path)
        sub(/^\.\//, "", path)
        while (sub(/[^\/]+\/\.\.\//, "", path)) { }
        sub(/\/$/, "", path)
        return path
    }
    function check_links(text,    link, path, anchor) {
        while (match(text, /\]\([^)]*\)/)) {
            link = substr(text, RSTART + 2, RLENGTH - 3)
            text = substr(text, RSTART + RLENGTH)
            if (link ~ /^[a-z]+:/) continue
            anchor = ""
            if (match(link, /#.*/)) { anchor = substr(link, RSTART + 1); link = substr(link, 1, RSTART - 1) }
            path = link == "" ? FILENAME : plain_path(folder link)
            if (!(path in exists)) { complain("link to " link ", which is not there"); continue }
            if (anchor == "" || path !~ /\.md$/) continue
            page_load(path)
            if (!((path, anchor) in anchors)) complain("link to " path "#" anchor ": no such heading")
        }
    }
    function check_documents(text,    name) {
        while (match(text, /[A-Za-z0-9_.\/-]*[A-Za-z0-9_-]\.md/)) {
            name = substr(text, RSTART, RLENGTH)
            text = substr(text, RSTART + RLENGTH)
            if (!(plain_path(name) in exists) && !(plain_path(folder name) in exists) && !(page && ("docs/" name) in exists))
                complain(name ": no such document; documents are named by their path from the root")
        }
    }
    # Numbers "4.3" after "§" and "(4.6)" after "eq.", unless a source in brackets stands before them: "[QSync] §IV".
    function check_numbers(text,    passed, before, number, source) {
        while (match(text, /(§)+ ?([0-9][0-9.]*|[IVX]+)|[Ee]qs?\. \([0-9.]+\)(((,| and| to) )+(eqs?\. )?\([0-9.]+\))*/)) {
            before = passed substr(text, 1, RSTART - 1)
            passed = passed substr(text, 1, RSTART + RLENGTH - 1)
            number = substr(text, RSTART, RLENGTH)
            text = substr(text, RSTART + RLENGTH)
            source = match(before, /\[[A-Z][A-Za-z]*\][^][;|]*$/) && substr(before, RSTART) !~ /\. /
            if (index(number, "§") == 1) {
                gsub(/^(§)+ ?|\.$/, "", number)
                if (!source && !((method, number) in sections)) complain("§" number ": no such section of " method)
            } else if (!source) {
                while (match(number, /\([0-9.]+\)/)) {
                    if (!((method, substr(number, RSTART + 1, RLENGTH - 2)) in equations))
                        complain("eq. " substr(number, RSTART, RLENGTH) ": no such equation of " method)
                    number = substr(number, RSTART + RLENGTH)
                }
            }
        }
    }
    function check_path(path) {
        if (path ~ /[<>*{$]|\.\.\.|NAME|[A-Z]{4}/) return
        sub(/[.,:;]+$/, "", path)
        sub(/:[0-9]+$/, "", path)
        sub(/\/$/, "", path)
        if (!(path in exists)) complain(path ": no such file or folder")
    }
    function check_paths(text,    path) {
        while (match(text, /(^|[ `("])(src|tests|tools|docs|experiments|examples|bench)\/[A-Za-z0-9_.\/<>*{},$-]+/)) {
            path = substr(text, RSTART, RLENGTH)
            text = substr(text, RSTART + RLENGTH)
            sub(/^[ `("]/, "", path)
            check_path(path)
        }
    }
    function check_tests(text,    name, pattern, test, found) {
        while (match(text, /`[a-z]+\.[a-z0-9_]+\*?`/)) {
            name = substr(text, RSTART + 1, RLENGTH - 2)
            text = substr(text, RSTART + RLENGTH)
            if (!(("tests/" substr(name, 1, index(name, ".") - 1)) in exists) || name ~ /\.(c|h|json|md|def|txt|sh)$/) continue
            pattern = name
            if (!sub(/\*$/, "", pattern)) { if (!(name in tests)) complain("`" name "`: no such test"); continue }
            found = 0
            for (test in tests) if (index(test, pattern) == 1) { found = 1; break }
            if (!found) complain("`" name "`: no such tests")
        }
    }
    BEGIN {
        method = "docs/method.md"
        while ((getline line < all) > 0) {
            path = line
            exists[path] = 1
            while (sub(/\/[^\/]*$/, "", path)) exists[path] = 1
            if (match(line, /^tests\/[a-z]+\/[a-z0-9_]+\.(c|sh)$/)) {
                path = substr(line, 7)
                sub(/\.(c|sh)$/, "", path)
                sub(/\//, ".", path)
                tests[path] = 1
            }
        }
        page_load(method)
    }
    FNR == 1 {
        folder = FILENAME
        if (!sub(/[^\/]*$/, "", folder)) folder = ""
        page = FILENAME ~ /\.md$/
        source = FILENAME ~ /\.(c|h|inc|def)$/
        fenced = 0
    }
    page && /^```/ { fenced = !fenced }
    page && !fenced { check_links($0) }
    page && !fenced && FILENAME !~ /records/ { check_tests($0) } # there `device.isa` is a field
    source { if (match($0, /\/\/|\/\*|^ \* /)) { comment = substr($0, RSTART); check_documents(comment); check_paths(comment) } }
    page && !fenced {
        text = $0
        gsub(/\[[^][]*\]\([^)]*\)/, "", text) # links are checked above
        check_documents(text)
        if (/`/) check_paths(text)
    }
    { check_numbers($0) }
    END { if (!failures) print NR " lines: all references are there"; exit failures > 0 }' $(cat "$scratch/texts")
