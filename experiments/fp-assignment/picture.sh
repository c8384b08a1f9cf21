#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Draws picture.svg from results.csv: test accuracy against the share of elements in low precision and against allocated bytes, a column a
# model at the width of the full grid (FP_WIDTH); means and ranges over seeds. And overflow.svg from overflows.csv: of the run of uniform-fp
# without promotion that overflowed most, the worst tensors. Needs gnuplot and jq.
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
cd "${EXPERIMENT_RESULTS:-$experiment}"
command -v gnuplot > /dev/null || { echo "picture: gnuplot is missing (Debian: gnuplot-nox)" >&2; exit 1; }
: "${FP_WIDTH:=0.25}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

style() { # TITLE: color and point of an assignment, the same one in every picture
    case $1 in
    demote) echo 'pt 7 lc rgb "#7570b3"' ;;
    'demote, increasing') echo 'pt 9 lc rgb "#e7298a"' ;;
    'demote, random') echo 'pt 11 lc rgb "#e6ab02"' ;;
    fp32) echo 'pt 2 lc rgb "#1b9e77"' ;;
    uniform-fp*) echo 'pt 5 lc rgb "#d95f02"' ;;
    op-io*) echo 'pt 5 lc rgb "#66a61e"' ;;
    *) echo 'pt 5 lc rgb "#666666"' ;;
    esac
}
hollow() { case $1 in *promoted) sed 's/pt 5/pt 4/' ;; *) cat ;; esac; }
lines() { case $1 in demote*) echo yerrorlines ;; *) echo yerrorbars ;; esac; }

models=$(awk -F, -v width="$FP_WIDTH" 'NR > 1 && $2 == width && !seen[$1]++ { print $1 }' results.csv)
panels() { # COLUMN LABEL: one row of panels
    for model in $models; do
        plots='' index=0
        while read -r title; do
            plots="$plots \"$work/$model\" index $index using $1:3:4:5 skip 1 with $(lines "$title") $(style "$title" | hollow "$title") lw 1.5 ps 0.7 title \"$title\","
            index=$((index + 1))
        done < "$work/$model.titles"
        echo "set title \"$model, width $FP_WIDTH\"; set xlabel \"$2\"; set ylabel \"test accuracy, %\"; plot ${plots%,}"
    done
}
for model in $models; do
    jq -Rsr -L "$experiment/.." --arg model "$model" --arg width "$FP_WIDTH" -f "$experiment/picture.jq" results.csv > "$work/$model"
    sed -n 's/^"\(.*\)"$/\1/p' "$work/$model" > "$work/$model.titles"
done
columns=$(echo "$models" | wc -w)
{
    cat << END
set terminal svg size $((420 * columns)),760 font "sans-serif,11" background "white" noenhanced
set output "picture.svg"
set multiplot layout 2,$columns
set grid; set bars 0.5; set key bottom left font ",9"; set offsets graph 0.05, graph 0.05, graph 0.1, graph 0.35
END
    panels 1 'share of elements in low precision, mean over steps'
    panels 2 'allocated, MiB'
    echo 'unset multiplot'
} | gnuplot

worst=$(awk -F, 'NR > 1 && $3 == "uniform-fp" && $6 == "0" && $12 > most { most = $12; run = $1 "," $2 "," $3 "," $4 "," $5 "," $6 "," $7 }
    END { print run }' overflows.csv)
[ -n "$worst" ] || exit 0
awk -F, -v run="$worst" '$1 "," $2 "," $3 "," $4 "," $5 "," $6 "," $7 == run' overflows.csv > "$work/worst"
plots=''
cut -d, -f9 "$work/worst" | sort -u > "$work/tensors"
while read -r tensor; do
    awk -F, -v tensor="$tensor" '$9 == tensor { print $8, $11 }' "$work/worst" > "$work/tensor-$tensor"
    plots="$plots \"$work/tensor-$tensor\" using 1:2 with linespoints pt 7 ps 0.6 lw 1.5 title \"$tensor\","
done < "$work/tensors"
gnuplot << END
set terminal svg size 720,420 font "sans-serif,12" background "white" noenhanced
set output "overflow.svg"
set grid; set key outside bottom center horizontal; set logscale y; set xlabel "epoch"; set ylabel "overflows / elements, mean of the epoch"
set title "Worst tensors of $(echo "$worst" | tr ',' ' ' | awk '{ print $1 ", width " $2 }'), uniform-fp without promotion (line: 0.01)"
plot ${plots%,}, 0.01 lt -1 dt 2 notitle
END
