// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Blocks that are computed again leave the bits of weights, running statistics and optimiser state as they are: dropout, stochastic
 * rounding and attention draw what they drew, batch norm counts its batch once. A plan written by hand says which. */
#include "plan_support.h"
#include "recompute_support.h"

#define BERT "bert:layers=2,hidden=32,heads=2,inner=64,length=12,vocab=50,dropout=0.1"
#define GPT2 "gpt2:layers=2,hidden=32,heads=2,length=12,vocab=50,dropout=0.1"

static const char *const recipes[] = {"fp32", "bf16", "int8/bf16", "int8:tensor"};

static void model_compare(const char *model, const char *block) {
    for (size_t r = 0; r < COUNT_OF(recipes); r++)
        bits_compare(fast_backend(), "self", model, recipes[r], block, 4);
}

TEST(bert_with_dropout) {
    model_compare(BERT, "encoder.layer.0.intermediate.dense");
}
TEST(gpt2_with_tied_weights) {
    model_compare(GPT2, "h.0.ln_2");
}
TEST(resnet8_with_batch_norm) {
    model_compare("resnet8:width=0.5", "stage2.block0.conv1");
}
TEST(on_the_reference_device) {
    bits_compare("ref", "self", BERT, "int8/bf16", "encoder.layer.0.intermediate.dense", 2);
}

/* ---- Plans ---- */

static void plan_by_hand(const bench *here, const char *blocks, qs_plan *out) {
    char text[1024];
    snprintf(text, sizeof text, "{\"schema\":\"qsync/plan/2\",\"classes\":{\"%s\":{\"operators\":{\"fc\":\"bf16\"},\"recompute\":[%s]}}}",
             here->cluster.class_[0].name, blocks);
    assert_ok(qs_plan_parse(text, "hand", out));
}

static qs_status trained(const char *blocks, uint64_t *hash, int64_t *bytes) {
    bench here;
    qs_plan plan;
    qs_train_result result;
    bench_open(&here, fast_backend(), "self", "resnet8:width=0.5", 16);
    here.options.training_limit = 64;
    here.options.test_limit = 16;
    plan_by_hand(&here, blocks, &plan);
    here.options.plan = &plan;
    const qs_status status = qs_train(&here.options, here.device, here.comm, &result);
    if (status == QS_OK) {
        *hash = result.weights_hash;
        *bytes = result.reserved_bytes[0];
        result_release(&result);
    }
    qs_plan_release(&plan);
    bench_close(&here);
    return status;
}

TEST(plans_by_hand) {
    uint64_t kept, again;
    int64_t kept_bytes, again_bytes;
    assert_ok(trained("", &kept, &kept_bytes));
    assert_ok(trained("\"stem.conv\",\"stage1.block0.conv1\"", &again, &again_bytes));
    assert_true(kept == again);
    assert_true(again_bytes < kept_bytes);
    assert_refused(trained("\"stage1.block0.bn1\"", &again, &again_bytes), QS_MISMATCH, "stage1.block0.bn1");
}

/* What rounds in a block that is computed again counts once: records are the same, too. */
TEST(rounding_counts_once) {
    char *metrics[2];
    for (int again = 0; again < 2; again++) {
        bench here;
        qs_plan plan;
        qs_train_result result;
        char text[1024];
        bench_open(&here, fast_backend(), "self", "resnet8:width=0.5", 16);
        here.options.training_limit = 64;
        here.options.test_limit = 16;
        here.options.run_folder = here.folder;
        snprintf(text, sizeof text,
                 "{\"schema\":\"qsync/plan/2\",\"classes\":{\"%s\":{\"operators\":{},\"recompute\":[%s],\"tensors\":{"
                 "\"stage1.block0.conv1\":{\"value\":\"fp(3,2,0)\",\"saved\":\"fp(3,2,0)\"},"
                 "\"stage1.block0.bn1\":{\"value\":\"fp(3,2,0)\",\"saved\":\"fp(3,2,0)\"}}}}}",
                 here.cluster.class_[0].name, again ? "\"stage1.block0.conv1\"" : "");
        assert_ok(qs_plan_parse(text, "hand", &plan));
        here.options.plan = &plan;
        assert_ok(qs_train(&here.options, here.device, here.comm, &result));
        file_text(here.folder, "metrics.jsonl", &metrics[again]);
        result_release(&result);
        qs_plan_release(&plan);
        bench_close(&here);
    }
    assert_non_null(strstr(metrics[0], "underflow"));
    assert_string_equal(metrics[0], metrics[1]);
    free(metrics[0]);
    free(metrics[1]);
}

/* A gradient that overflows behind such a block is named as without: the block's values, and statistics that nobody reads, are not. */
TEST(culprits_are_the_same) {
    char *message[2];
    for (int again = 0; again < 2; again++) {
        bench here;
        qs_plan plan;
        qs_train_result result;
        char text[1024];
        bench_open(&here, fast_backend(), "self", "resnet8:width=0.5", 16);
        here.options.training_limit = 64;
        here.job.loss_scale = 65536;
        snprintf(text, sizeof text,
                 "{\"schema\":\"qsync/plan/2\",\"classes\":{\"%s\":{\"operators\":{},\"recompute\":[%s],"
                 "\"tensors\":{\"stem.conv\":{\"gradient\":\"fp(2,1,8):overflow=inf\"}}}}}",
                 here.cluster.class_[0].name, again ? "\"stage1.block0.conv1\",\"stage2.block0.conv1\"" : "");
        assert_ok(qs_plan_parse(text, "hand", &plan));
        here.options.plan = &plan;
        assert_refused(qs_train(&here.options, here.device, here.comm, &result), QS_NUMERIC,
                       "a gradient is not finite in step 1: operator stem.conv, tensor gradient of stem.conv is the first that is not");
        assert_ok(qs_format_text(&message[again], "%s", qs_message()));
        qs_plan_release(&plan);
        bench_close(&here);
    }
    assert_string_equal(message[0], message[1]);
    free(message[0]);
    free(message[1]);
}

/* The schedule that is run is the one that was hashed; another one is refused by its first step. */
TEST(hashes_hold) {
    bench here;
    qs_plan plan;
    qs_train_result result;
    bench_open(&here, fast_backend(), "self", "resnet8:width=0.5", 8);
    here.options.max_steps = 2;
    here.options.training_limit = 32;
    here.options.test_limit = -1;
    plan_fill(&here, "bf16", &plan);
    here.options.plan = &plan;
    assert_ok(qs_allocate(1, sizeof *plan.class_->recompute, &plan.class_->recompute));
    snprintf(plan.class_->recompute[0], QS_NAME, "stage2.block0.conv1");
    plan.class_->recomputes = 1;
    assert_refused(qs_train(&here.options, here.device, here.comm, &result), QS_MISMATCH, "lowering gives");
    qs_plan_release(&plan);
    bench_close(&here);
}

TEST_MAIN(bert_with_dropout, gpt2_with_tied_weights, resnet8_with_batch_norm, on_the_reference_device, plans_by_hand, rounding_counts_once,
          culprits_are_the_same, hashes_hold)
