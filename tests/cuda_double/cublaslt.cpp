// SPDX-License-Identifier: Apache-2.0
/* A double of libcublasLt.so.13: the functions and attributes that cublaslt.h of the device names. Calls are checked against the rules of
 * capability 9.0, and computed by loops when the driver's double comes to them. What a GPU's library refuses with a status is refused so;
 * what it would not notice, or what nobody here uses, ends the process.
 *
 * Three algorithms are offered: one without workspace, one that cuts the inner dimension in parts which the workspace keeps, and one more
 * without, so that what is chosen among them can be tested. */
#include "double.h"
#include "numbers.h"

#include <cublasLt.h>
#include <cinttypes>
#include <set>
#include <vector>

#define API extern "C" QS_DOUBLE_API

/* ---- Objects ---------------------------------------------------------------------------------------------------------------------- */

struct layout {
    cudaDataType type;
    int64_t rows, columns, next, stride;
    int32_t batch;
};
struct product {
    cublasComputeType_t compute;
    cudaDataType_t scale;
    cublasOperation_t turn[2];
    cublasLtEpilogue_t epilogue;
    const void *bias;
    int32_t multiprocessors;
};
struct preference {
    uint64_t workspace;
    uint32_t schemes, alignment[4];
};

static std::set<const void *> live;

static void check_live(const char *function, const void *object) {
    if (!live.count(object)) qs_shim_fail("%s: %p is no object of the library", function, object);
}

template <typename T> static T read(const char *function, int attribute, const void *value, size_t bytes) {
    T out;
    if (!value || bytes != sizeof out) qs_shim_fail("%s: attribute %d takes %zu bytes, not %zu", function, attribute, sizeof out, bytes);
    memcpy(&out, value, sizeof out);
    return out;
}

static number_kind kind_of(const char *function, cudaDataType type) {
    switch (type) {
    case CUDA_R_32F:
        return NUMBER_FP32;
    case CUDA_R_16BF:
        return NUMBER_BF16;
    case CUDA_R_16F:
        return NUMBER_FP16;
    case CUDA_R_8F_E4M3:
        return NUMBER_E4M3;
    case CUDA_R_8F_E5M2:
        return NUMBER_E5M2;
    case CUDA_R_8I:
        return NUMBER_INT8;
    case CUDA_R_32I:
        return NUMBER_INT32;
    default:
        qs_shim_fail("%s: data type %d", function, (int)type);
    }
}

API cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    qs_double_check_current("cublasLtCreate");
    *handle = reinterpret_cast<cublasLtHandle_t>(new int);
    live.insert(*handle);
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    check_live("cublasLtDestroy", handle);
    live.erase(handle);
    delete reinterpret_cast<int *>(handle);
    return CUBLAS_STATUS_SUCCESS;
}

API size_t cublasLtGetVersion(void) {
    return CUBLAS_VERSION;
}

API const char *cublasLtGetStatusString(cublasStatus_t status) {
    return status == CUBLAS_STATUS_SUCCESS         ? "CUBLAS_STATUS_SUCCESS"
           : status == CUBLAS_STATUS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED"
           : status == CUBLAS_STATUS_INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE"
                                                   : "a status of the double";
}

API cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows, uint64_t columns,
                                              int64_t next) {
    kind_of("cublasLtMatrixLayoutCreate", type);
    if (rows == 0 || columns == 0 || next < (int64_t)rows) return CUBLAS_STATUS_INVALID_VALUE;
    *out = reinterpret_cast<cublasLtMatrixLayout_t>(new layout{type, (int64_t)rows, (int64_t)columns, next, 0, 1});
    live.insert(*out);
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t object, cublasLtMatrixLayoutAttribute_t attribute,
                                                    const void *value, size_t bytes) {
    static const char function[] = "cublasLtMatrixLayoutSetAttribute";
    check_live(function, object);
    layout *to = reinterpret_cast<layout *>(object);
    if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
        to->batch = read<int32_t>(function, attribute, value, bytes);
    else if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
        to->stride = read<int64_t>(function, attribute, value, bytes);
    else
        qs_shim_fail("%s: attribute %d is not known to the double", function, (int)attribute);
    return to->batch >= 1 && to->stride >= 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

API cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t object) {
    check_live("cublasLtMatrixLayoutDestroy", object);
    live.erase(object);
    delete reinterpret_cast<layout *>(object);
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute, cudaDataType_t scale) {
    *out = reinterpret_cast<cublasLtMatmulDesc_t>(
        new product{compute, scale, {CUBLAS_OP_N, CUBLAS_OP_N}, CUBLASLT_EPILOGUE_DEFAULT, nullptr, 0});
    live.insert(*out);
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t object, cublasLtMatmulDescAttributes_t attribute, const void *value,
                                                  size_t bytes) {
    static const char function[] = "cublasLtMatmulDescSetAttribute";
    check_live(function, object);
    product *to = reinterpret_cast<product *>(object);
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
    case CUBLASLT_MATMUL_DESC_TRANSB: {
        const int32_t turn = read<int32_t>(function, attribute, value, bytes);
        if (turn != CUBLAS_OP_N && turn != CUBLAS_OP_T) return CUBLAS_STATUS_INVALID_VALUE;
        to->turn[attribute == CUBLASLT_MATMUL_DESC_TRANSB] = (cublasOperation_t)turn;
        break;
    }
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        to->epilogue = (cublasLtEpilogue_t)read<uint32_t>(function, attribute, value, bytes);
        if (to->epilogue != CUBLASLT_EPILOGUE_DEFAULT && to->epilogue != CUBLASLT_EPILOGUE_BIAS && to->epilogue != CUBLASLT_EPILOGUE_BGRADB)
            qs_shim_fail("%s: epilogue %d is not known to the double", function, (int)to->epilogue);
        break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        to->bias = read<const void *>(function, attribute, value, bytes);
        break;
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
        to->multiprocessors = read<int32_t>(function, attribute, value, bytes);
        if (to->multiprocessors < 0 || to->multiprocessors > 132) return CUBLAS_STATUS_INVALID_VALUE;
        break;
    default:
        qs_shim_fail("%s: attribute %d is not known to the double", function, (int)attribute);
    }
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t object) {
    check_live("cublasLtMatmulDescDestroy", object);
    live.erase(object);
    delete reinterpret_cast<product *>(object);
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out) {
    *out = reinterpret_cast<cublasLtMatmulPreference_t>(new preference{0, CUBLASLT_REDUCTION_SCHEME_MASK, {256, 256, 256, 256}});
    live.insert(*out);
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t object, cublasLtMatmulPreferenceAttributes_t attribute,
                                                        const void *value, size_t bytes) {
    static const char function[] = "cublasLtMatmulPreferenceSetAttribute";
    check_live(function, object);
    preference *to = reinterpret_cast<preference *>(object);
    switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        to->workspace = read<uint64_t>(function, attribute, value, bytes);
        break;
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        to->schemes = read<uint32_t>(function, attribute, value, bytes);
        break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: {
        const uint32_t alignment = read<uint32_t>(function, attribute, value, bytes);
        if (alignment == 0 || alignment & (alignment - 1)) return CUBLAS_STATUS_INVALID_VALUE;
        to->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES] = alignment;
        break;
    }
    default:
        qs_shim_fail("%s: attribute %d is not known to the double", function, (int)attribute);
    }
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t object) {
    check_live("cublasLtMatmulPreferenceDestroy", object);
    live.erase(object);
    delete reinterpret_cast<preference *>(object);
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- What there is -------------------------------------------------------------------------------------------------------------- */

/* A product as a call means it. */
struct problem {
    product of;
    layout a, b, c, d;
    int64_t m, n, k;
};

static problem problem_of(const char *function, cublasLtHandle_t handle, cublasLtMatmulDesc_t of, cublasLtMatrixLayout_t a,
                          cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d) {
    for (const void *object : {(const void *)handle, (const void *)of, (const void *)a, (const void *)b, (const void *)c, (const void *)d})
        check_live(function, object);
    problem out = {*reinterpret_cast<product *>(of),
                   *reinterpret_cast<layout *>(a),
                   *reinterpret_cast<layout *>(b),
                   *reinterpret_cast<layout *>(c),
                   *reinterpret_cast<layout *>(d),
                   0,
                   0,
                   0};
    out.m = out.d.rows;
    out.n = out.d.columns;
    out.k = out.of.turn[0] == CUBLAS_OP_T ? out.a.rows : out.a.columns;
    return out;
}

static bool same_extents(const problem &p) {
    const bool turned_a = p.of.turn[0] == CUBLAS_OP_T, turned_b = p.of.turn[1] == CUBLAS_OP_T;
    const bool batches = p.a.batch == p.d.batch && p.b.batch == p.d.batch && p.c.batch == p.d.batch;
    /* Results of a batch lie one behind the other, or side by side in the columns. */
    const bool apart =
        p.d.batch == 1 || p.d.stride >= p.d.next * (p.n - 1) + p.m || (p.d.stride >= p.m && (p.d.batch - 1) * p.d.stride + p.m <= p.d.next);
    return (turned_a ? p.a.columns : p.a.rows) == p.m && (turned_b ? p.b.columns : p.b.rows) == p.k &&
           (turned_b ? p.b.rows : p.b.columns) == p.n && p.c.rows == p.m && p.c.columns == p.n && batches && apart;
}

static bool wide(const layout &matrix, uint32_t alignment, int bytes) {
    const int each = number_bytes(kind_of("layout", matrix.type));
    return alignment % (uint32_t)bytes == 0 && matrix.next * each % bytes == 0 && matrix.stride * each % bytes == 0;
}

/* NULL, or why the library has nothing for it. From its manual, of cublasLtMatmul(), for capabilities up to 9.0. */
static const char *refusal(const problem &p, const uint32_t alignment[4]) {
    const cudaDataType a = p.a.type, b = p.b.type, c = p.c.type, d = p.d.type;
    const bool transposed_plain = p.of.turn[0] == CUBLAS_OP_T && p.of.turn[1] == CUBLAS_OP_N;
    const bool short_a = a == CUDA_R_8F_E4M3 || a == CUDA_R_8F_E5M2, short_b = b == CUDA_R_8F_E4M3 || b == CUDA_R_8F_E5M2;
    if (!same_extents(p)) return "extents do not fit";
    if (a == CUDA_R_8I || b == CUDA_R_8I) {
        if (a != b || c != CUDA_R_32I || d != CUDA_R_32I || p.of.compute != CUBLAS_COMPUTE_32I || p.of.scale != CUDA_R_32I)
            return "int8 goes into int32 sums";
        if (!transposed_plain) return "int8 wants transposed x plain";
        if (p.of.epilogue != CUBLASLT_EPILOGUE_DEFAULT) return "int32 results have no epilogue";
        if (p.m % 4 || p.k % 4 || !wide(p.a, alignment[0], 4) || !wide(p.b, alignment[1], 4) || !wide(p.d, alignment[3], 4) ||
            p.a.next % 4 || p.b.next % 4 || p.d.next % 4)
            return "int8 wants multiples of 4";
        return nullptr;
    }
    const bool short_factors = p.of.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && p.a.type == CUDA_R_32F;
    if ((p.of.compute != CUBLAS_COMPUTE_32F && !short_factors) || p.of.scale != CUDA_R_32F) return "sums other than fp32";
    if (qs_double_capability() < 80 && (a == CUDA_R_16BF || b == CUDA_R_16BF || short_factors)) return "bf16 and tf32 want capability 8.0";
    if (qs_double_capability() < 89 && (short_a || short_b)) return "formats of 8 bits want capability 8.9";
    if (short_a || short_b) {
        if (!short_a || !short_b || (a == CUDA_R_8F_E5M2 && b == CUDA_R_8F_E5M2)) return "e5m2 is multiplied with e4m3 alone";
        if (!transposed_plain) return "formats of 8 bits want transposed x plain";
        const bool plain = (d == CUDA_R_32F || d == CUDA_R_16BF || d == CUDA_R_16F) && c == d;
        const bool again = (d == CUDA_R_8F_E4M3 || d == CUDA_R_8F_E5M2) && (c == CUDA_R_16BF || c == CUDA_R_16F);
        if (!plain && !again) return "results of these types";
        if (p.of.epilogue == CUBLASLT_EPILOGUE_BGRADB) return "no gradients of a bias";
        if (p.of.epilogue == CUBLASLT_EPILOGUE_BIAS && d == CUDA_R_32F) return "a bias of fp32";
        if (!wide(p.a, alignment[0], 16) || !wide(p.b, alignment[1], 16) || !wide(p.c, alignment[2], 16) || !wide(p.d, alignment[3], 16))
            return "formats of 8 bits want multiples of 16 bytes";
        return nullptr;
    }
    if (a != b || c != d) return "two types of factors, or of results";
    if (a == CUDA_R_32F ? d != CUDA_R_32F : d != a && d != CUDA_R_32F) return "results of these types";
    for (int i = 0; i < 4; i++) {
        const layout *of[] = {&p.a, &p.b, &p.c, &p.d};
        if (!wide(*of[i], alignment[i], number_bytes(kind_of("layout", of[i]->type)))) return "less than an element's alignment";
    }
    return nullptr;
}

/* What an algorithm says of itself: 64 bytes of the program's. */
struct algorithm {
    uint64_t mark;
    int32_t number, parts; /* of the inner dimension */
    uint32_t alignment[4];
    uint64_t workspace, hash; /* of what it is for */
};
static_assert(sizeof(algorithm) <= sizeof(cublasLtMatmulAlgo_t), "an algorithm");
enum : uint64_t { MARK = 0x716c74616c676fULL };

static uint64_t hash_of(const problem &p) {
    uint64_t hash = 0xcbf29ce484222325ULL;
    const layout *of[] = {&p.a, &p.b, &p.c, &p.d};
    const auto add = [&](int64_t value) { hash = (hash ^ (uint64_t)value) * 0x100000001b3ULL; };
    for (const layout *one : of)
        for (int64_t value : {(int64_t)one->type, one->rows, one->columns, one->next, one->stride, (int64_t)one->batch})
            add(value);
    for (int64_t value : {(int64_t)p.of.compute, (int64_t)p.of.turn[0], (int64_t)p.of.turn[1], (int64_t)p.of.epilogue})
        add(value);
    return hash;
}

API cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t of, cublasLtMatrixLayout_t a,
                                                  cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                  cublasLtMatmulPreference_t wanted, int most, cublasLtMatmulHeuristicResult_t *result,
                                                  int *count) {
    static const char function[] = "cublasLtMatmulAlgoGetHeuristic";
    const problem p = problem_of(function, handle, of, a, b, c, d);
    check_live(function, wanted);
    const preference &limits = *reinterpret_cast<preference *>(wanted);
    qs_double_check_multiprocessors(function, p.of.multiprocessors);
    *count = 0;
    if (most < 1) return CUBLAS_STATUS_INVALID_VALUE;
    if (p.of.epilogue != CUBLASLT_EPILOGUE_DEFAULT && !p.of.bias) return CUBLAS_STATUS_INVALID_VALUE;
    if (refusal(p, limits.alignment)) return CUBLAS_STATUS_NOT_SUPPORTED;
    for (int number = 0; number < 3 && *count < most; number++) {
        const int parts = number == 1 ? 3 : 1;
        algorithm made = {MARK, number, parts, {}, parts > 1 ? (uint64_t)(parts * p.m * p.n * p.d.batch * 4) : 0, hash_of(p)};
        memcpy(made.alignment, limits.alignment, sizeof made.alignment);
        if (parts > 1 && (!(limits.schemes & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) || p.k < parts)) continue;
        if (made.workspace > limits.workspace) continue;
        cublasLtMatmulHeuristicResult_t *to = &result[(*count)++];
        memset(to, 0, sizeof *to);
        memcpy(&to->algo, &made, sizeof made);
        to->workspaceSize = made.workspace;
        to->state = CUBLAS_STATUS_SUCCESS;
        to->wavesCount = 1;
    }
    return CUBLAS_STATUS_SUCCESS;
}

