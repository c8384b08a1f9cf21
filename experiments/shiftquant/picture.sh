#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Draws picture.svg from results.csv: test accuracy over epochs, the mean over seeds of each variant. Needs gnuplot.
set -eu
cd "${EXPERIMENT_RESULTS:-$(dirname "$0")}"
command -v gnuplot > /dev/null || { echo "picture: gnuplot is missing (Debian: gnuplot-nox)" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
variants=$(awk -F, 'NR > 1 && !seen[$1]++ { print $1 }' results.csv)
plots='' number=0
for name in $variants; do
    awk -F, -v name="$name" '$1 == name { n[$5]++; sum[$5] += $8 } END { for (e in n) print e, 100 * sum[e] / n[e] }' results.csv |
        sort -n > "$work/$name"
    round=$((number / 7)) # of seven colors
    style="lw 2 lc $((number % 7 + 1)) dt $((round + 1)) pt $((round * 2 + 5)) ps 0.5"
    plots="$plots, \"$work/$name\" using 1:2 with linespoints $style title \"$name\""
    number=$((number + 1))
done
gnuplot << END
set terminal svg size 760,460 font "sans-serif,13" background "white"
set output "picture.svg"
set title "CIFAR-10: test accuracy in fp32 and in integers"
set xlabel "epoch"; set ylabel "test accuracy, per cent"; set key outside right; set grid
plot ${plots#, }
END
