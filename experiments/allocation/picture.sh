#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Draws picture.svg from accuracy.csv and speed.csv: what each planner does to accuracy and throughput, one group a model and memory limit; points are means over
# seeds, bars medians of rounds, whiskers their range. Needs gnuplot and jq.
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
cd "${EXPERIMENT_RESULTS:-$experiment}"
command -v gnuplot > /dev/null || { echo "picture: gnuplot is missing (Debian: gnuplot-nox)" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
jq -nr -L "$experiment/.." --rawfile accuracy accuracy.csv --rawfile speed speed.csv -f "$experiment/picture.jq" > "$work/bars"
planners=$(sed -n 's/^"\(.*\)"$/\1/p' "$work/bars")
count=$(echo "$planners" | wc -l)
tics=$(awk -F, -v count="$count" 'NR > 1 && !(($1, $2, $6) in seen) { seen[$1, $2, $6] = 1
        printf "%s\"%s\\n%s\\n%s\" %g", (n ? ", " : ""), $1, $2, $6, n * (count + 1) + (count - 1) / 2; n++ }' accuracy.csv)
groups=$(awk -F, 'NR > 1 && !(($1, $2, $6) in seen) { seen[$1, $2, $6] = 1; n++ } END { print n }' accuracy.csv)

color() { # planner: the same one in every picture
    case $1 in
    fp32) echo '#1b9e77' ;; uniform) echo '#d95f02' ;; dbs) echo '#e7298a' ;; qsync) echo '#7570b3' ;; qsync-heap) echo '#a6761d' ;;
    joint) echo '#66a61e' ;; dpro) echo '#e6ab02' ;; *) echo '#666666' ;;
    esac
}
accuracy='' pace='' index=0
for planner in $planners; do
    style="lw 2 lc rgb \"$(color "$planner")\""
    accuracy="$accuracy \"$work/bars\" index $index using 1:2:3:4 skip 1 with yerrorbars pt 7 ps 0.8 $style title \"$planner\","
    pace="$pace \"$work/bars\" index $index using 1:5 skip 1 with boxes $style title \"$planner\",
        \"$work/bars\" index $index using 1:6:(0):(\$7-\$6) skip 1 with vectors heads size graph 0.004,90 lt -1 notitle,"
    index=$((index + 1))
done
gnuplot << END
set terminal svg size 1080,640 font "sans-serif,12" background "white" noenhanced
set output "picture.svg"
set multiplot layout 2,1
set style fill solid 0.85 noborder; set boxwidth 0.85; set grid ytics; set xtics ($tics) scale 0; set bmargin 5; set lmargin 11
set key outside right top; set bars 0.5; set pointintervalbox 0; set xrange [-1:$((groups * (count + 1) - 1))]
set title "Test accuracy less the mean of $(echo "$planners" | head -n 1) (mean and range over seeds)"
set ylabel "points"; set xzeroaxis lt -1; set offsets 0, 0, 0.1, 0.1
plot ${accuracy%,}
set title "Throughput against uniform, round by round (median and range)"
set ylabel "per cent"; set yrange [0:*]; set offsets
plot $(echo "${pace%,}" | tr '\n' ' ')
unset multiplot
END
