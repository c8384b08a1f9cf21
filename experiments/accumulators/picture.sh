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
adders=$(grep "^$first," results.csv | cut -d, -f9 | sort -u)
top=$(series baseline 0 nearest-even | awk 'NR == 1 { print 1.2 * $2 }')
bottom=$(series baseline 0 nearest-even | awk 'NR == 1 || $2 < least { least = $2 } END { print 0.97 * least }')
# A color means the same widths in every panel.
style() { # WIDTHS,BITS_OFF
    case $1 in
    formula,0) echo 'lc rgb "#1b9e77" title "PP = 0"' ;;
    formula,-1) echo 'lc rgb "#d95f02" title "PP = −1"' ;;
    formula,-2) echo 'lc rgb "#7570b3" title "PP = −2"' ;;
    adder,*) echo 'lc rgb "#e7298a" title "derived for the adder"' ;;
    *) echo "lc rgb '#e6ab02' title '${1%,*} bits'" ;;
    esac
}
{
    echo "set terminal svg size 1000,480 font 'sans-serif,12' background 'white'"
    echo "set output 'picture.svg.new'"
    echo "set multiplot layout 1,$(echo "$adders" | wc -l) title '$(echo "$first" | awk -F, '{ print $1 ", " $2 ", " $3 " images a step, chunks of " $6 }' |
        tr '_' '-'): training loss; what leaves the picture diverges'"
    echo "set xlabel 'step'; set xtics $(($(echo "$first" | cut -d, -f4) / 4)); set yrange [$bottom:$top]; set key below vertical maxrows 6; set bmargin 12"
    for adder in $adders; do
        series baseline 0 nearest-even > "$work/baseline"
        plots="'$work/baseline' using 1:2 with lines lw 3 lc rgb '#999999' title 'baseline'"
        for run in $(grep "^$first," results.csv | grep -v baseline | grep ",$adder," | cut -d, -f7-8 | sort -u); do
            series "${run%,*}" "${run#*,}" "$adder" > "$work/$adder-$run"
            plots="$plots, '$work/$adder-$run' using 1:2 with lines lw 2 $(style "$run")"
        done
        echo "set title '$adder'"
        echo "plot $plots"
    done
} > "$work/program"
gnuplot "$work/program"
mv picture.svg.new picture.svg
