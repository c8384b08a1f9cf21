#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# variances.csv as variance.svg: a row an adder, a column a step of training; operators along the axis.
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
draw variance.svg -Rs -f "$experiment/variance_picture.jq" "$EXPERIMENT_RESULTS/variances.csv"
