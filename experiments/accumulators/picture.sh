#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Losses of the runs of the first seed in curves.csv as picture.svg: a row of panels for each model and way of training, a panel an adder with the
# baseline in each. Needs gnuplot.
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
: "${EXPERIMENT_RESULTS:=$experiment}"
command -v gnuplot > /dev/null || { echo "accumulators: no gnuplot, no picture" >&2; exit 0; }
cd "$EXPERIMENT_RESULTS"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
settings=$(cut -d, -f1-6 results.csv | sed 1d | awk '!seen[$0]++')
adders=$(cut -d, -f9 results.csv | sed 1d | sort -u)
series() { # SETTING WIDTHS BITS_OFF ADDER: its first seed; mean loss of 5 lines of metrics each, so that curves can be told apart
    awk -F, -v cell="$1,$2,$3,$4," 'index($0, cell) == 1 && (seed == "" || $10 == seed) { seed = $10; print $11 "," $12 }' curves.csv |
        awk -F, '{ sum += $2; if (NR % 5 == 0) { print $1, sum / 5; sum = 0 } }'
}
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
panel() { # SETTING ADDER
    runs=$(awk -F, -v cell="$1," -v adder="$2" 'index($0, cell) == 1 && $7 != "baseline" && $9 == adder { print $7 "," $8 }' results.csv | sort -u)
    [ -n "$runs" ] || { echo "set multiplot next"; return; }
    plots="'$work/baseline-$row' using 1:2 with lines lw 3 lc rgb '#999999' title 'baseline'"
    for run in $runs; do
        series "$1" "${run%,*}" "${run#*,}" "$2" > "$work/$2-$run-$row"
        [ ! -s "$work/$2-$run-$row" ] || plots="$plots, '$work/$2-$run-$row' using 1:2 with lines lw 2 $(style "$run")"
    done
    echo "set title '$(echo "$1" | awk -F, '{ print $1 ", " $3 " images" }' | tr '_' '-'): $2'; plot $plots"
}
{
    echo "set terminal svg size 1100,$((430 * $(echo "$settings" | wc -l) + 30)) font 'sans-serif,11' background 'white'"
    echo "set output 'picture.svg.new'"
    echo "set multiplot layout $(echo "$settings" | wc -l),$(echo "$adders" | wc -l) title 'training loss, first seed; what leaves the picture diverges'"
    echo "set xlabel 'step'; set key below vertical maxrows 6; set bmargin 10"
    row=0
    for setting in $settings; do
        row=$((row + 1))
        series "$setting" baseline 0 nearest-even > "$work/baseline-$row"
        awk -v steps="$(echo "$setting" | cut -d, -f4)" 'NR == 1 { top = 1.2 * $2 } NR == 1 || $2 < least { least = $2 }
            END { print "set xtics " int(steps / 4) "; set yrange [" 0.94 * least ":" top "]" }' "$work/baseline-$row"
        for adder in $adders; do
            panel "$setting" "$adder"
        done
    done
} > "$work/program"
gnuplot "$work/program"
mv picture.svg.new picture.svg
