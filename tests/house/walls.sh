#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: short
# The walls between the rooms, read from what the compiler did: the dependency files and the symbols of every room's archive.
#   1. a room includes its own files and the doors of its declared closure, nothing else of src/
#   2. a room's undefined symbols that another room defines come from its declared closure, through a door (no qs__ name)
#   3. every external symbol begins with qs_ and is defined by one room, and the library neither prints nor ends the process
#   4. MPI is called by comm alone, oneDNN by device alone, and parallel regions stand in base alone
#   5. no files of a room use each other's functions in a circle, directly or through others
#   6. names of operators are compared as text in room op alone: others ask the operator's descriptor
# Environment: QS_BUILD (with walls.txt: "room|archive|closure" lines), QS_SOURCE, QS_NM, QS_NINJA.
set -u
failed=0
walls=$QS_BUILD/walls.txt
# Rooms that rules 5 and 6 do not bind: none, and no room joins them.
circled=" "
compared=" "
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

# "object file" and "file" pairs as lines: "room<TAB>included file".
list_includes() {
    if [ -f "$QS_BUILD/build.ninja" ]; then
        "$QS_NINJA" -C "$QS_BUILD" -t deps
    else
        find "$QS_BUILD/src" "$QS_BUILD/CMakeFiles" -name '*.o.d' -exec cat {} + | sed -e 's/\\$//' | tr ' ' '\n' |
            awk '/:$/ { print; next } NF { print "    " $1 }'
    fi | awk '
        /^[^ ].*:/ { room = ""; if (match($0, /qs_[a-z]+\.dir\//)) room = substr($0, RSTART + 3, RLENGTH - 8); next }
        room != "" && NF { print room "\t" $1 }'
}

# Symbols of each archive: "room<TAB>type<TAB>name".
list_symbols() {
    while IFS='|' read -r room archive closure; do
        [ -f "$archive" ] || { echo "no archive $archive: build first" >&2; exit 1; }
        "$QS_NM" "$archive" 2>/dev/null | awk -v room="$room" 'NF >= 2 && $(NF - 1) ~ /^[A-Za-z]$/ { print room "\t" $(NF - 1) "\t" $NF }'
    done < "$walls"
}

# Functions that files of a room share: "room<TAB>file<TAB>type<TAB>name", the program's rooms too.
list_functions() {
    (cd "$QS_SOURCE/src" && find . -name '*.c' | sed 's,^\./,,') > "$scratch/sources" # a build folder keeps objects of files that are gone
    find "$QS_BUILD/src" "$QS_BUILD/CMakeFiles" -name '*.o' -exec "$QS_NM" -A {} + 2>/dev/null | awk '
        NR == FNR { exists[$1]; next }
        match($0, /\.dir\/[^:]*\.o:/) {
            file = substr($0, RSTART + 5, RLENGTH - 8)
            sub(/^src\//, "", file)
            room = file
            if (file in exists && sub(/\/.*/, "", room) && $(NF - 1) ~ /^[TU]$/) print room "\t" file "\t" $(NF - 1) "\t" $NF
        }' "$scratch/sources" -
}

check_circles() {
    awk -F'\t' -v circled="$circled" '
        $3 == "T" { owner[$1, $4] = $2 }
        $3 == "U" { users[$1, $4] = users[$1, $4] "\t" $2 }
        END {
            for (name in owner) {
                count = split(users[name], user, "\t")
                for (i = 2; i <= count; i++) if (user[i] != owner[name]) { reach[user[i], owner[name]] = 1; node[user[i]]; node[owner[name]] }
            }
            for (k in node) for (i in node) if ((i, k) in reach) for (j in node) if ((k, j) in reach) reach[i, j] = 1
            for (i in node) if ((i, i) in reach && !(i in said)) {
                text = ""
                for (j in node) if ((i, j) in reach && (j, i) in reach) { said[j]; text = text " " j }
                room = i; sub(/\/.*/, "", room)
                free = index(circled, " " room " ")
                print "these files of room " room " use each other in a circle" (free ? " (not refused yet)" : "") ":" text
                failures += !free
            }
            exit failures > 0
        }' "$1"
}

# Lines that compare an operator's name as text, outside room op: "src/room/file:line: text". What room onnx compares are names of ONNX.
check_operators() {
    names=$(sed -n 's/^QS_OP(\(.*\))$/\1/p' "$QS_SOURCE/src/op/ops.def" | tr '\n' '|')
    [ -n "$names" ] || { echo "no operators in src/op/ops.def: nothing was checked"; return 1; }
    (cd "$QS_SOURCE" && find src -name '*.c' ! -path 'src/op/*' ! -path 'src/onnx/*' -exec grep -nE "str(n|case)?cmp\\(.*\"(${names%|})\"" /dev/null {} +) |
        awk -F/ -v compared="$compared" '
            { free = index(compared, " " $2 " ") }
            { print (free ? "(not refused yet) " : "") $0 ": the name of an operator is compared outside op: ask its descriptor" }
            !free { failures++ }
            END { exit failures > 0 }'
}

list_includes > "$scratch/includes" || exit 1
list_symbols > "$scratch/symbols" || exit 1
list_functions > "$scratch/functions" || exit 1

for room in $(cut -d'|' -f1 "$walls"); do
    grep -q "^$room	" "$scratch/includes" || { echo "no dependency files of room $room found: nothing was checked"; exit 1; }
    grep -q "^$room	" "$scratch/functions" || { echo "no objects of room $room found: circles were not checked"; exit 1; }
    grep -q "^$room	" "$scratch/symbols" || { echo "no symbols of room $room found: nothing was checked"; exit 1; }
done

awk -F'\t' -v walls="$walls" -v source="$QS_SOURCE/src/" -v build="$QS_BUILD" '
    BEGIN {
        while ((getline line < walls) > 0) {
            split(line, field, "|")
            count = split(field[3], names, " ")
            sees[field[1], field[1]] = 1
            for (i = 1; i <= count; i++) sees[field[1], names[i]] = 1
        }
    }
    function complain(text) { if (!(text in said)) { said[text] = 1; print text; failures++ } }
    FILENAME ~ /includes$/ {
        file = $2
        if (file !~ /^\//) file = build "/" file
        while (sub(/\/[^\/.][^\/]*\/\.\.\//, "/", file)) { }
        if (index(file, source) != 1) next
        path = substr(file, length(source) + 1)
        other = path; sub(/\/.*/, "", other)
        if (other == $1) next
        if (!(($1, other) in sees)) complain("room " $1 " includes src/" path ": " other " is not among its DEPS")
        else if (index(path, other "/door/") != 1) complain("room " $1 " includes src/" path ": only the door of " other " may be included")
        next
    }
    $2 ~ /[TDBRCGS]/ {
        if ($3 in owner && owner[$3] != $1 && $3 ~ /^qs_/)
            complain("rooms " owner[$3] " and " $1 " both define " $3 ": names must differ to be linked together")
        owner[$3] = $1
        if ($3 !~ /^qs_/ && $3 !~ /^_/) complain("room " $1 " defines " $3 ": external names begin with qs_")
    }
    $2 == "U" { uses[$1 "\t" $3] = 1 }
    END {
        for (use in uses) {
            split(use, part, "\t")
            room = part[1]; name = part[2]
            if (name in owner && owner[name] != room) {
                if (!((room, owner[name]) in sees)) complain("room " room " uses " name " of room " owner[name] ", not among its DEPS")
                else if (name ~ /^qs__/) complain("room " room " uses " name ", which is inside room " owner[name])
            }
            if (name ~ /^(exit|_exit|_Exit|abort|quick_exit|printf|__printf_chk|puts|putchar|perror|stdout|stderr)$/)
                complain("room " room " uses " name ": the library neither prints nor ends the process")
            if (name ~ /^MPI_/ && room != "comm") complain("room " room " calls " name ": MPI belongs to room comm")
            if (name ~ /^dnnl_/ && room != "device") complain("room " room " calls " name ": oneDNN belongs to room device")
            if (name ~ /^(GOMP_|__kmpc_fork)/ && room != "base") complain("room " room " has a parallel region: threads come from the pool of base")
        }
        exit failures > 0
    }' "$scratch/includes" "$scratch/symbols" || failed=1
check_circles "$scratch/functions" || failed=1
check_operators || failed=1
[ $failed -eq 0 ] || exit 1
echo "$(wc -l < "$walls") rooms, $(wc -l < "$scratch/includes") includes, $(wc -l < "$scratch/symbols") symbols: no wall is climbed"
