#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Draws picture.svg from results.csv: a timeline for each plan, lanes of every rank from top to bottom. Needs gnuplot.
set -eu
cd "${EXPERIMENT_RESULTS:-$(cd "$(dirname "$0")" && pwd)}"
command -v gnuplot > /dev/null || { echo "picture: gnuplot is missing (Debian: gnuplot-nox)" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
planners=$(awk -F, 'NR > 1 && !($2 in seen) { seen[$2] = 1; print $2 }' results.csv)
panels=$(echo "$planners" | wc -l)
ranks=$(awk -F, 'NR > 1 && $4 + 1 > n { n = $4 + 1 } END { print n }' results.csv)
end=$(awk -F, 'NR > 1 && $3 > last { last = $3 } END { print last / 1000 }' results.csv)
lanes="forward backward cast communication idle update data"
colors="#1b9e77 #7570b3 #d95f02 #e6ab02 #bdbdbd #66a61e #a6cee3"

# Lane k of rank r lies at height -(8 r + k), an empty one below each rank.
awk -F, -v lanes="$lanes" -v work="$work" '
    BEGIN { n = split(lanes, name, " "); for (k = 1; k <= n; k++) place[name[k]] = k }
    NR > 1 { y = -(8 * $4 + place[$6] - 1); print $7 / 1000, $8 / 1000, y > (work "/" $2 "-" $6) }' results.csv
{
    cat << END
set terminal svg size 1080,$((300 * panels)) font "sans-serif,11" background "white" noenhanced
set output "picture.svg"
set multiplot layout $panels,1
set style fill solid 1 noborder; set xrange [0:1.01 * $end]; set yrange [$((1 - 8 * ranks)).5:0.6]; set grid xtics; set lmargin 24; set rmargin 3; unset key
set xlabel "milliseconds" offset 0, 0.5
END
    rank=0
    tics=''
    while [ "$rank" -lt "$ranks" ]; do
        index=0
        who=$(awk -F, -v rank="$rank" 'NR > 1 && $4 == rank { print $5; exit }' results.csv)
        for lane in $lanes; do
            tics="$tics${tics:+, }\"$who: $lane\" $((-(8 * rank + index)))"
            index=$((index + 1))
        done
        rank=$((rank + 1))
    done
    echo "set ytics ($tics) scale 0"
    for planner in $planners; do
        iteration=$(awk -F, -v planner="$planner" '$2 == planner { printf "%.1f", $3 / 1000; exit }' results.csv)
        echo "set title \"$planner: $iteration ms an iteration\" offset 0, -0.6"
        echo "set arrow 1 from $iteration, graph 0 to $iteration, graph 1 nohead lc rgb \"#444444\" dt 2"
        plots=''
        # shellcheck disable=SC2086
        set -- $colors
        for lane in $lanes; do
            [ ! -f "$work/$planner-$lane" ] ||
                plots="$plots \"$work/$planner-$lane\" using 1:3:1:2:(\$3-0.4):(\$3+0.4) with boxxyerror lc rgb \"$1\" title \"$lane\","
            shift
        done
        echo "plot ${plots%,}"
    done
    echo "unset multiplot"
} | gnuplot
