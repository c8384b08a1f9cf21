// SPDX-License-Identifier: Apache-2.0
/* cuBLASLt: the library, what it offers for products of a shape, and its calls. */
#include "cuda/cublaslt.h"

#include <stdlib.h>
#include <string.h>

static const char file[] = "libcublasLt.so.13";

struct qs__cublaslt {
    const qs__lt_functions *call;
    cublasLtHandle_t handle;
    cublasLtMatmulPreference_t preference;
    int fill; /* multiprocessors that kernels may fill; 0: all */
    int plans, room;
    qs__lt_plan **plan; /* (plans) ordered by hash */
};

/* ---- The library --------------------------------------------------------------------------------------------------------------- */

static qs_status functions_find(const qs__lt_functions **out) {
    static const char *const symbols[] = {
#define QS__LT_SYMBOL(member, result, symbol, parameters) #symbol,
        QS__LT_LIST(QS__LT_SYMBOL)
#undef QS__LT_SYMBOL
    };
    static qs__lt_functions functions;
    static bool found;
    *out = &functions;
    if (found) return QS_OK;
    QS_TRY(qs__functions_find(file, sizeof symbols / sizeof symbols[0], symbols, &functions));
    found = true;
    return QS_OK;
}

static qs_status status_check(const qs__lt_functions *call, cublasStatus_t status, const char *what) {
    if (status == CUBLAS_STATUS_SUCCESS) return QS_OK;
    return qs_fail(status == CUBLAS_STATUS_ALLOC_FAILED ? QS_OUT_OF_MEMORY : QS_FAILED, "%s: %s (%d)", what, call->status_text(status),
                   (int)status);
}

/* The handle, and what all products share of what algorithms may do. */
static qs_status start(const qs__cuda *cuda, struct qs__cublaslt *lt) {
    const uint64_t workspace = QS__LT_WORKSPACE;
    QS_TRY(functions_find(&lt->call));
    lt->fill = cuda->part ? cuda->multiprocessors : 0;
    QS_TRY(status_check(lt->call, lt->call->create(&lt->handle), "cublasLtCreate"));
    QS_TRY(status_check(lt->call, lt->call->preference_create(&lt->preference), "cublasLtMatmulPreferenceCreate"));
    return status_check(lt->call,
                        lt->call->preference_set(lt->preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace),
                        "cublasLtMatmulPreferenceSetAttribute of the workspace");
}

static void plan_free(const qs__lt_functions *call, qs__lt_plan *plan) {
    for (int i = 0; i < 4; i++)
        if (plan->layout[i]) call->layout_destroy(plan->layout[i]);
    if (plan->product) call->product_destroy(plan->product);
    free(plan);
}

static void lt_free(struct qs__cublaslt *lt) {
    for (int i = 0; i < lt->plans; i++)
        plan_free(lt->call, lt->plan[i]);
    if (lt->preference) lt->call->preference_destroy(lt->preference);
    if (lt->handle) lt->call->destroy(lt->handle);
    free(lt->plan);
    free(lt);
}

void qs__cublaslt_close(qs__cuda *cuda) {
    if (cuda->cublaslt) lt_free(cuda->cublaslt);
    cuda->cublaslt = NULL;
}

static qs_status library_open(qs__cuda *cuda) {
    struct qs__cublaslt *lt = NULL;
    if (cuda->cublaslt) return QS_OK;
    QS_TRY(qs_allocate(1, sizeof *lt, &lt));
    const qs_status status = start(cuda, lt);
    if (status == QS_OK)
        cuda->cublaslt = lt;
    else
        lt_free(lt);
    return status;
}

/* ---- Plans ------------------------------------------------------------------------------------------------------------------------ */

int qs__lt_type(const qs_format *format) {
    static const struct {
        const char *name;
        cudaDataType_t type;
    } known[] = {{"fp32", CUDA_R_32F}, {"tf32", CUDA_R_32F},       {"bf16", CUDA_R_16BF},
                 {"fp16", CUDA_R_16F}, {"e4m3fn", CUDA_R_8F_E4M3}, {"e5m2", CUDA_R_8F_E5M2}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!strcmp(format->name, known[i].name)) return (int)known[i].type;
    return format->kind == QS_KIND_INTEGER ? (int)CUDA_R_8I : -1;
}

static const char *type_text(int64_t type) {
    switch ((int)type) {
    case CUDA_R_32F:
        return "fp32";
    case CUDA_R_16BF:
        return "bf16";
    case CUDA_R_16F:
        return "fp16";
    case CUDA_R_8F_E4M3:
        return "e4m3fn";
    case CUDA_R_8F_E5M2:
        return "e5m2";
    case CUDA_R_8I:
        return "int8";
    default:
        return "int32";
    }
}

