#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: short
# qsync plot: what is described is in the picture, texts are escaped, logarithmic axes have powers of ten; what nobody reads is refused.
. "$(dirname "$0")/check.inc"

has() { # TEXT TIMES
    [ "$(grep -cF -- "$1" "$work/out.svg")" -eq "$2" ] || fail "not $2 lines with: $1"
}

cat > "$work/all.json" <<'END'
{"title": "a < b & c", "note": "foot", "width": 800, "height": 600, "columns": 2, "panels": [
  {"title": "lines", "x": {"label": "step", "log": true}, "y": {"low": 0, "high": 10},
   "series": [{"title": "measured", "draw": "both", "color": "#123456", "data": [[1, 1], [10, 5, 4, 6], [100, null], [1000, 2]]},
              {"title": "end", "at_end": true, "dash": true, "data": [[1, 2], [1000, 3]]}],
   "marks": [{"y": 5, "text": "enough"}, {"x": 2, "to": 20, "color": "#eeeeee"}]},
  {"title": "bars", "legend": "right", "x": {"upright": true, "ticks": [[0, "one"], [1, "two"]]},
   "series": [{"title": "kernels", "draw": "bars", "data": [[0, 3], [1, 4]]}]},
  {"series": [{"draw": "boxes", "data": [[0, 0, 1, 1], [2, 0, 3, 1]]}]}]}
END
"$QSYNC" plot "$work/all.json" --out "$work/out.svg" || fail "plot failed"
has '<title>a &lt; b &amp; c</title>' 1
has '>foot</text>' 1
has 'r="3" fill="#123456"' 4 # three points and one in the legend
has '>1e' 0
has '>1000</text>' 1
has '>enough</text>' 1
has '>measured</text>' 1
has 'rotate(-90' 2
has 'clip-path=' 3
"$QSYNC" plot - --out "$work/again.svg" < "$work/all.json" || fail "plot of standard input failed"
cmp -s "$work/out.svg" "$work/again.svg" || fail "another picture from standard input"
command -v xmllint > /dev/null && { xmllint --noout "$work/out.svg" || fail "no well-formed XML"; }

refused() { # TEXT JSON
    echo "$2" > "$work/bad.json"
    rm -f "$work/bad.svg"
    refuse 1 "$1" plot "$work/bad.json" --out "$work/bad.svg"
    [ ! -e "$work/bad.svg" ] || fail "a picture of a description that was refused: $2"
}
refused 'no panels' '{}'
refused 'unknown name "serie"' '{"panels": [{"serie": []}]}'
refused '"log" is no true or false' '{"panels": [{"x": {"log": 1}}]}'
refused 'draw "dots": there are line' '{"panels": [{"series": [{"draw": "dots", "data": []}]}]}'
refused 'row 2 of "a" is no [x, y]' '{"panels": [{"series": [{"title": "a", "data": [[1, 2], [1]]}]}]}'
refused 'bad.json:2:' '{"panels": ['
refuse 2 'plot needs FILE' plot --out "$work/x.svg"
refuse 2 'plot needs --out' plot "$work/all.json"
finish
