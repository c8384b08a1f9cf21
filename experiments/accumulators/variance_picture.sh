#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# variances.csv as variance.svg: a row an adder, a column a step of training; operators along the axis. Needs gnuplot.
# shellcheck disable=SC2013
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
: "${EXPERIMENT_RESULTS:=$experiment}"
command -v gnuplot > /dev/null || { echo "accumulators: no gnuplot, no picture" >&2; exit 0; }
cd "$EXPERIMENT_RESULTS"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
first=$(sed -n 2p variances.csv | cut -d, -f1-5)
steps=$(grep "^$first," variances.csv | cut -d, -f6 | sort -nu)
adders=$(grep "^$first," variances.csv | grep -v ',baseline,' | cut -d, -f9 | sort -u)
series() { # STEP WIDTHS BITS_OFF ADDER
    grep "^$first,$1,$2,$3,$4," variances.csv | cut -d, -f11
}
title() { # WIDTHS,BITS_OFF
    case $1 in
    formula,*) echo "PP = ${1#*,}" | sed 's/-/−/' ;;
    adder,*) echo 'derived for the adder' ;;
    *) echo "${1%,*} bits" ;;
    esac
}
{
    echo "set terminal svg size 1100,$((60 + 230 * $(echo "$adders" | grep -c .))) font 'sans-serif,12' background 'white'"
    echo "set output 'variance.svg.new'"
    echo "set multiplot layout $(echo "$adders" | grep -c .),$(echo "$steps" | grep -c .) title '$(echo "$first" | tr '_' '-'): variance of the weight gradient, operators in the order of the model'"
    echo "set logscale y; set format y '1e%T'; set key top center opaque; set xrange [0:22]; set xtics 5"
    for adder in $adders; do
        for step in $steps; do
            series "$step" baseline 0 nearest-even > "$work/ideal-$step"
            plots="'$work/ideal-$step' using 0:1 with lines lw 5 lc rgb '#bbbbbb' title 'wide'"
            number=0
            for run in $(grep "^$first,$step," variances.csv | grep -v ',baseline,' | grep ",$adder," | cut -d, -f7-8 | sort -u); do
                number=$((number + 1))
                series "$step" "${run%,*}" "${run#*,}" "$adder" > "$work/$adder-$step-$number"
                plots="$plots, '$work/$adder-$step-$number' using 0:1 with linespoints pt 7 ps 0.3 lw 1.5 title '$(title "$run")'"
            done
            echo "set title '$adder, step $step'"
            echo "plot $plots"
        done
    done
} > "$work/program"
gnuplot "$work/program"
mv variance.svg.new variance.svg