static const char *shape_text(const qs__lt_shape *shape, char text[160]) {
    snprintf(text, 160, "D %s [%lld,%lld] of %s%s and %s%s over %lld, a batch of %lld, epilogue %lld", type_text(shape->d.type),
             (long long)shape->m, (long long)shape->n, type_text(shape->a.type), shape->a.turned ? " transposed" : "",
             type_text(shape->b.type), shape->b.turned ? " transposed" : "", (long long)shape->k, (long long)shape->batch,
             (long long)shape->epilogue);
    return text;
}

static qs_status shape_check(const qs__lt_functions *call, const qs__lt_shape *shape, cublasStatus_t status, const char *what) {
    char text[160];
    return qs_fail_within(status_check(call, status, what), "%s", shape_text(shape, text));
}

static qs_status layout_make(const struct qs__cublaslt *lt, qs__lt_plan *plan, int which, const qs__lt_matrix *matrix, int64_t rows,
                             int64_t columns) {
    const qs__lt_shape *shape = &plan->shape;
    const int32_t batch = (int32_t)shape->batch;
    cublasLtMatrixLayout_t *layout = &plan->layout[which];
    QS_TRY(shape_check(lt->call, shape,
                       lt->call->layout_create(layout, (cudaDataType)matrix->type, (uint64_t)rows, (uint64_t)columns, matrix->next),
                       "cublasLtMatrixLayoutCreate"));
    if (batch == 1) return QS_OK;
    QS_TRY(shape_check(lt->call, shape, lt->call->layout_set(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch),
                       "cublasLtMatrixLayoutSetAttribute of the batch"));
    return shape_check(lt->call, shape,
                       lt->call->layout_set(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &matrix->stride, sizeof matrix->stride),
                       "cublasLtMatrixLayoutSetAttribute of the stride");
}

/* Sums are int32 of int8, else fp32: never a type that rounds fp32 factors before they are multiplied. */
static qs_status product_make(const struct qs__cublaslt *lt, qs__lt_plan *plan) {
    const qs__lt_shape *shape = &plan->shape;
    const bool integer = shape->a.type == CUDA_R_8I;
    const cublasOperation_t turn[2] = {shape->a.turned ? CUBLAS_OP_T : CUBLAS_OP_N, shape->b.turned ? CUBLAS_OP_T : CUBLAS_OP_N};
    const cublasLtEpilogue_t epilogue = (cublasLtEpilogue_t)shape->epilogue;
    const void *bias = (const void *)(uintptr_t)64; /* its alignment is all that is asked before the call */
    const int32_t fill = lt->fill;
    const struct {
        bool said;
        cublasLtMatmulDescAttributes_t attribute;
        const void *value;
        size_t bytes;
    } of[] = {{true, CUBLASLT_MATMUL_DESC_TRANSA, &turn[0], sizeof turn[0]},
              {true, CUBLASLT_MATMUL_DESC_TRANSB, &turn[1], sizeof turn[1]},
              {epilogue != CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue},
              {epilogue != CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias},
              {fill > 0, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &fill, sizeof fill}};
    QS_TRY(shape_check(lt->call, shape,
                       lt->call->product_create(&plan->product,
                                                integer                ? CUBLAS_COMPUTE_32I
                                                : shape->short_factors ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                       : CUBLAS_COMPUTE_32F,
                                                integer ? CUDA_R_32I : CUDA_R_32F),
                       "cublasLtMatmulDescCreate"));
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++)
        if (of[i].said)
            QS_TRY(shape_check(lt->call, shape, lt->call->product_set(plan->product, of[i].attribute, of[i].value, of[i].bytes),
                               "cublasLtMatmulDescSetAttribute"));
    QS_TRY(layout_make(lt, plan, 0, &shape->a, shape->a.turned ? shape->k : shape->m, shape->a.turned ? shape->m : shape->k));
    QS_TRY(layout_make(lt, plan, 1, &shape->b, shape->b.turned ? shape->n : shape->k, shape->b.turned ? shape->k : shape->n));
    QS_TRY(layout_make(lt, plan, 2, &shape->c, shape->m, shape->n));
    return layout_make(lt, plan, 3, &shape->d, shape->m, shape->n);
}

/* Its configuration, where all fields of it that an algorithm may lack count as 0; false: its parts are added in another way than it must
 * be, or a bias is to be added to 16-bit results by another algorithm than those that are known to round once (seen on an H100: the
 * others round sums before C and the bias are added). */
