#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# How much a reader of the house must hold in mind, from the calls that the compiler sees: tools/house.sh [FUNCTION...]
#   ways      what is called from a function, directly or not: functions, files, lines, and calls from one room into another. Without
#             arguments the ways of lowering, planning, a training step and a run of a schedule. Calls through pointers (kernels, planners,
#             loaders) are not followed: they end at the table.
#   circles   files of a room that call each other, directly or through others
#   small     functions of at most five lines that stand at one place only
#   internal  functions that files of one room share (qs__)
# Compiles without optimisation into build/house (gcc: -fcallgraph-info). --json prints the figures as JSON; --table prints those of the
# usual ways as the table of ARCHITECTURE.md, beside the figures of commit 54c6408, before the rooms were redesigned from within.
set -eu
cd "$(dirname "$0")/.."
form=text
case ${1:-} in --json | --table) form=${1#--}; shift ;; esac
[ $# -gt 0 ] || set -- qs_schedule_lower qs_plan_make qs__trainer_step qs_executor_run
build=${QS_HOUSE_BUILD:-build/house}
mkdir -p "$build"
find "$build" \( -name '*.ci' -o -name '*.o' \) -delete # else files that are gone would be counted
compile() {
    cmake -S . -B "$build" -G Ninja -DCMAKE_C_COMPILER=gcc -DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS='-O0 -fcallgraph-info' -DBUILD_TESTING=OFF &&
        CCACHE_DISABLE=1 cmake --build "$build" -j "$(nproc)"
}
compile > "$build.log" 2>&1 || { tail "$build.log"; exit 1; }

# Definitions: "d function file line"; calls: "c caller callee". A static function is called by its file's name and its own.
find "$build" -name '*.ci' -exec cat {} + | awk -v root="$PWD/src/" '
    function field(name,    at, rest) {
        at = index($0, name ": \"")
        if (!at) return ""
        rest = substr($0, at + length(name) + 3)
        return substr(rest, 1, index(rest, "\"") - 1)
    }
    /^node:/ && !/shape : ellipse/ {
        label = field("label"); sub(/.*\\n/, "", label)
        if (index(label, root) != 1) next
        split(substr(label, length(root) + 1), place, ":")
        print "d\t" field("title") "\t" place[1] "\t" place[2]
    }
    /^edge:/ { print "c\t" field("sourcename") "\t" field("targetname") }' | sort -u > "$build/calls.txt"

find src -name '*.[ch]' -o -name '*.inc' -o -name '*.def' | sort > "$build/files.txt"
# shellcheck disable=SC2046
awk -v form="$form" -v roots="$*" '
    FNR == 1 { path = FILENAME; sub(/^src\//, "", path) }
    FILENAME ~ /calls.txt$/ && $1 == "d" { split($0, part, "\t"); file[part[2]] = part[3]; line[part[2]] = part[4]; next }
    FILENAME ~ /calls.txt$/ { split($0, part, "\t"); callees[part[2]] = callees[part[2]] "\t" part[3]; next }
    {
        total++
        if (/^}/) end_of[path, ++ends[path]] = FNR
        text = $0
        sub(/\/\/.*/, "", text); sub(/^ \*.*|^\/\*.*/, "", text); gsub(/"[^"]*"/, "", text)
        if (path ~ /\.h$/ && text ~ /;$/ && text !~ /^ /) next # a declaration
        while (match(text, /[A-Za-z_][A-Za-z_0-9]*/)) { seen[substr(text, RSTART, RLENGTH)]++; text = substr(text, RSTART + RLENGTH) }
    }
    function lines_of(name,    i) {
        for (i = 1; i <= ends[file[name]]; i++)
            if (end_of[file[name], i] >= line[name]) return end_of[file[name], i] - line[name] + 1
        return 1
    }
    function table_head() {
        before["qs_schedule_lower"] = "312 · 46 · 2893 · 161"
        before["qs_plan_make"] = "817 · 94 · 7606 · 393"
        before["qs__trainer_step"] = "226 · 50 · 1873 · 110"
        before["qs_executor_run"] = "49 · 14 · 385 · 19"
        before["circles"] = "15; 64"
        before["functions"] = 4481
        before["small"] = 318
        before["internal"] = 741
        before["lines"] = 67423
        print "| | before | now |\n|---|---|---|"
    }
    function table_row(text, key, now) { printf "| %s | %s | %s |\n", text, key in before ? before[key] : "", now }
    function room_of(name,    room) { room = file[name]; sub(/\/.*/, "", room); return room }
    function way(start,    queue, first, last, name, part, i, count, on, in_file, places) {
        functions = files = length_ = changes = 0
        queue[last = 1] = start; on[start] = 1
        for (first = 1; first <= last; first++) {
            name = queue[first]
            if (!((file[name], line[name]) in places)) { # what is compiled for several instruction sets counts once
                places[file[name], line[name]] = 1
                functions++; length_ += lines_of(name)
                if (!(file[name] in in_file)) { in_file[file[name]] = 1; files++ }
            }
            count = split(callees[name], part, "\t")
            for (i = 1; i <= count; i++) {
                if (!(part[i] in file)) continue
                if (room_of(part[i]) != room_of(name)) changes++
                if (!(part[i] in on)) { on[part[i]] = 1; queue[++last] = part[i] }
            }
        }
    }
    END {
        for (name in file) if (!((file[name], line[name]) in counted)) {
            counted[file[name], line[name]] = 1
            all++
            plain = name; sub(/.*:/, "", plain)
            if (plain ~ /^qs__/) internal++
            if (lines_of(name) <= 5 && seen[plain] == 2) small++
            # calls between files of a room
            count = split(callees[name], part, "\t")
            for (i = 1; i <= count; i++)
                if (part[i] in file && file[part[i]] != file[name] && room_of(part[i]) == room_of(name)) reach[file[name], file[part[i]]] = 1
        }
        for (pair in reach) { split(pair, part, SUBSEP); node[part[1]] = node[part[2]] = 1 }
        for (k in node) for (i in node) if ((i, k) in reach) for (j in node) if ((k, j) in reach) reach[i, j] = 1
        for (i in node) if ((i, i) in reach) {
            circled++
            if (i in member) continue
            circles++
            for (j in node) if ((i, j) in reach && (j, i) in reach) member[j] = circles
        }
        count = split(roots, root, " ")
        if (form == "json") printf "{\"ways\": {"
        if (form == "table") table_head()
        for (i = 1; i <= count; i++) {
            if (!(root[i] in file)) { print "no function " root[i] > "/dev/stderr"; exit 2 }
            way(root[i])
            if (form == "json") printf "%s\"%s\": {\"functions\": %d, \"files\": %d, \"lines\": %d, \"room_changes\": %d}", i == 1 ? "" : ", ", root[i], functions, files, length_, changes
            else if (form == "table") table_row("way of `" root[i] "`: functions · files · lines · calls from room to room", root[i], functions " · " files " · " length_ " · " changes)
            else printf "%-20s %4d functions in %3d files, %5d lines; %4d calls from room to room\n", root[i], functions, files, length_, changes
        }
        if (form == "json") printf "},\n \"circles\": %d, \"files_in_circles\": %d, \"functions\": %d, \"small\": %d, \"internal\": %d, \"lines\": %d}\n", circles, circled, all, small, internal, total
        else if (form == "table") {
            table_row("circles of files that call each other; files in them", "circles", circles + 0 "; " circled + 0)
            table_row("functions", "functions", all)
            table_row("functions of at most five lines that are used at one place", "small", small)
            table_row("functions that files of one room share (`qs__`)", "internal", internal)
            table_row("lines of source", "lines", total)
        } else {
            printf "circles of files: %d, with %d files\n", circles, circled
            for (j in member) print "  circle " member[j] ": " j | "sort"
            close("sort")
            printf "functions: %d; %d of them at most five lines that stand at one place; %d shared inside a room\n", all, small, internal
            printf "lines of source: %d\n", total
        }
    }' "$build/calls.txt" $(cat "$build/files.txt")
