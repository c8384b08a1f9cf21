#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Draws picture.svg from results.csv: test accuracy over epochs, the mean over seeds per plan with its range. Needs gnuplot.
set -eu
cd "$(dirname "$0")"
command -v gnuplot > /dev/null || { echo "picture: gnuplot is missing (Debian: gnuplot-nox)" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for plan in fp32 uniform qsync; do
    awk -F, -v plan=$plan '$1 == plan { n[$3]++; sum[$3] += $6; if (!($3 in low) || $6 < low[$3]) low[$3] = $6; if ($6 > high[$3]) high[$3] = $6 }
        END { for (e in n) print e, 100 * sum[e] / n[e], 100 * low[e], 100 * high[e] }' results.csv | sort -n > "$work/$plan"
done
gnuplot << END
set terminal svg size 720,420 font "sans-serif,13" background "white"
set output "picture.svg"
set title "Fashion-MNIST, resnet8, two unlike ranks, batch 2 x 128: test accuracy (mean and range over seeds)"
set xlabel "epoch"; set ylabel "test accuracy, per cent"; set key bottom right; set grid; set xtics 1; set xrange [0.8:5.2]
plot "$work/fp32" using (\$1-0.04):2:3:4 with yerrorlines title "fp32" lw 2 pt 7 lc rgb "#1b9e77", \
     "$work/uniform" using 1:2:3:4 with yerrorlines title "uniform" lw 2 pt 5 lc rgb "#d95f02", \
     "$work/qsync" using (\$1+0.04):2:3:4 with yerrorlines title "qsync" lw 2 pt 9 lc rgb "#7570b3"
END
