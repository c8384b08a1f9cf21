#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Draws picture.svg from results.csv: pooled rank correlation with the ground truth per indicator and convention, one group of bars a model
# (mean over seeds, truth after 20 iterations). Needs gnuplot.
set -eu
cd "$(dirname "$0")"
command -v gnuplot > /dev/null || { echo "picture: gnuplot is missing (Debian: gnuplot-nox)" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
awk -F, 'NR > 1 && $5 == 20 && $8 == "pooled" {
        model = $1; sub(/:.*/, "", model); bar = $6 ($7 == "" ? "" : " " $7)
        if (!(model in seen_model)) { seen_model[model] = 1; models[++model_count] = model }
        if (!(bar in seen_bar)) { seen_bar[bar] = 1; bars[++bar_count] = bar }
        sum[model, bar] += $9; count[model, bar]++
    }
    END {
        printf "model"; for (b = 1; b <= bar_count; b++) printf "\t%s", bars[b]; print ""
        for (m = 1; m <= model_count; m++) {
            printf "%s", models[m]; plain = models[m]
            for (b = 1; b <= bar_count; b++) printf "\t%g", sum[plain, bars[b]] / count[plain, bars[b]]
            print ""
        }
    }' results.csv > "$work/table"
bars=$(head -1 "$work/table" | awk -F'\t' '{ print NF }')
gnuplot << END
set terminal svg size 1080,440 font "sans-serif,13" background "white" noenhanced
set output "picture.svg"
set title "Rank correlation of indicators with the measured gradient noise, all operators and recipes"
set ylabel "Spearman"; set yrange [0:1]; set grid ytics; set key outside right
set style data histogram; set style histogram clustered gap 1.5; set style fill solid 0.9 noborder; set datafile separator "\t"
set linetype 1 lc rgb "#c6dbef"
set linetype 2 lc rgb "#6baed6"
set linetype 3 lc rgb "#2171b5"
set linetype 4 lc rgb "#fdd0a2"
set linetype 5 lc rgb "#fd8d3c"
set linetype 6 lc rgb "#a63603"
set linetype 7 lc rgb "#c7e9c0"
set linetype 8 lc rgb "#74c476"
set linetype 9 lc rgb "#238b45"
set linetype 10 lc rgb "#969696"
set linetype 11 lc rgb "#54278f"
plot for [bar=2:$bars] "$work/table" using bar:xtic(1) title columnheader(bar) linetype bar - 1
END