static bool algorithm_name(const qs__lt_functions *call, const cublasLtMatmulAlgo_t *algorithm, bool adds_to_short, char *tag,
                           size_t bytes) {
    static const struct {
        cublasLtMatmulAlgoConfigAttributes_t attribute;
        size_t bytes;
    } of[] = {{CUBLASLT_ALGO_CONFIG_ID, 4},
              {CUBLASLT_ALGO_CONFIG_TILE_ID, 4},
              {CUBLASLT_ALGO_CONFIG_STAGES_ID, 4},
              {CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 4},
              {CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, 4},
              {CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, 4},
              {CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, 2},
              {CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 2},
              {CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 4}};
    enum { FIELDS = sizeof of / sizeof of[0], SPLIT = 3, SCHEME = FIELDS - 1, ROUNDS_ONCE = 66 };
    unsigned value[FIELDS] = {0};
    for (int i = 0; i < FIELDS; i++) {
        uint32_t word = 0;
        uint16_t half = 0;
        size_t written;
        void *to = of[i].bytes == 4 ? (void *)&word : (void *)&half;
        if (call->configuration(algorithm, of[i].attribute, to, of[i].bytes, &written) == CUBLAS_STATUS_SUCCESS)
            value[i] = of[i].bytes == 4 ? word : half;
    }
    size_t used = 0;
    for (int i = 0; i < SCHEME && used < bytes; i++)
        used += (size_t)snprintf(tag + used, bytes - used, i == 0 ? "%u" : ".%u", value[i]);
    if (adds_to_short && value[0] != ROUNDS_ONCE) return false;
    return value[SCHEME] == CUBLASLT_REDUCTION_SCHEME_NONE || (value[SCHEME] == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE && value[SPLIT] > 1);
}

/* Takes those of the library's algorithms that may be taken, and are not there yet. */
static void algorithms_take(const qs__lt_functions *call, const cublasLtMatmulHeuristicResult_t *result, int count, qs__lt_plan *plan) {
    const bool adds_to_short = plan->shape.epilogue == CUBLASLT_EPILOGUE_BIAS && plan->shape.d.type != CUDA_R_32F;
    for (int i = 0; i < count && plan->count < QS__LT_ALGORITHMS; i++) {
        qs__lt_algorithm *to = &plan->algorithm[plan->count];
        bool fresh = result[i].state == CUBLAS_STATUS_SUCCESS && result[i].workspaceSize <= QS__LT_WORKSPACE &&
                     algorithm_name(call, &result[i].algo, adds_to_short, to->tag, sizeof to->tag);
        for (int other = 0; other < plan->count && fresh; other++)
            fresh = strcmp(to->tag, plan->algorithm[other].tag) != 0;
        if (!fresh) continue;
        to->algorithm = result[i].algo;
        to->workspace_bytes = result[i].workspaceSize;
        plan->count++;
    }
}

/* Asks the library for its best algorithms; a plan without any keeps the reason. Where it has none by those ways of adding parts that may
 * be taken, it is asked for all, of which some may add no parts. */
