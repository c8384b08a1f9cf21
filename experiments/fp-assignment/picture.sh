#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Draws picture.svg from results.csv: test accuracy against the share of elements in low precision and against allocated bytes, a column a
# model at the width and learning rate of the full grid (FP_WIDTH, FP_RATE); means and ranges over seeds. And overflow.svg from overflows.csv
# and curves.csv: of the run of uniform-fp without promotion that ended in numbers that are not finite, else of that which overflowed most, the
# worst tensors, and the accuracy beside that of other assignments of the same model and seed. Needs gnuplot and jq.
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
cd "${EXPERIMENT_RESULTS:-$experiment}"
command -v gnuplot > /dev/null || { echo "picture: gnuplot is missing (Debian: gnuplot-nox)" >&2; exit 1; }
: "${FP_WIDTH:=0.25}" "${FP_RATE:=0.1}"
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

models=$(awk -F, -v width="$FP_WIDTH" -v rate="$FP_RATE" 'NR > 1 && $2 == width && $3 == rate && !seen[$1]++ { print $1 }' results.csv)
panels() { # COLUMN LABEL XRANGE: one row of panels
    for model in $models; do
        plots='' index=0
        while read -r title; do
            plots="$plots \"$work/$model\" index $index using $1:3:4:5 skip 1 with $(lines "$title") $(style "$title" | hollow "$title") lw 1.5 ps 0.7 title \"$title\","
            index=$((index + 1))
        done < "$work/$model.titles"
        echo "set title \"$model, width $FP_WIDTH\"; set xlabel \"$2\"; set xrange $3; set ylabel \"test accuracy, %\"; plot ${plots%,}"
    done
}
for model in $models; do
    jq -Rsr -L "$experiment/.." --arg model "$model" --arg width "$FP_WIDTH" --arg rate "$FP_RATE" -f "$experiment/picture.jq" results.csv > "$work/$model"
    sed -n 's/^"\(.*\)"$/\1/p' "$work/$model" > "$work/$model.titles"
done
columns=$(echo "$models" | wc -w)
{
    cat << END
set terminal svg size $((420 * columns)),860 font "sans-serif,11" background "white" noenhanced
set output "picture.svg"
set multiplot layout 2,$columns
set grid; set bars 0.5; set key below vertical maxrows 5 font ",9"; set offsets graph 0.05, graph 0.05, graph 0.1, graph 0.1
END
    panels 1 'share of elements in low precision, mean over steps' '[-0.05:1.05]'
    panels 2 'allocated, MiB' '[*:*]'
    echo 'unset multiplot'
} | gnuplot

# A run is named by the first eight columns. One that ended in numbers that are not finite comes before all others.
named() { awk -F, -v OFS=, '{ print $1, $2, $3, $4, $5, $6, $7, $8 }'; }
awk -F, '$4 == "uniform-fp" && $7 == "0" && $11 == "true"' results.csv | named > "$work/diverged"
worst=$(awk -F, 'NR == FNR { diverged[$0]; next }
    FNR > 1 && $4 == "uniform-fp" && $7 == "0" {
        name = $1 FS $2 FS $3 FS $4 FS $5 FS $6 FS $7 FS $8
        if ((name in diverged) + $13 > most) { most = (name in diverged) + $13; run = name }
    }
    END { print run }' "$work/diverged" overflows.csv)
[ -n "$worst" ] || exit 0
grep -F "$worst," overflows.csv > "$work/worst"
plots=''
cut -d, -f10 "$work/worst" | sort -u > "$work/tensors"
while read -r tensor; do
    awk -F, -v tensor="$tensor" '$10 == tensor { print $9, $12 }' "$work/worst" > "$work/tensor-$tensor"
    plots="$plots \"$work/tensor-$tensor\" using 1:2 with linespoints pt 7 ps 0.6 lw 1.5 title \"$tensor\","
done < "$work/tensors"

seed=${worst##*,} model=$(echo "$worst" | cut -d, -f1-3)
accuracies=''
for cell in fp32,,,0 uniform-fp,,,0 uniform-fp,,,0.01 demote,1,decreasing,0.01; do
    title=${cell%%,*}
    case $cell in uniform-fp*0.01) title="$title, promoted" ;; demote*) title=demote ;; esac
    grep -F "$model,$cell,$seed," curves.csv | awk -F, '{ print $9, 100 * $11 }' > "$work/$title.curve"
    [ ! -s "$work/$title.curve" ] ||
        accuracies="$accuracies \"$work/$title.curve\" using 1:2 with linespoints $(style "$title" | hollow "$title") lw 1.5 ps 0.7 title \"$title\","
done
epochs=$(awk -F, 'NR > 1 && $9 > last { last = $9 } END { print last }' curves.csv)
gnuplot << END
set terminal svg size 1100,420 font "sans-serif,12" background "white" noenhanced
set output "overflow.svg"
set multiplot layout 1,2
set grid; set key below; set xlabel "epoch"; set xtics $(((epochs + 11) / 12))
set title "$(echo "$model" | awk -F, '{ print $1 ", width " $2 ", learning rate " $3 }')"
set ylabel "test accuracy, %"; plot ${accuracies%,}
set title "its worst tensors under uniform-fp without promotion (line: 0.01)"
set logscale y; set ylabel "overflows / elements, mean of the epoch"
plot ${plots%,}, 0.01 lt -1 dt 2 notitle
END