static algorithm algorithm_of(const char *function, const cublasLtMatmulAlgo_t *from) {
    algorithm out;
    if (!from) qs_shim_fail("%s: no algorithm is named", function);
    memcpy(&out, from, sizeof out);
    if (out.mark != MARK) qs_shim_fail("%s: no algorithm of the heuristic", function);
    return out;
}

API cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *from, cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                        void *value, size_t bytes, size_t *written) {
    static const char function[] = "cublasLtMatmulAlgoConfigGetAttribute";
    const algorithm of = algorithm_of(function, from);
    uint32_t word = 0;
    size_t wide = 4;
    switch (attribute) {
    case CUBLASLT_ALGO_CONFIG_ID:
        word = 66;
        break;
    case CUBLASLT_ALGO_CONFIG_TILE_ID:
        word = of.number == 2 ? 18 : 20;
        break;
    case CUBLASLT_ALGO_CONFIG_SPLITK_NUM:
        word = (uint32_t)of.parts;
        break;
    case CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME:
        word = of.parts > 1 ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_NONE;
        break;
    case CUBLASLT_ALGO_CONFIG_STAGES_ID:
    case CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING:
    case CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION:
        break;
    case CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID:
    case CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID:
        wide = 2;
        break;
    default:
        qs_shim_fail("%s: attribute %d is not known to the double", function, (int)attribute);
    }
    if (bytes != wide) qs_shim_fail("%s: attribute %d has %zu bytes, not %zu", function, (int)attribute, wide, bytes);
    memcpy(value, &word, wide);
    if (written) *written = wide;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- Products ------------------------------------------------------------------------------------------------------------------- */

struct call {
    problem p;
    algorithm by;
    float alpha, beta;
    const char *a, *b, *c;
    char *d, *workspace;
};

/* Rows of `rows` × `inner` values that a factor's rows (columns: of the right one) have, one behind the other. */
static std::vector<float> gather(const layout &matrix, const char *at, int64_t batch, bool by_column, int64_t rows, int64_t inner,
                                 bool shortened) {
    std::vector<float> out((size_t)(rows * inner));
    const number_kind kind = kind_of("cublasLtMatmul", matrix.type);
    for (int64_t row = 0; row < rows; row++)
        for (int64_t i = 0; i < inner; i++)
            out[(size_t)(row * inner + i)] =
                number_load(kind, at, batch * matrix.stride + (by_column ? row * matrix.next + i : i * matrix.next + row));
    for (float &x : out)
        if (shortened) x = number_tf32(x);
    return out;
}

static float dot(const float *a, const float *b, int64_t begin, int64_t end) {
    enum { LANES = 8 };
    float sum[LANES] = {0};
    for (int64_t i = begin; i < end; i++)
        sum[(i - begin) % LANES] += a[i] * b[i];
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

static int32_t whole_dot(const float *a, const float *b, int64_t inner) {
    int64_t sum = 0;
    for (int64_t i = 0; i < inner; i++)
        sum += (int64_t)a[i] * (int64_t)b[i];
    return (int32_t)sum;
}

static void whole_result(const call &one, int64_t at_c, int64_t at_d, int32_t sum) {
    int32_t before = 0, out;
    if (one.beta != 0) memcpy(&before, one.c + at_c * 4, 4);
    out = (int32_t)((int64_t)one.alpha * sum + (int64_t)one.beta * before);
    memcpy(one.d + at_d * 4, &out, 4);
}

static void compute(const call &one) {
    const problem &p = one.p;
    const number_kind result = kind_of("cublasLtMatmul", p.d.type);
    for (int64_t batch = 0; batch < p.d.batch; batch++) {
        const bool shortened = p.of.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
        const std::vector<float> left = gather(p.a, one.a, batch, p.of.turn[0] == CUBLAS_OP_T, p.m, p.k, shortened),
                                 right = gather(p.b, one.b, batch, p.of.turn[1] == CUBLAS_OP_N, p.n, p.k, shortened);
        for (int64_t column = 0; column < p.n; column++)
            for (int64_t row = 0; row < p.m; row++) {
                const float *a = &left[(size_t)(row * p.k)], *b = &right[(size_t)(column * p.k)];
                const int64_t at_c = batch * p.c.stride + column * p.c.next + row, at_d = batch * p.d.stride + column * p.d.next + row;
                if (result == NUMBER_INT32) {
                    whole_result(one, at_c, at_d, whole_dot(a, b, p.k));
                    continue;
                }
                float sum = 0;
                for (int part = 0; part < one.by.parts; part++)
                    sum += dot(a, b, p.k * part / one.by.parts, p.k * (part + 1) / one.by.parts);
                float value = one.alpha * sum;
                if (one.beta != 0) value += one.beta * number_load(result, one.c, at_c);
                if (p.of.epilogue == CUBLASLT_EPILOGUE_BIAS) value += number_load(result, p.of.bias, row);
                number_store(result, one.d, at_d, value);
            }
        for (int64_t column = 0; p.of.epilogue == CUBLASLT_EPILOGUE_BGRADB && column < p.n; column++) {
            float sum = 0;
            for (int64_t i = 0; i < p.k; i++)
                sum += right[(size_t)(column * p.k + i)];
            number_store(result, const_cast<void *>(p.of.bias), column, sum);
        }
    }
}

static CUdeviceptr address(const void *at) {
    return (CUdeviceptr) reinterpret_cast<uintptr_t>(at);
}

static size_t extent_bytes(const layout &matrix) {
    const int64_t last = (matrix.batch - 1) * matrix.stride + (matrix.columns - 1) * matrix.next + matrix.rows;
    return (size_t)last * (size_t)number_bytes(kind_of("cublasLtMatmul", matrix.type));
}

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
    return address(a) < address(b) + b_bytes && address(b) < address(a) + a_bytes;
}

/* Places, and what lies there: aligned as the heuristic was told, memory of the device, and results apart from what is read. */
static void check_places(const char *function, const call &one) {
    const layout *matrix[] = {&one.p.a, &one.p.b, &one.p.c, &one.p.d};
    const char *at[] = {one.a, one.b, one.c, one.d};
    for (int i = 0; i < 4; i++) {
        if (!at[i]) qs_shim_fail("%s: matrix %c is nowhere", function, "ABCD"[i]);
        if (address(at[i]) % one.by.alignment[i])
            qs_shim_fail("%s: matrix %c lies at %p, and was to lie at multiples of %u", function, "ABCD"[i], at[i], one.by.alignment[i]);
        qs_double_check_memory(function, address(at[i]), extent_bytes(*matrix[i]));
    }
    for (int i = 0; i < 2; i++)
        if (overlap(at[i], extent_bytes(*matrix[i]), one.d, extent_bytes(one.p.d))) qs_shim_fail("%s: D lies over a factor", function);
    if (one.beta != 0 && one.c != one.d && overlap(one.c, extent_bytes(one.p.c), one.d, extent_bytes(one.p.d)))
        qs_shim_fail("%s: D lies over a part of C", function);
    if (one.c == one.d && (one.p.c.type != one.p.d.type || one.p.c.next != one.p.d.next || one.p.c.stride != one.p.d.stride))
        qs_shim_fail("%s: C in the place of D has another layout", function);
    if (one.p.of.epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
        const int64_t length = one.p.of.epilogue == CUBLASLT_EPILOGUE_BIAS ? one.p.m : one.p.n;
        qs_double_check_memory("the bias of a product", address(one.p.of.bias),
                               (size_t)length * (size_t)number_bytes(kind_of(function, one.p.d.type)));
    }
    if (one.by.workspace) {
        if (address(one.workspace) % 256) qs_shim_fail("%s: the workspace lies at %p", function, (const void *)one.workspace);
        qs_double_check_memory("the workspace of a product", address(one.workspace), one.by.workspace);
    }
}

static float scale_of(const char *function, const product &of, const void *value) {
    float real;
    int32_t whole;
    if (!value) qs_shim_fail("%s: no alpha, or no beta", function);
    memcpy(&real, value, sizeof real);
    memcpy(&whole, value, sizeof whole);
    if (of.scale == CUDA_R_32I && whole != 0 && whole != 1) qs_shim_fail("%s: integer sums are scaled by %" PRId32, function, whole);
    return of.scale == CUDA_R_32I ? (float)whole : real;
}

API cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t of, const void *alpha, const void *a,
                                  cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,
                                  const void *c, cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                                  const cublasLtMatmulAlgo_t *algo, void *workspace, size_t bytes, cudaStream_t stream) {
    static const char function[] = "cublasLtMatmul";
    call one = {problem_of(function, handle, of, a_layout, b_layout, c_layout, d_layout),
                algorithm_of(function, algo),
                0,
                0,
                static_cast<const char *>(a),
                static_cast<const char *>(b),
                static_cast<const char *>(c),
                static_cast<char *>(d),
                static_cast<char *>(workspace)};
    one.alpha = scale_of(function, one.p.of, alpha);
    one.beta = scale_of(function, one.p.of, beta);
    if (one.by.hash != hash_of(one.p)) qs_shim_fail("%s: the algorithm is one for another product", function);
    if (const char *reason = refusal(one.p, one.by.alignment)) qs_shim_fail("%s: %s", function, reason);
    if (bytes < one.by.workspace) qs_shim_fail("%s: %zu bytes of workspace, not %" PRIu64, function, bytes, one.by.workspace);
    if (one.p.of.epilogue == CUBLASLT_EPILOGUE_BGRADB && one.p.d.batch > 1) qs_shim_fail("%s: gradients of a bias in a batch", function);
    check_places(function, one);
    qs_double_put(reinterpret_cast<CUstream>(stream), function, [=] {
        check_places(function, one); /* as they are when it runs */
        if (one.by.workspace) memset(one.workspace, 0xee, one.by.workspace);
        compute(one);
    });
    return CUBLAS_STATUS_SUCCESS;
}
