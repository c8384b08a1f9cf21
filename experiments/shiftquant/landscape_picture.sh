#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# landscape.csv as landscape.svg: a panel a variant, the loss along each direction. Needs gnuplot.
set -eu
cd "${EXPERIMENT_RESULTS:-$(dirname "$0")}"
command -v gnuplot > /dev/null || { echo "shiftquant: no gnuplot, no picture" >&2; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
variants=$(awk -F, 'NR > 1 && !seen[$1]++ { print $1 }' landscape.csv)
slices=$(awk -F, 'NR > 1 && !seen[$4 "," $5]++ { print $4 "," $5 }' landscape.csv)
range=$(awk -F, 'NR > 1 && $7 != "" { if (!seen++ || $7 < least) least = $7; if ($7 > most) most = $7 }
    END { edge = 0.05 * (most - least); print least - edge ":" most + edge }' landscape.csv)
count=$(echo "$variants" | grep -c .)
{
    echo "set terminal svg size $((60 + 250 * count)),340 font 'sans-serif,13' background 'white'"
    echo "set output 'landscape.svg.new'"
    echo "set multiplot layout 1,$count title 'Training loss along random directions through the trained weights, filters normalised'"
    echo "set grid; set key off; set yrange [$range]; set xlabel 'along the direction'; set ylabel 'loss'"
    for name in $variants; do
        head=$(awk -F, -v name="$name" '$1 == name { print $3 ", " $2; exit }' landscape.csv)
        plots=''
        for slice in $slices; do
            data=$work/$name-$slice
            awk -F, -v name="$name" -v slice="$slice" '$1 == name && $4 "," $5 == slice { print $6, $7 == "" ? "NaN" : $7 }' landscape.csv > "$data"
            plots="$plots, '$data' using 1:2 with lines lw 2 title '$slice'"
        done
        echo "set title '$head' noenhanced"
        echo "plot ${plots#, }"
        echo "unset ylabel"
    done
} > "$work/program"
gnuplot "$work/program"
mv landscape.svg.new landscape.svg
