#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Draws picture.svg from results.csv: what every operator costs alone in each recipe, by kernels (cpt) and conversions of the forward (cvt) and
# backward pass (bp), in per cent of its cost in the first recipe; a panel a model. Needs gnuplot.
set -eu
cd "${EXPERIMENT_RESULTS:-$(cd "$(dirname "$0")" && pwd)}"
command -v gnuplot > /dev/null || { echo "picture: gnuplot is missing (Debian: gnuplot-nox)" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
models=$(awk -F, 'NR > 1 && !($1 in seen) { seen[$1] = 1; print $1 }' results.csv)
panels=$(echo "$models" | wc -l)

# Bars stand by operator, in each by recipe; $1 model, writes "x cpt cvt bp" and prints the tics.
bars() {
    awk -F, -v model="$1" -v file="$work/$1" '
        NR == 1 || $1 != model || $4 != "alone" { next }
        !($5 in operator) { operator[$5] = operators++; name[operators - 1] = $5 }
        !($6 in recipe) { recipe[$6] = recipes++; short[recipes - 1] = $6 }
        { kernels = $8; forward = $7; backward = $9 }
        recipe[$6] == 0 { whole[$5] = kernels + forward + backward }
        { scale = 100 / whole[$5]; cost[operator[$5], recipe[$6]] = scale * kernels " " scale * forward " " scale * backward }
        END {
            printf "set xtics ("
            for (o = 0; o < operators; o++) {
                for (r = 0; r < recipes; r++) {
                    print o * (recipes + 1) + r, cost[o, r] > file
                    printf "%s\"%s\" %d", (o + r ? ", " : ""), short[r], o * (recipes + 1) + r
                }
            }
            print ") rotate by 90 right scale 0"
            for (o = 0; o < operators; o++)
                printf "set label %d \"%s\" at first %g, graph 0 offset 0, -5 center\n", o + 1, name[o], o * (recipes + 1) + (recipes - 1) / 2
            printf "set xrange [-1:%d]\n", operators * (recipes + 1) - 1
        }' results.csv
}
{
    cat << END
set terminal svg size 1080,$((360 * panels)) font "sans-serif,12" background "white" noenhanced
set output "picture.svg"
set multiplot layout $panels,1
set style fill solid 0.9 noborder; set boxwidth 0.85; set grid ytics; set yrange [0:*]; set bmargin 8; set lmargin 9
set key outside top center horizontal
END
    for model in $models; do
        awk -F, -v model="$model" '$1 == model { printf "set title \"%s, %s, batch %s: operators alone in a recipe\"\n", $1, $2, $3; exit }' results.csv
        base=$(awk -F, -v model="$model" '$1 == model { print $6; exit }' results.csv)
        echo "unset label; set ylabel \"per cent of $base\""
        bars "$model"
        echo "plot \"$work/$model\" using 1:(\$2+\$3+\$4) with boxes lc rgb \"#d95f02\" title \"bp: conversions, backward\", \
            '' using 1:(\$2+\$3) with boxes lc rgb \"#fdae6b\" title \"cvt: conversions, forward\", \
            '' using 1:2 with boxes lc rgb \"#1b9e77\" title \"cpt: kernels\""
    done
    echo "unset multiplot"
} | gnuplot
