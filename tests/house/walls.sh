#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: short
# The walls between the rooms, read from what the compiler did: the dependency files and the symbols of every room's archive.
#   1. a room includes its own files and the doors of its declared closure, nothing else of src/
#   2. a room's undefined symbols that another room defines come from its declared closure, through a door (no qs__ name)
#   3. every external symbol begins with qs_ and is defined by one room, and the library neither prints nor ends the process
#   4. MPI is called by comm alone, oneDNN by device alone, and parallel regions stand in base alone
# Environment: QS_BUILD (with walls.txt: "room|archive|closure" lines), QS_SOURCE, QS_NM, QS_NINJA.
set -u
walls=$QS_BUILD/walls.txt
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

# "object file" and "file" pairs as lines: "room<TAB>included file".
list_includes() {
    if [ -f "$QS_BUILD/build.ninja" ]; then
        "$QS_NINJA" -C "$QS_BUILD" -t deps
    else
        find "$QS_BUILD" -name '*.o.d' -exec cat {} + | sed -e 's/\\$//' | tr ' ' '\n' |
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

list_includes > "$scratch/includes" || exit 1
list_symbols > "$scratch/symbols" || exit 1

for room in $(cut -d'|' -f1 "$walls"); do
    grep -q "^$room	" "$scratch/includes" || { echo "no dependency files of room $room found: nothing was checked"; exit 1; }
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
    }' "$scratch/includes" "$scratch/symbols" || exit 1
echo "$(wc -l < "$walls") rooms, $(wc -l < "$scratch/includes") includes, $(wc -l < "$scratch/symbols") symbols: no wall is climbed"
