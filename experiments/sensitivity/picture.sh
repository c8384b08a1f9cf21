#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Draws picture.svg from results.csv: accuracy of the plans that each indicator makes against the gradient noise that they add (by the qsync
# indicator), a point a seed. Needs gnuplot.
set -eu
cd "${EXPERIMENT_RESULTS:-$(cd "$(dirname "$0")" && pwd)}"
command -v gnuplot > /dev/null || { echo "picture: gnuplot is missing (Debian: gnuplot-nox)" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
models=$(awk -F, 'NR > 1 && !($1 in seen) { seen[$1] = 1; print $1 }' results.csv)
panels=$(echo "$models" | wc -l)
# Points of a limited plan per indicator, and the axes: room around all points and around the band of fp32.
panel() {
    awk -F, -v model="$1" -v work="$work" '
        $1 != model { next }
        $7 != "fp32" { print 1 * $10, 100 * $9 > (work "/" model "-" $7); if (1 * $10 > right) right = 1 * $10 }
        $7 == "fp32" { if (!oracles++ || 100 * $9 < low) low = 100 * $9; if (100 * $9 > high) high = 100 * $9 }
        { if (!all++ || 100 * $9 < bottom) bottom = 100 * $9; if (100 * $9 > top) top = 100 * $9 }
        END {
            room = (top - bottom) / 8 + 0.1
            printf "set xrange [0:%g]; set yrange [%g:%g]\n", right * 1.15, bottom - 2 * room, top + room
            printf "set object 1 rectangle from graph 0, first %g to graph 1, first %g behind fc rgb \"#cfe8df\" fs solid noborder\n", low, high
        }' results.csv
    echo "set title \"$1: two ranks in part of fp32's memory\""
    lines=''
    for indicator in qsync random hess; do
        [ -f "$work/$1-$indicator" ] || continue
        case $indicator in qsync) style='pt 9 lc rgb "#7570b3"' ;; random) style='pt 7 lc rgb "#969696"' ;; *) style='pt 5 lc rgb "#54278f"' ;; esac
        lines="$lines \"$work/$1-$indicator\" using 1:2 with points ps 1.2 $style title \"$indicator\","
    done
    echo "plot $lines keyentry with boxes fs solid noborder lc rgb \"#cfe8df\" title \"fp32, no limit: range over seeds\""
}
{
    cat << END
set terminal svg size $((540 * panels)),420 font "sans-serif,13" background "white" noenhanced
set output "picture.svg"
set multiplot layout 1,$panels
set xlabel "sum of omega by the qsync indicator"; set ylabel "test accuracy, per cent"; set format x "%g"; set grid
set key below; set bmargin 9
END
    for model in $models; do
        panel "$model"
    done
    echo "unset multiplot"
} | gnuplot