static qs_status algorithms_find(const struct qs__cublaslt *lt, qs__lt_plan *plan) {
    enum { ASKED = 8 };
    static const cublasLtMatmulPreferenceAttributes_t attribute[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    static const uint32_t schemes[] = {CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, CUBLASLT_REDUCTION_SCHEME_MASK};
    const qs__lt_shape *shape = &plan->shape;
    const qs__lt_matrix *matrix[] = {&shape->a, &shape->b, &shape->c, &shape->d};
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    int count = 0;
    for (int i = 0; i < 4; i++) {
        const uint32_t alignment = (uint32_t)matrix[i]->alignment;
        QS_TRY(shape_check(lt->call, shape, lt->call->preference_set(lt->preference, attribute[i], &alignment, sizeof alignment),
                           "cublasLtMatmulPreferenceSetAttribute of an alignment"));
    }
    for (int turn = 0; turn < 2 && plan->count == 0; turn++) {
        cublasLtMatmulHeuristicResult_t result[ASKED];
        memset(result, 0, sizeof result);
        QS_TRY(shape_check(
            lt->call, shape,
            lt->call->preference_set(lt->preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes[turn], sizeof schemes[turn]),
            "cublasLtMatmulPreferenceSetAttribute of reduction schemes"));
        status = lt->call->heuristic(lt->handle, plan->product, plan->layout[0], plan->layout[1], plan->layout[2], plan->layout[3],
                                     lt->preference, ASKED, result, &count);
        if (status == CUBLAS_STATUS_SUCCESS) algorithms_take(lt->call, result, count, plan);
    }
    if (plan->count > 0) return QS_OK;
    snprintf(plan->reason, sizeof plan->reason, "cublasLtMatmulAlgoGetHeuristic: %s (%d), %d algorithms", lt->call->status_text(status),
             (int)status, count);
    return QS_OK;
}

static qs_status plan_make(const struct qs__cublaslt *lt, const qs__lt_shape *shape, uint64_t hash, qs__lt_plan **out) {
    qs__lt_plan *plan = NULL;
    QS_TRY(qs_allocate(1, sizeof *plan, &plan));
    plan->shape = *shape;
    plan->hash = hash;
    qs_status status = product_make(lt, plan);
    if (status == QS_OK) status = algorithms_find(lt, plan);
    if (status == QS_OK)
        *out = plan;
    else
        plan_free(lt->call, plan);
    return status;
}

/* The first plan whose hash is not below this one. */
static int place_of(const struct qs__cublaslt *lt, uint64_t hash) {
    int low = 0, high = lt->plans;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (lt->plan[middle]->hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

qs_status qs__lt_plan_find(qs__cuda *cuda, const qs__lt_shape *shape, const qs__lt_plan **out) {
    char text[160];
    QS_TRY(library_open(cuda));
    struct qs__cublaslt *lt = cuda->cublaslt;
    const uint64_t hash = qs_hash(shape, sizeof *shape, 0);
    int at = place_of(lt, hash);
    while (at < lt->plans && lt->plan[at]->hash == hash && memcmp(&lt->plan[at]->shape, shape, sizeof *shape) != 0)
        at++;
    if (at == lt->plans || lt->plan[at]->hash != hash) {
        qs__lt_plan *plan = NULL;
        if (lt->plans == lt->room) {
            const int room = 2 * lt->room + 32;
            qs__lt_plan **larger = realloc(lt->plan, (size_t)room * sizeof *larger);
            if (!larger) return qs_fail(QS_OUT_OF_MEMORY, "no memory for %d plans of products", room);
            lt->plan = larger;
            lt->room = room;
        }
        QS_TRY(plan_make(lt, shape, hash, &plan));
        memmove(lt->plan + at + 1, lt->plan + at, (size_t)(lt->plans - at) * sizeof *lt->plan);
        lt->plan[at] = plan;
        lt->plans++;
    }
    *out = lt->plan[at];
    if ((*out)->count > 0) return QS_OK;
    return qs_fail(QS_UNSUPPORTED, "cuBLASLt has nothing for %s: %s", shape_text(shape, text), (*out)->reason);
}

/* ---- Calls ------------------------------------------------------------------------------------------------------------------------- */

qs_status qs__lt_multiply(const qs__cuda *cuda, const qs__lt_plan *plan, int algorithm, const qs__lt_call *call) {
    const struct qs__cublaslt *lt = cuda->cublaslt;
    const qs__lt_algorithm *by = &plan->algorithm[algorithm];
    const bool integer = plan->shape.a.type == CUDA_R_8I;
    const int32_t whole[2] = {1, call->beta != 0};
    const float real[2] = {call->alpha, call->beta};
    const void *bias = (const void *)(uintptr_t)call->bias;
    const struct {
        const qs__lt_plan *plan;
        int64_t algorithm;
        qs__lt_call call;
    } called = {plan, algorithm, *call}; /* it has no padding: it is compared as bytes */
    if (qs__recording_repeats(cuda, &called, sizeof called)) return QS_OK;
    if (plan->shape.epilogue != CUBLASLT_EPILOGUE_DEFAULT)
        QS_TRY(shape_check(lt->call, &plan->shape,
                           lt->call->product_set(plan->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias),
                           "cublasLtMatmulDescSetAttribute of the bias"));
    return shape_check(lt->call, &plan->shape,
                       lt->call->multiply(lt->handle, plan->product, integer ? (const void *)&whole[0] : &real[0],
                                          (const void *)(uintptr_t)call->a, plan->layout[0], (const void *)(uintptr_t)call->b,
                                          plan->layout[1], integer ? (const void *)&whole[1] : &real[1], (const void *)(uintptr_t)call->c,
                                          plan->layout[2], (void *)(uintptr_t)call->d, plan->layout[3], &by->algorithm,
                                          (void *)(uintptr_t)call->workspace, by->workspace_bytes, cuda->stream[QS_QUEUE_KERNELS]),
                       "cublasLtMatmul");
}
