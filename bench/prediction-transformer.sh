#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# bench/prediction.sh for transformers: an encoder of pre-trained size, a small one, a decoder as GPT-2 has it with fewer and narrower layers and 256
# words, a vision transformer; over random mixes of formats that no profile has seen, one rank and two. Batches are small, so that every checked plan
# still has its hundred steps: some fifteen minutes in all. The settings are those of bench/prediction.sh.
set -eu
cd "$(dirname "$0")/.."
: "${PREDICTION_MODELS:=minilm:2 bert/mini:8 gpt2/layers=4,hidden=384,heads=6,inner=1536,vocab=256:2 vit/tiny,patch=8:8}" \
    "${PREDICTION_LENGTH:=48}" "${PREDICTION_GROUPS:=native:6 two:4}" "${PREDICTION_ROUNDS:=1}" "${PREDICTION_LATER=fp32 mix0}" \
    "${PREDICTION_REPETITIONS:=14}" "${PREDICTION_CONTEXTS:=no}"
export PREDICTION_NAME=prediction-transformer PREDICTION_MODELS PREDICTION_LENGTH PREDICTION_GROUPS PREDICTION_ROUNDS PREDICTION_LATER \
    PREDICTION_REPETITIONS PREDICTION_CONTEXTS
exec sh bench/prediction.sh
