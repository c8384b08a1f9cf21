#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: short
# What experiments make of their results: means, spreads and ratios against figures worked out by hand; a planner without a plan; pictures
# that are drawn.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
command -v jq > /dev/null || exit 77
failures=0
fail() { echo "$1"; failures=$((failures + 1)); }
experiments=$QS_SOURCE/experiments

# Accuracy 80 and 82 %: mean 81, deviation sqrt 2. Throughput 90/100, 130/100 and 240/200 of uniform: median 120 %.
cat > "$work/plans.csv" << 'END'
model,dataset,batch,limit,planner,limit_bytes,fits
m,d,16,tight,fp32,3145728B,false
m,d,16,tight,uniform,3145728B,true
m,d,16,tight,qsync,3145728B,true
END
cat > "$work/accuracy.csv" << 'END'
model,dataset,batch,epochs,rate,limit,planner,seed,test_accuracy,sum_omega,big_batch,weak_batch,weak_operators,weak_arena_bytes
m,d,16,1,0.1,tight,uniform,1,0.7,4,16,16,5 bf16,1048576
m,d,16,1,0.1,tight,uniform,2,0.7,4,16,16,5 bf16,1048576
m,d,16,1,0.1,tight,qsync,1,0.8,0.25,16,16,2 bf16; 3 fp32,2097152
m,d,16,1,0.1,tight,qsync,2,0.82,0.25,16,16,2 bf16; 3 fp32,2097152
END
cat > "$work/speed.csv" << 'END'
model,dataset,batch,epochs,rate,limit,planner,round,samples_per_second,iteration_us,predicted_iteration_us,big_waiting_us,weak_waiting_us,weak_rss_bytes
m,d,16,1,0.1,tight,uniform,1,100,2,2,0,3000,1
m,d,16,1,0.1,tight,uniform,2,100,2,2,0,3000,1
m,d,16,1,0.1,tight,uniform,3,200,2,2,0,3000,1
m,d,16,1,0.1,tight,qsync,1,90,2,2,1000,0,1
m,d,16,1,0.1,tight,qsync,2,130,2,2,2000,0,1
m,d,16,1,0.1,tight,qsync,3,240,2,2,2000,0,1
END
allocation() { # program
    jq -nr -L "$experiments" --rawfile plans "$work/plans.csv" --rawfile accuracy "$work/accuracy.csv" --rawfile speed "$work/speed.csv" \
        -f "$experiments/allocation/$1.jq" > "$work/table" || fail "allocation/$1.jq"
}
holds() { grep -qF -- "$1" "$work/table" || { cat "$work/table"; fail "the table lacks: $1"; }; }
allocation table
holds '## m, d, batch 2 x 16, 1 epochs, memory of weak: 3.0 MiB'
holds '| fp32 | does not fit |'
holds '| uniform | 5 bf16 | 16 + 16 | 70.00 ± 0.00 |  | 100 | 100.0 | 4 | 0.0 / 3.0 | 1.0 |'
holds '| qsync | 2 bf16; 3 fp32 | 16 + 16 | 81.00 ± 1.41 | 11.00 ± 1.00 | 130 | 120.0 | 0.25 | 2.0 / 0.0 | 2.0 |'
allocation picture
# Second of two planners that have runs; 81 is 11 above the 70 % of the first.
jq -e 'def near($b): . - $b | fabs < 1e-9;
    (.panels | length == 2 and all(.series | map(.title) == ["uniform", "qsync"]))
    and (.panels[0].series[1].data[0] | .[0] == 1 and (.[1] | near(11))) and (.panels[1].series[1].data[0][1] | near(120))' "$work/table" > "$work/said" ||
    { cat "$work/table"; fail "allocation/picture.jq: other figures"; }

