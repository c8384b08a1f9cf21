#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Draws docs/pictures/<name>.svg from docs/pictures/<name>.txt: tools/pictures.sh [--check]
# --check draws nothing and fails where a committed picture is not what its description says. A description has one thing a line; lengths
# are in pixels, texts end where the line does:
#   size W H
#   band X Y W H text              an area behind boxes, its text in the corner
#   box ID X Y W H KIND title | line | line ...
#   arrow ID ID [text]             from one box to another: straight where they face each other, else by one corner
#   bar X Y W H KIND text          a piece of a row of time
#   text X Y KIND text             left-aligned from X; KIND note or strong
# Kinds of boxes and bars: plain, room, file, step, high, half, low, wait. Lines that begin with # are remarks.
set -eu
cd "$(dirname "$0")/.."
check=0
[ "${1:-}" != --check ] || check=1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0
for source in docs/pictures/*.txt; do
    target=${source%.txt}.svg
    awk '
        function escape(text) { gsub(/&/, "\\&amp;", text); gsub(/</, "\\&lt;", text); gsub(/>/, "\\&gt;", text); return text }
        function rest(from,    text, i) { text = $from; for (i = from + 1; i <= NF; i++) text = text " " $i; return from > NF ? "" : text }
        function refuse(text) { print FILENAME ":" FNR ": " text > "/dev/stderr"; failed = 1 }
        function words(x, y, class, anchor, text) {
            body = body sprintf("<text x=\"%g\" y=\"%g\" class=\"%s\" text-anchor=\"%s\">%s</text>\n", x, y, class, anchor, escape(text))
        }
        function rectangle(x, y, w, h, round, class) {
            body = body sprintf("<rect x=\"%g\" y=\"%g\" width=\"%g\" height=\"%g\" rx=\"%g\" class=\"%s\"/>\n", x, y, w, h, round, class)
        }
        # Characters of a text; UTF-8 continuation bytes are none.
        function width(text) { gsub(/[\200-\277]/, "", text); return length(text) }
        function path(points, text, x, y, anchor) {
            body = body "<path d=\"" points "\" class=\"arrow\" marker-end=\"url(#head)\"/>\n"
            if (text != "") words(x, y, "note", anchor, text)
        }
        function arrow(a, b, text,    left, right, top, bottom, x, y, to) {
            if (!(a in bx) || !(b in bx)) { refuse("no box " (a in bx ? b : a)); return }
            left = bx[a] > bx[b] ? bx[a] : bx[b]
            right = bx[a] + bw[a] < bx[b] + bw[b] ? bx[a] + bw[a] : bx[b] + bw[b]
            top = by[a] > by[b] ? by[a] : by[b]
            bottom = by[a] + bh[a] < by[b] + bh[b] ? by[a] + bh[a] : by[b] + bh[b]
            if (right - left >= 12) { # one above the other
                x = (left + right) / 2
                y = by[a] < by[b] ? by[a] + bh[a] : by[a]
                to = by[a] < by[b] ? by[b] - 2 : by[b] + bh[b] + 2
                path("M" x " " y "V" to, text, x + 8, (y + to) / 2 + 4, "start")
            } else if (bottom - top >= 12) { # side by side
                y = (top + bottom) / 2
                x = bx[a] < bx[b] ? bx[a] + bw[a] : bx[a]
                to = bx[a] < bx[b] ? bx[b] - 2 : bx[b] + bw[b] + 2
                path("M" x " " y "H" to, text, (x + to) / 2, y - 7, "middle")
            } else { # out of the side of the first, into the top or bottom of the second
                y = by[a] + bh[a] / 2
                x = bx[a] < bx[b] ? bx[a] + bw[a] : bx[a]
                to = by[a] < by[b] ? by[b] - 2 : by[b] + bh[b] + 2
                path("M" x " " y "H" (bx[b] + bw[b] / 2) "V" to, text, (x + bx[b] + bw[b] / 2) / 2, y - 7, "middle")
            }
        }
        function box(    id, x, y, w, h, count, line, i, at) {
            id = $2; x = $3; y = $4; w = $5; h = $6
            bx[id] = x; by[id] = y; bw[id] = w; bh[id] = h
            rectangle(x, y, w, h, 6, $7)
            count = split(rest(8), line, / *\| */)
            at = y + h / 2 - (count - 1) * 8.5 + 4.5
            for (i = 1; i <= count; i++) {
                if (width(line[i]) * (i == 1 ? 7 : 6.1) > w - 6) refuse("\"" line[i] "\" is wider than its box of " w)
                words(x + w / 2, at + (i - 1) * 17, i == 1 ? "title" : "line", "middle", line[i])
            }
        }
        /^#/ || NF == 0 { next }
        $1 == "size" { wide = $2; high = $3; next }
        $1 == "band" { rectangle($2, $3, $4, $5, 10, "band"); words($2 + 12, $3 + 20, "floor", "start", rest(6)); next }
        $1 == "box" { box(); next }
        $1 == "arrow" { arrow($2, $3, rest(4)); next }
        $1 == "bar" { rectangle($2, $3, $4, $5, 2, $6); words($2 + $4 / 2, $3 + $5 / 2 + 4, "line", "middle", rest(7)); next }
        $1 == "text" { words($2, $3, $4, "start", rest(5)); next }
        { refuse("\"" $1 "\": size, band, box, arrow, bar or text") }
        END {
            if (failed) exit 1
            printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\">\n", wide, high, wide, high
            print "<!-- SPDX-License-Identifier: Apache-2.0. Drawn by tools/pictures.sh. -->"
            print "<style>"
            print "text{font:13px Helvetica,Arial,sans-serif;fill:#1c2530}.title{font-weight:600}.line{font-size:12px}"
            print ".note{font-size:12px;fill:#4a5868}.strong{font-size:14px;font-weight:600}"
            print ".floor{font-size:12px;font-weight:600;fill:#4a5868;letter-spacing:1px}"
            print "rect{stroke:#8795a5;stroke-width:1}.paper{fill:#fff;stroke:none}.band{fill:#f2f5f8;stroke:#d3dbe3}.plain,.room{fill:#fff}"
            print ".file{fill:#fff6dc;stroke:#c9a94a}.step{fill:#e6f0fb;stroke:#7ba3cf}"
            print ".high{fill:#cfe6d4;stroke:#74a983}.half{fill:#dbe7f6;stroke:#7ba3cf}.low{fill:#f8d9c9;stroke:#c98a69}"
            print ".wait{fill:#fff;stroke:#8795a5;stroke-dasharray:4 3}.arrow{fill:none;stroke:#5d6b7a;stroke-width:1.4}.tip{fill:#5d6b7a}"
            print "@media (prefers-color-scheme:dark){"
            print "text{fill:#e4eaf1}.note,.floor{fill:#a9b6c4}rect{stroke:#66758a}.paper{fill:#12181f}.band{fill:#1b232d;stroke:#303c4a}"
            print ".plain,.room{fill:#232d39}.file{fill:#40361a;stroke:#a98c3a}.step{fill:#1d3450;stroke:#4f7bad}"
            print ".high{fill:#23452d;stroke:#4f8a60}.half{fill:#24385a;stroke:#4f7bad}.low{fill:#5a3424;stroke:#a9694a}"
            print ".wait{fill:#12181f}.arrow{stroke:#93a1b1}.tip{fill:#93a1b1}}"
            print "</style>"
            print "<defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">" \
                "<path d=\"M0 0L8 4L0 8z\" class=\"tip\"/></marker></defs>"
            printf "<rect width=\"%d\" height=\"%d\" rx=\"8\" class=\"paper\"/>\n%s</svg>\n", wide, high, body
        }' "$source" > "$scratch/picture.svg" || failed=1
    if [ $check -eq 0 ]; then
        [ ! -s "$scratch/picture.svg" ] || cp "$scratch/picture.svg" "$target"
    elif ! cmp -s "$scratch/picture.svg" "$target"; then
        echo "$target is not what $source says: run tools/pictures.sh"
        failed=1
    fi
done
exit $failed
