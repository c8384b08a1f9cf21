#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Draws picture.svg from results.csv: the rank of every operator over iterations, a line an operator, a panel a model. Needs gnuplot.
set -eu
cd "${EXPERIMENT_RESULTS:-$(cd "$(dirname "$0")" && pwd)}"
command -v gnuplot > /dev/null || { echo "picture: gnuplot is missing (Debian: gnuplot-nox)" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
models=$(awk -F, 'NR > 1 && !($1 in seen) { seen[$1] = 1; print $1 }' results.csv)
panels=$(echo "$models" | wc -l)
{
    cat << END
set terminal svg size 1080,$((420 * panels)) font "sans-serif,12" background "white" noenhanced
set output "picture.svg"
set multiplot layout $panels,1
set xlabel "iteration"; set ylabel "rank (1: most sensitive)"; set grid xtics; set lmargin 9; set rmargin 22; unset key
set palette defined (0 "#440154", 0.25 "#3b528b", 0.5 "#21918c", 0.75 "#5ec962", 1 "#d4b106"); unset colorbox
END
    for model in $models; do
        operators=$(awk -F, -v model="$model" 'NR > 1 && $1 == model && !($5 in seen) { seen[$5] = 1; print $5 }' results.csv)
        count=$(echo "$operators" | wc -l)
        last=$(awk -F, -v model="$model" 'NR > 1 && $1 == model && $6 + 0 > n { n = $6 + 0 } END { print n }' results.csv)
        recipe=$(awk -F, -v model="$model" 'NR > 1 && $1 == model { print $4; exit }' results.csv)
        echo "set title \"$model: ranks of operators by omega in $recipe\"; unset label"
        echo "set xrange [1:$last]; set yrange [$count.5:0.5]; set ytics 1, $((count / 10 + 1)); set cbrange [1:$count]"
        plots='' number=0
        for operator in $operators; do
            number=$((number + 1))
            awk -F, -v model="$model" -v operator="$operator" '$1 == model && $5 == operator { print $6, $8 }' results.csv > "$work/$model-$number"
            # Coloured by the place at the end, where the name stands.
            place=$(awk 'END { print $2 }' "$work/$model-$number")
            echo "set label \"$operator\" at first $last, first $place offset 1, 0 font \",10\" tc palette cb $place"
            plots="$plots \"$work/$model-$number\" using 1:2 with lines lw 2 lc palette cb $place title \"$operator\","
        done
        echo "plot ${plots%,}"
    done
    echo "unset multiplot"
} | gnuplot