drawn() { # experiment whose results lie in $work, and the picture's name
    name=${2:-picture} script=$1/${2:+${2}_}picture.sh
    rm -f "$work/$name.svg"
    QSYNC=$QS_BUILD/qsync EXPERIMENT_RESULTS=$work sh "$experiments/$script" 2> "$work/err" || { cat "$work/err"; fail "$script"; }
    grep -q '</svg>' "$work/$name.svg" || fail "$1/$name.svg is not whole"
    ! grep -q "/tmp\." "$work/$name.svg" || fail "$1/$name.svg names a folder that is different every time"
    [ ! -s "$work/err" ] || { cat "$work/err"; fail "$script complains"; }
}
drawn allocation

cat > "$work/results.csv" << 'END'
model,dataset,batch,epochs,rate,share,indicator,seed,test_accuracy,sum_omega,operators,arena_bytes
m,d,16,1,0.1,100,fp32,1,0.9,0,5 fp32,2097152
m,d,16,1,0.1,60,qsync,1,0.8,0.5,5 bf16,1048576
m,d,16,1,0.1,60,random,1,0.8,0.5,5 bf16,1048576
m,d,16,1,0.1,60,random,2,0.7,1.5,2 fp32; 3 bf16,1048576
END
jq -Rsr -L "$experiments" -f "$experiments/sensitivity/table.jq" "$work/results.csv" > "$work/table" || fail "sensitivity/table.jq"
holds '| random | 60 % | 2 fp32; 3 bf16 or 5 bf16 | 75.00 ± 7.07 | 1 (0.5 to 1.5) | 1.0 |'
drawn sensitivity

cat > "$work/results.csv" << 'END'
model,dataset,batch,context,operator,recipe,cvt_us,cpt_us,bp_us,neighbours_us
m,d,16,alone,fc,fp32,0,100,0,0
m,d,16,alone,fc,bf16,10,50,5,0
END
drawn composition
cat > "$work/results.csv" << 'END'
model,planner,iteration_us,rank,class,lane,start_us,end_us
m,fp32,1000,0,big,forward,0,500
m,fp32,1000,1,weak,idle,500,1000
m,qsync,900,0,big,backward,0,900
m,qsync,900,1,weak,cast,500,600
END
drawn timeline
cat > "$work/results.csv" << 'END'
model,dataset,batch,recipe,operator,iteration,omega,rank
m,d,16,bf16,a,1,2,1
m,d,16,bf16,b,1,1,2
m,d,16,bf16,a,2,2,2
m,d,16,bf16,b,2,3,1
END
drawn ranks
{
    echo model,dataset,batch,rate,chunk,step,widths,bits_off,adder,operator,variance
    for row in 0,baseline,0,nearest-even,a,1 0,baseline,0,nearest-even,b,2 0,formula,-2,toward-zero,a,0.1 0,formula,-2,toward-zero,b,0.2; do
        echo "m,d,16,0.1,64,$row"
    done
} > "$work/variances.csv"
drawn accumulators variance

# Last quarter of 400 steps: those behind step 300. Seeds 1 and 2 of the baseline end at 1 and 2, of PP = -2 at 3 and 5: 2 and 3 above it.
{
    echo model,dataset,batch,steps,rate,chunk,widths,bits_off,adder,seed,training_loss,test_accuracy,test_loss
    for row in formula,-2,nearest-even,1,9,0.25,300 formula,-2,nearest-even,2,9,0.27,100 baseline,0,nearest-even,1,9,0.5,2 baseline,0,nearest-even,2,9,0.5,2 \
        formula,-1,nearest-even,1,,,
    do echo "m,d,16,400,0.1,64,$row"; done
} > "$work/results.csv"
{
    echo model,dataset,batch,steps,rate,chunk,widths,bits_off,adder,seed,step,loss
    for end in baseline,0,nearest-even,1,1 baseline,0,nearest-even,2,2 formula,-2,nearest-even,1,3 formula,-2,nearest-even,2,5; do
        for step in 40 80 120 160 200 240 280; do echo "m,d,16,400,0.1,64,${end%,*},$step,7"; done
        for step in 320 360 400; do echo "m,d,16,400,0.1,64,${end%,*},$step,${end##*,}"; done
    done
} > "$work/curves.csv"
jq -nr -L "$experiments" --rawfile results "$work/results.csv" --rawfile curves "$work/curves.csv" -f "$experiments/accumulators/losses.jq" > "$work/table" ||
    fail "accumulators/losses.jq"
