// SPDX-License-Identifier: Apache-2.0
// labels: medium
// ranks: 2
/* Blocks computed again on two ranks: the same bits, while all-reduces of later buckets are under way. */
#include "recompute_support.h"

TEST(bits_of_two_ranks) {
    static const char *const recipes[] = {"fp32", "int8/bf16"};
    for (size_t r = 0; r < COUNT_OF(recipes); r++) {
        bits_compare(fast_backend(), NULL, "bert:layers=2,hidden=32,heads=2,inner=64,length=12,vocab=50,dropout=0.1", recipes[r],
                     "encoder.layer.0.intermediate.dense", 4);
        bits_compare(fast_backend(), NULL, "resnet8:width=0.5", recipes[r], "stage1.block0.conv1", 4);
    }
}

TEST_MAIN_RANKS(bits_of_two_ranks)
