#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Widths that three known networks need, by the formula and derived for each adder, as table.md: ResNet-32 on CIFAR, ResNet-18 and AlexNet
# on ImageNet. Seconds.
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
: "${TABLE_BATCH:=256}" "${TABLE_CHUNK:=64}"
{
    echo "# Mantissa bits that accumulators need"
    echo
    echo "Written by \`table.sh\`: products of 5 mantissa bits (e5m2), batch $TABLE_BATCH. Per stage and GEMM the longest sum, and its widths (one after the"
    echo "other, in chunks of $TABLE_CHUNK) by the formula of variance retention, then by what is derived for align-truncate, nearest-even and toward-zero"
    echo "adders; of each the widest in the stage."
    for model in resnet32 resnet18 alexnet; do
        printf '\n## %s, %s\n\n| stage | GEMM | longest sum | formula | align-truncate | nearest-even | toward-zero |\n|---|---|---|---|---|---|---|\n' "$model" \
            "$("$QSYNC" inspect --json "$model" | jq -r '.nodes[0].shape | map(tostring) | .[1:] | join(" x ")')"
        for adder in align-truncate nearest-even toward-zero; do
            "$QSYNC" accum "$model" --batch "$TABLE_BATCH" --chunk "$TABLE_CHUNK" --adder "$adder" --json
        done | jq -rs -f "$experiment/table.jq"
    done
} | publish table.md