holds '| nearest-even | FP(8,23) | 2 | 1.50 ± 0.71 | 0.00 ± 0.00 | 2.00 ± 0.00 | 50.0 ± 0.0 |'
holds '| nearest-even | formula, PP = −1 | 1, 1 diverged |  |  |  |  |'
holds '| nearest-even | formula, PP = −2 | 2 | 4.00 ± 1.41 | 2.50 ± 0.71 | 200 | 26.0 ± 1.4 |'
drawn accumulators

# Off by 0.05 and by 0.02, both within 0.05 of 1, and by 0.1 where more is lost.
cat > "$work/retention.csv" << 'END'
addends,product_bits,length,trials,adder,bits,vrr,interval,derived_vrr,formula_vrr
products,5,64,1000,nearest-even,6,1.01,0.004,0.96,0.5
products,5,64,1000,nearest-even,7,1,0.002,0.98,0.99
products,5,64,1000,nearest-even,4,0.5,0.01,0.6,
END
jq -Rsr -L "$experiments" -f "$experiments/accumulators/retention.jq" "$work/retention.csv" > "$work/table" || fail "accumulators/retention.jq"
holds '| nearest-even | 3 widths | ± 0.010 | 0.100 | 4 bits, 64 products of 5 | 0.050 | 0.510 |'

# Two seeds of fp32 (80 and 82 %), of op and of demotion, one that diverged. Pooled deviation of a run: √((2 + 2 + 8)/3) = 2 points, so means of two
# runs each are alike within 2 · 2 · √(1/2 + 1/2) = 4: demotion at r=1 (77.0 %) keeps to op's 80.5 %, and saves 6 MiB against 2.
header=model,width,rate,planner,ratio,order,promote_at,seed,epochs,options,diverged,test_accuracy,training_loss,ratio_low,ratio_mean,counted_bytes
header=$header,counted_high_bytes,counted_low_bytes,arena_bytes,arena_high_bytes,arena_low_bytes,arena_last_bytes,promotions,skipped_steps,steps
mib() { # CELL SEED DIVERGED ACCURACY RATIO COUNTED ARENA LAST: bytes in MiB, of 16 counted and 8 allocated all high
    echo "m,0.25,0.1,$1,$2,3,,$3,$4,2,$5,$5,$(($6 * 1048576)),16777216,8388608,$(($7 * 1048576)),8388608,2097152,$(($8 * 1048576)),1,0,9"
}
{
    echo "$header"
    for seed in 1 2; do
        echo "m,0.25,0.1,fp32,,,0,$seed,3,,false,0.8$((seed * 2 - 2)),2,,,,,,9437184,,,9437184,0,0,9"
        mib op,,,0 $seed false 0.$((seed + 794 + seed / 2 * 19)) 0.2 14 7 7
        mib demote,1,decreasing,0.01 $seed false 0.$((seed * 4 + 71)) 1 10 4 5
    done
    mib uniform-fp,,,0 1 true "" 1 8 4 4
} > "$work/results.csv"
echo 'model,width,rate,planner,ratio,order,promote_at,seed,epoch,tensor,format,overflow_ratio,worst_overflow_ratio
m,0.25,0.1,uniform-fp,,,0,1,1,stem,fp(4;3;4),0.02,0.5
m,0.25,0.1,uniform-fp,,,0,1,2,stem,fp(4;3;4),0.03,0.4' > "$work/overflows.csv"
echo 'model,width,rate,planner,ratio,order,promote_at,seed,epoch,training_loss,test_accuracy,promotions
m,0.25,0.1,fp32,,,0,1,1,2,0.3,0
m,0.25,0.1,fp32,,,0,1,2,1.5,0.4,0
m,0.25,0.1,uniform-fp,,,0,1,1,2,0.1,0' > "$work/curves.csv"
jq -Rsr -L "$experiments" -f "$experiments/fp-assignment/table.jq" "$work/results.csv" > "$work/table" || fail "fp-assignment/table.jq"
holds 'pooled over the cells of all models trained so: 2.00 points'
holds '| demote r=1 | 2 | 77.00 ± 2.83 | -4.00 | 1.000 | 1.000 | 10.0 | 6.0 | 5.0 | 3.0 | 1.0 |'
holds '| uniform-fp | 1 | 1 diverged | - |'
holds 'saves 6.0 MiB counted against 2.0 MiB by `op`: **3.00 times** as much; allocated 3.0 against 1.0 MiB: 3.00 times.'
choose() { sh "$experiments/fp-assignment/choose-r.sh" m 0.25 "$1" 0.1 "$work/results.csv" > "$work/table" 2>&1; }
choose 4.5 || fail "choose-r finds nothing"
holds 'r = 1: accuracy 4.00 points below fp32 (2 seeds), 6.0 MiB counted and 3.0 MiB allocated saved'
choose 3 && fail "choose-r takes a ratio that loses too much"
drawn fp-assignment

