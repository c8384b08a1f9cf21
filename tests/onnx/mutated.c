// SPDX-License-Identifier: Apache-2.0
// labels: medium
/* Small models with bytes changed, taken away and put in, 10^4 times by a fixed seed: each opens and folds, or is refused, without a crash,
 * in little time and memory. Run under sanitizers as well (presets asan, ubsan). */
#include "kit/kit.h"
#include "qsync/onnx.h"

#include <sys/resource.h>

#include "onnx/bytes.h"

enum { MUTATIONS = 10000 };

/* A model with most of what the reader and folding know: shapes that are computed, a branch, a function, lists, sparse and quantized
 * tensors, windows. */
static bytes seed_model(void) {
    const int64_t nothing = 0;
    bytes graph = graph_begin(), sparse = {0}, inner = {0}, other = {0}, function = {0}, version = {0};
    put_message(&graph, 5, integers_of("one", 1, (const int64_t[]){1}));
    put_message(&graph, 5, integers_of("zero", 1, (const int64_t[]){0}));
    put_message(&graph, 5, integers_of("pair", 2, (const int64_t[]){2, -1}));
    put_message(&graph, 5, floats_of("w", 4, (const float[]){1, 2, 3, 4}));
    put_message(&graph, 5, tensor_of("codes", QS_ONNX_INT8, 2, (const int64_t[]){2, 4}, "\1\2\3\4\5\6\7\x80", 8));
    put_message(&graph, 5, tensor_of("step", QS_ONNX_FLOAT, 0, NULL, "\0\0\0\x3f", 4));
    put_message(&graph, 5, tensor_of("yes", QS_ONNX_BOOL, 0, NULL, "\1", 1));
    put_message(&sparse, 1, floats_of("s", 2, (const float[]){5, 7}));
    put_message(&sparse, 2, integers_of("", 2, (const int64_t[]){0, 3}));
    put_int(&sparse, 3, 4);
    put_message(&graph, 15, sparse);
    put_message(&graph, 1, node_of("Shape", "x", "shape"));
    bytes gather = node_of("Gather", "shape,zero", "batch");
    put_message(&gather, 5, attribute_int("axis", 0));
    put_message(&graph, 1, gather);
    bytes concat = node_of("Concat", "batch,pair", "target");
    put_message(&concat, 5, attribute_int("axis", 0));
    put_message(&graph, 1, concat);
    put_message(&graph, 1, node_of("Reshape", "x,target", "r"));
    bytes transpose = node_of("Transpose", "r", "t");
    put_message(&transpose, 5, attribute_ints("perm", 3, (const int64_t[]){0, 2, 1}));
    put_message(&graph, 1, transpose);
    put_message(&graph, 1, node_of("Reshape", "t,shape", "flat"));
    put_message(&graph, 1, node_of("ConstantOfShape", "shape", "zeros"));
    put_message(&graph, 1, node_of("Sub", "zeros,s", "mask"));
    put_message(&graph, 1, node_of("DequantizeLinear", "codes,step", "matrix"));
    put_message(&graph, 1, node_of("Slice", "matrix,zero,one,zero", "row"));
    put_message(&graph, 1, node_of("Pad", "row,edges", "padded"));
    put_message(&graph, 5, integers_of("edges", 4, (const int64_t[]){0, 1, 0, 1}));
    put_message(&graph, 1, node_of("Slice", "padded,one,five,one", "cut"));
    put_message(&graph, 5, integers_of("five", 1, (const int64_t[]){5}));
    put_message(&graph, 1, node_of("Add", "mask,cut", "shift"));
    bytes sum = node_of("ReduceSum", "codes2,one", "sums");
    put_message(&sum, 5, attribute_int("keepdims", 0));
    put_message(&graph, 1, node_of("Tile", "cut,pair2", "codes2"));
    put_message(&graph, 5, integers_of("pair2", 2, (const int64_t[]){2, 3}));
    put_message(&graph, 1, sum);
    put_message(&graph, 1, node_of("TopK", "sums,one", "best,place"));
    put_message(&graph, 1, node_of("Range", "from,to,by", "range"));
    put_message(&graph, 5, tensor_of("from", QS_ONNX_INT64, 0, NULL, "\0\0\0\0\0\0\0\0", 8));
    put_message(&graph, 5, tensor_of("to", QS_ONNX_INT64, 0, NULL, "\4\0\0\0\0\0\0\0", 8));
    put_message(&graph, 5, tensor_of("by", QS_ONNX_INT64, 0, NULL, "\1\0\0\0\0\0\0\0", 8));
    bytes cast = node_of("Cast", "range", "reals");
    put_message(&cast, 5, attribute_int("to", QS_ONNX_FLOAT));
    put_message(&graph, 1, cast);
    put_message(&inner, 1, node_of("Mul", "flat,reals", "b"));
    put_message(&inner, 12, value_of("b", QS_ONNX_FLOAT, 0, &nothing));
    put_message(&other, 1, node_of("Identity", "flat", "c"));
    put_message(&other, 12, value_of("c", QS_ONNX_FLOAT, 0, &nothing));
    bytes choice = node_of("If", "yes", "chosen");
    put_message(&choice, 5, attribute_graph("then_branch", inner));
    put_message(&choice, 5, attribute_graph("else_branch", other));
    put_message(&graph, 1, choice);
    bytes call = node_of("Shifted", "chosen,shift", "called");
    put_text(&call, 7, "local");
    put_message(&graph, 1, call);
    put_message(&graph, 1, node_of("Expand", "best,shape", "wide"));
    put_message(&graph, 1, node_of("Add", "called,wide", "added"));
    put_message(&graph, 1, node_of("Mul", "added,w", "y"));
    put_text(&function, 1, "Shifted");
    put_text(&function, 4, "a");
    put_text(&function, 4, "b");
    put_text(&function, 5, "out");
    put_message(&function, 7, node_of("Add", "a,b", "out"));
    put_int(&version, 2, 13);
    put_message(&function, 9, version);
    put_text(&function, 10, "local");
    bytes model = model_of(graph, 8, 13);
    put_message(&model, 25, function);
    return model;
}

