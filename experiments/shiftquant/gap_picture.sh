#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gap.csv as gap.svg: the gap over training steps, mean over operators and seeds, and dashed the part of it that means and spreads make. Needs
# gnuplot.
set -eu
cd "${EXPERIMENT_RESULTS:-$(dirname "$0")}"
command -v gnuplot > /dev/null || { echo "shiftquant: no gnuplot, no picture" >&2; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
plots='' number=0
variants=$(awk -F, 'NR > 1 && !seen[$1]++ { print $1 }' gap.csv)
for name in $variants; do
    number=$((number + 1))
    awk -F, -v name="$name" '$1 == name { n[$5]++; all[$5] += $6; own[$5] += $7 }
        END { for (step in n) print step, all[step] / n[step], own[step] / n[step] }' gap.csv | sort -n > "$work/$name"
    norm=$(awk -F, -v name="$name" '$1 == name { print $2; exit }' gap.csv)
    plots="$plots, '$work/$name' using 1:2 with lines lw 2 lc $number title '$norm'"
    plots="$plots, '$work/$name' using 1:3 with lines lw 1.5 dt 2 lc $number title '$norm, statistics alone'"
done
gnuplot << END
set terminal svg size 800,520 font "sans-serif,13" background "white"
set output "gap.svg.new"
set title "What 8 bits do to normalised values: ‖rounded - exact‖² / ‖exact‖², mean over operators" noenhanced
set lmargin 12
set logscale y; set format y "10^{%T}"; set xlabel "training step"; set ylabel "relative squared distance"; set key below maxcols 2; set grid
plot ${plots#, }
END
mv gap.svg.new gap.svg