# Along a direction: 4, 2, 1, 2, 6. A half of the way out both neighbours are 1 above the middle, at its end 4 on average; the points between are
# off the middle of their neighbours by 1/2, 1 and 3/2.
{
    echo variant,norm,recipe,seed,direction,alpha,loss,accuracy
    for point in -1,4 -0.5,2 0,1 0.5,2 1,6; do echo "g4,l1bnq,int4:shift4,1,1,$point,0.5"; done
    for point in -1, -0.5,2 0,1 0.5,2 1,6; do echo "fp32,l2bn,fp32,1,1,$point,0.5"; done
} > "$work/landscape.csv"
jq -Rsr -L "$experiments" -f "$experiments/shiftquant/landscape.jq" "$work/landscape.csv" > "$work/table" || fail "shiftquant/landscape.jq"
holds '| g4 | int4:shift4 | l1bnq | 1.000 | 0.000 | 1.000 | 1.000 | 4.000 | 1.0801 |'
holds '| fp32 | fp32 | l2bn | 1.000 | 0.000 | 1.000 | 1.000 | - | 1.2748 |'
drawn shiftquant landscape
{
    echo variant,norm,recipe,seed,step,gap,statistics_gap,worst_gap,worst
    for step in 10 20; do echo "g4,l1bnq,int4:shift4,1,$step,0.01,0.001,0.02,stem.norm"; done
} > "$work/gap.csv"
drawn shiftquant gap

# fp32 50 and 52 %, four bits 48 and 49 %: 2 and 3 points below, their standard error 0.5; a run that diverged counts as one. Rows in another order
# than they came in. Of demotion 10 of 16 MiB counted, 4 of 8 allocated.
{
    echo set,norm,format,recipe,seed,steps,diverged,training_loss,test_loss,test_accuracy,test_perplexity
    for row in W4A4G4,int4:shift4,1,9,false,2,2,0.48, W4A4G4,int4:shift4,2,9,false,2,2,0.49, fp32,fp32,1,9,false,1,1,0.5, fp32,fp32,2,9,false,1,1,0.52, \
        int8,int8:tensor,1,3,true,,,,
    do echo "cifar10-9,ln,$row"; done
} > "$work/formats.csv"
{
    echo planner,ratio,seed,steps,diverged,test_accuracy,training_loss,ratio_low,counted_bytes,counted_high_bytes,arena_bytes,arena_high_bytes,promotions
    echo "demote,1,1,9,false,0.8,1,1,10485760,16777216,4194304,8388608,2"
} > "$work/demote.csv"
jq -nr -L "$experiments" --rawfile formats "$work/formats.csv" --rawfile demote "$work/demote.csv" -f "$experiments/transformers/table.jq" > "$work/table" ||
    fail "transformers/table.jq"
