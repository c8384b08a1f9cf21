#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Losses of the runs of the first seed in curves.csv, a panel an adder with the baseline in each, as picture.svg. Needs gnuplot.
# shellcheck disable=SC2013
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
: "${EXPERIMENT_RESULTS:=$experiment}"
command -v gnuplot > /dev/null || { echo "accumulators: no gnuplot, no picture" >&2; exit 0; }
cd "$EXPERIMENT_RESULTS"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
first=$(sed -n 2p curves.csv | cut -d, -f1-6)
seed=$(sed -n 2p curves.csv | cut -d, -f10)
series() { # WIDTHS BITS_OFF ADDER: mean loss of 5 lines of metrics each, so that curves can be told apart
    grep "^$first,$1,$2,$3,$seed," curves.csv | awk -F, '{ sum += $12; if (NR % 5 == 0) { print $11, sum / 5; sum = 0 } }'
}
top=$(series baseline 0 nearest-even | awk 'NR == 1 { print 1.2 * $2 }')
{
    echo "set terminal svg size 1000,420 font 'sans-serif,12' background 'white'"
    echo "set output 'picture.svg.new'"
    echo "set multiplot layout 1,$(grep "^$first," results.csv | cut -d, -f9 | sort -u | grep -c .) title '$(echo "$first" | tr '_' '-'): training loss; what leaves the picture diverges'"
    echo "set xlabel 'step'; set xtics $(($(echo "$first" | cut -d, -f4) / 4 + 1)); set yrange [*:$top]; set key top right"
    for adder in $(grep "^$first," results.csv | cut -d, -f9 | sort -u); do
        series baseline 0 nearest-even > "$work/baseline"
        plots="'$work/baseline' using 1:2 with lines lw 3 lc rgb '#999999' title 'baseline'"
        number=0
        for run in $(grep "^$first," results.csv | grep -v baseline | grep ",$adder," | cut -d, -f7-8 | sort -u); do
            number=$((number + 1))
            series "${run%,*}" "${run#*,}" "$adder" > "$work/$adder-$number"
            plots="$plots, '$work/$adder-$number' using 1:2 with lines lw 2 title '$(echo "$run" | tr , ' ')'"
        done
        echo "set title '$adder'"
        echo "plot $plots"
    done
} > "$work/program"
gnuplot "$work/program"
mv picture.svg.new picture.svg