/* An image through windows. */
static bytes seed_images(void) {
    bytes graph = {0};
    const float weights[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    put_message(&graph, 11, value_of("x", QS_ONNX_FLOAT, 4, (const int64_t[]){-1, 2, 8, 8}));
    put_message(&graph, 12, value_of("y", QS_ONNX_FLOAT, 2, (const int64_t[]){-1, 8}));
    put_message(&graph, 5, tensor_of("w", QS_ONNX_FLOAT, 4, (const int64_t[]){1, 2, 2, 2}, weights, sizeof weights));
    bytes convolution = node_of("Conv", "x,w", "c");
    put_message(&convolution, 5, attribute_ints("pads", 4, (const int64_t[]){1, 1, 0, 0}));
    put_message(&graph, 1, convolution);
    bytes pool = node_of("MaxPool", "c", "p");
    put_message(&pool, 5, attribute_ints("kernel_shape", 2, (const int64_t[]){2, 2}));
    put_message(&pool, 5, attribute_ints("strides", 2, (const int64_t[]){2, 2}));
    put_message(&pool, 5, attribute_int("ceil_mode", 1));
    put_message(&graph, 1, pool);
    bytes resize = node_of("Resize", "p,,scales", "large");
    put_message(&graph, 5, floats_of("scales", 4, (const float[]){1, 1, 2, 2}));
    put_message(&graph, 1, resize);
    put_message(&graph, 1, node_of("GlobalAveragePool", "large", "g"));
    put_message(&graph, 1, node_of("Flatten", "g", "f"));
    bytes product = node_of("Gemm", "f,m,b", "y");
    put_message(&product, 5, attribute_int("transB", 1));
    put_message(&graph, 5, tensor_of("m", QS_ONNX_FLOAT, 2, (const int64_t[]){8, 1}, weights, sizeof weights));
    put_message(&graph, 5, floats_of("b", 8, weights));
    put_message(&graph, 1, product);
    return model_of(graph, 8, 13);
}

/* xorshift64: the mutations are the same everywhere. */
static uint64_t draw(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* One to four changes: a byte, a bit, a byte less or more, a byte that means much to the wire format. */
static void mutate(bytes *file, uint64_t *state) {
    static const unsigned char telling[] = {0, 1, 2, 7, 8, 127, 128, 255};
    const int changes = 1 + (int)(draw(state) % 4);
    for (int i = 0; i < changes && file->count > 8; i++) {
        const size_t at = (size_t)(draw(state) % file->count);
        const unsigned kind = (unsigned)(draw(state) % 5);
        if (kind == 0) file->data[at] = (unsigned char)draw(state);
        if (kind == 1) file->data[at] ^= (unsigned char)(1u << draw(state) % 8);
        if (kind == 2) file->data[at] = telling[draw(state) % sizeof telling];
        if (kind == 3) memmove(file->data + at, file->data + at + 1, --file->count - at);
        if (kind == 4) {
            const unsigned char byte = (unsigned char)draw(state);
            bytes_put(file, &byte, 1);
            memmove(file->data + at + 1, file->data + at, file->count - 1 - at);
            file->data[at] = byte;
        }
    }
}

static void survive(bytes seed, uint64_t random) {
    struct rusage before, behind;
    int opened = 0, folded = 0;
    double slowest = 0;
    getrusage(RUSAGE_SELF, &before);
    for (int i = 0; i < MUTATIONS; i++) {
        qs_onnx_model model;
        bytes file = {0};
        bytes_put(&file, seed.data, seed.count);
        mutate(&file, &random);
        unsigned char *exact = malloc(file.count); /* a sanitizer sees its end */
        assert_non_null(exact);
        memcpy(exact, file.data, file.count);
        const double start = qs_clock();
        if (qs_onnx_open_bytes("mutated", exact, file.count, &model) == QS_OK) {
            opened++;
            folded += qs_onnx_fold(&model, NULL) == QS_OK;
            qs_onnx_release(&model);
        } else
            assert_null(strchr(qs_message(), '\n'));
        const double taken = qs_clock() - start;
        slowest = taken > slowest ? taken : slowest;
        free(exact);
        free(file.data);
    }
    getrusage(RUSAGE_SELF, &behind);
    print_message("%d of %d open, %d fold, the slowest took %.3f s, %ld MiB\n", opened, MUTATIONS, folded, slowest,
                  (behind.ru_maxrss - before.ru_maxrss) >> 10);
    assert_true(opened > MUTATIONS / 20 && folded > MUTATIONS / 100); /* mutations reach what lies behind the reader */
    assert_true(slowest < 20 && behind.ru_maxrss - before.ru_maxrss < 3 << 20);
    free(seed.data);
}

TEST(the_seeds_fold) {
    bytes seeds[] = {seed_model(), seed_images()};
    for (int i = 0; i < 2; i++) {
        qs_onnx_model model;
        assert_ok(qs_onnx_open_bytes("seed", seeds[i].data, seeds[i].count, &model));
        assert_ok(qs_onnx_fold(&model, NULL));
        assert_int_equal(model.graph.nodes, i ? 6 : 16); /* "s", and what codes stand for, may learn: what is computed from them stays */
        qs_onnx_release(&model);
        free(seeds[i].data);
    }
}

TEST(a_model_of_everything_is_mutated) {
    survive(seed_model(), 22);
}

TEST(a_model_of_images_is_mutated) {
    survive(seed_images(), 2022);
}

TEST_MAIN(the_seeds_fold, a_model_of_everything_is_mutated, a_model_of_images_is_mutated)