holds '## cifar10-9, 9 steps'
holds '| fp32 | fp32 | ln | 2 | 51.00 ± 1.41 |  | 1.000 ± 0.000 |  |'
holds '| W4A4G4 | int4:shift4 | ln | 2 | 48.50 ± 0.71 | -2.50 ± 0.50 | 2.000 ± 0.000 |  |'
holds '| int8 | int8:tensor | ln | 1 |  |  |  | 1 diverged |'
holds '| demote r=1 | 1 | 80.00 | 1.000 | 10.0 | 0.625 | 4.0 | 0.500 | 2.0 |  |'
drawn transformers

# Two seeds, one of which a variant lacks: differences are of the seeds that both have. A run that failed says why.
mkdir "$work/rows"
few_bits() { # VARIANT RECIPE ENDS SEED ACCURACY LOSS
    jq -nc --arg variant "$1" --arg recipe "$2" --arg ends "$3" --arg seed "$4" --argjson accuracy "$5" --argjson loss "$6" '{variant: $variant,
        recipe: $recipe, ends: $ends, shortcuts: $recipe, norm: "l2bn", rate: "0.1", decay: "0.0005", seed: $seed, epochs: "45",
        training_loss: $loss, test_accuracy: $accuracy, test_loss: 1, planned_accuracy: ($accuracy - 0.01), planned_loss: 1, recalibrated_accuracy: $accuracy, iteration_us: 5000,
        seconds: 60, steps: 7000}' > "$work/rows/$1-$4.row"
}
few_bits fp32 fp32 fp32 1 0.8 0.5
few_bits fp32 fp32 fp32 2 0.84 0.4
few_bits ends int4:shift4:mse/log4 int8:tensor 2 0.83 0.6
echo '{"variant": "base", "recipe": "int4:shift4", "ends": "int4:shift4", "shortcuts": "int4:shift4", "norm": "l2bn", "rate": "0.05", "decay": "0.0005",
    "seed": "1", "epochs": "45", "failure": "exit code 4: no"}' > "$work/rows/base-1.row"
OUT=$work/rows EXPERIMENT_RESULTS=$work QSYNC=$QS_BUILD/qsync sh "$experiments/few-bits/collect.sh" || fail "few-bits/collect.sh"
cp "$work/table.md" "$work/table"
holds '| fp32 | fp32 |  | 2 | 82.00 ± 2.83 |  | 81.00 ± 2.83 | 82.00 | 0.450 ± 0.071 |  | 5.0 |'
holds '| ends | int4:shift4:mse/log4 | ends int8:tensor | 1 | 83.00 | -1.00 | 82.00 | 83.00 | 0.600 | 0.200 | 5.0 |'
holds '| base | int4:shift4 | rate 0.05, exit code 4: no | 0 |  |  |  |  |  |  |  |'

# Means over two seeds, the best of a column in bold; a comma that the file cannot have comes back.
{
    echo model,dataset,batch,seed,warm_up,indicator,convention,over,spearman,seeds
    for row in 1,20,qsync,flat,pooled,0.5 2,20,qsync,flat,pooled,0.7 1,20,random,,pooled,0.25; do echo "vit:tiny+patch=8,d,16,$row,16"; done
} > "$work/results.csv"
jq -Rsr -L "$experiments" -f "$experiments/indicator/table.jq" "$work/results.csv" > "$work/table" || fail "indicator/table.jq"
holds '| indicator and convention | vit:tiny,patch=8 |'
holds '| qsync flat | **0.60** |'
holds '| random | 0.25 |'

if command -v shellcheck > /dev/null; then
    shellcheck -e SC1091,SC2154 "$experiments"/common.sh "$experiments"/*/*.sh || fail "shellcheck"
fi
[ $failures -eq 0 ]
