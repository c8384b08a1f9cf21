// SPDX-License-Identifier: Apache-2.0
/* Products of matrices by cuBLASLt 13, found at run time.
 *
 * A *product* is one call of the library: D = alpha op(A) op(B) + beta C, with an epilogue, in every matrix of a batch, matrices column by
 * column. Which algorithms there are for it depends on its shape alone, never on addresses; an open device keeps what it asked once.
 *
 * What is used of the library: the functions below; of matrix layouts type, extents, leading dimension, batch count and stride (0 where all
 * of a batch share a matrix, also in C); of products transpositions, the epilogues none, BIAS and BGRADB with the pointer, and the number
 * of multiprocessors to fill; of preferences workspace, reduction schemes and alignments; of algorithms their configuration, for names.
 * Scale pointers, auxiliary outputs and device pointers for alpha and beta are not used.
 *
 * Results are the same bits at every run: of algorithms that cut the inner dimension only those are taken that keep the parts in the
 * workspace, in the type that sums are formed in, and add them in a step of its own. */
#ifndef QSYNC_DEVICE_CUDA_CUBLASLT_H
#define QSYNC_DEVICE_CUDA_CUBLASLT_H

#include "cuda/cuda.h"

#include <cublasLt.h>

/* Functions of libcublasLt.so.13: X(member, result, symbol, parameters). */
#define QS__LT_LIST(X)                                                                                                                     \
    X(create, cublasStatus_t, cublasLtCreate, (cublasLtHandle_t * handle))                                                                 \
    X(destroy, cublasStatus_t, cublasLtDestroy, (cublasLtHandle_t handle))                                                                 \
    X(status_text, const char *, cublasLtGetStatusString, (cublasStatus_t status))                                                         \
    X(layout_create, cublasStatus_t, cublasLtMatrixLayoutCreate,                                                                           \
      (cublasLtMatrixLayout_t * layout, cudaDataType type, uint64_t rows, uint64_t columns, int64_t next))                                 \
    X(layout_set, cublasStatus_t, cublasLtMatrixLayoutSetAttribute,                                                                        \
      (cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, const void *value, size_t bytes))                         \
    X(layout_destroy, cublasStatus_t, cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout))                                        \
    X(product_create, cublasStatus_t, cublasLtMatmulDescCreate,                                                                            \
      (cublasLtMatmulDesc_t * product, cublasComputeType_t compute, cudaDataType_t scale))                                                 \
    X(product_set, cublasStatus_t, cublasLtMatmulDescSetAttribute,                                                                         \
      (cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute, const void *value, size_t bytes))                           \
    X(product_destroy, cublasStatus_t, cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t product))                                          \
    X(preference_create, cublasStatus_t, cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t * preference))                        \
    X(preference_set, cublasStatus_t, cublasLtMatmulPreferenceSetAttribute,                                                                \
      (cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, const void *value, size_t bytes))            \
    X(preference_destroy, cublasStatus_t, cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t preference))                        \
    X(heuristic, cublasStatus_t, cublasLtMatmulAlgoGetHeuristic,                                                                           \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,                          \
       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int wanted,                              \
       cublasLtMatmulHeuristicResult_t *result, int *count))                                                                               \
    X(configuration, cublasStatus_t, cublasLtMatmulAlgoConfigGetAttribute,                                                                 \
      (const cublasLtMatmulAlgo_t *algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute, void *value, size_t bytes, size_t *written)) \
    X(multiply, cublasStatus_t, cublasLtMatmul,                                                                                            \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t product, const void *alpha, const void *a, cublasLtMatrixLayout_t a_layout,           \
       const void *b, cublasLtMatrixLayout_t b_layout, const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,          \
       cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t bytes, cudaStream_t stream))

typedef struct qs__lt_functions {
#define QS__LT_MEMBER(member, result, symbol, parameters) result(*member) parameters;
    QS__LT_LIST(QS__LT_MEMBER)
#undef QS__LT_MEMBER
} qs__lt_functions;

/* One of the matrices of a product. */
typedef struct qs__lt_matrix {
    int64_t type;      /* cudaDataType_t */
    int64_t next;      /* leading dimension: elements from one column to the next */
    int64_t stride;    /* elements from one matrix of the batch to the next; 0: they are one */
    int64_t turned;    /* taken transposed; A and B alone */
    int64_t alignment; /* bytes that addresses are multiples of, in every call; a power of two */
} qs__lt_matrix;

/* A product: D, m × n, and the inner dimension k. Fields are compared as bytes: make it from zeros. */
typedef struct qs__lt_shape {
    int64_t m, n, k, batch;
    int64_t epilogue;         /* cublasLtEpilogue_t: DEFAULT, BIAS, BGRADB */
    int64_t short_factors;    /* 1: fp32 factors are values of tf32, which tensor cores multiply exactly; 0: fp32 is multiplied in fp32 */
    qs__lt_matrix a, b, c, d; /* c: of the type and the extents of d, and the same where it is not added or D is added to */
} qs__lt_shape;

typedef struct qs__lt_algorithm {
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace_bytes;
    char tag[40]; /* its configuration: of the algorithms of a shape, its own */
} qs__lt_algorithm;

enum { QS__LT_ALGORITHMS = 3, QS__LT_WORKSPACE = 32 << 20 };

typedef struct qs__lt_plan {
    qs__lt_shape shape;
    uint64_t hash;
    int count; /* of algorithms, the library's best first; 0: it has none */
    qs__lt_algorithm algorithm[QS__LT_ALGORITHMS];
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t layout[4]; /* A, B, C, D */
    char reason[160];                 /* why there is none */
} qs__lt_plan;

/* cuda->cublaslt: the handle and the plans of an open device. */
void qs__cublaslt_close(qs__cuda *cuda);
/* Opens the library at the first call. *out stays until the device closes. QS_UNSUPPORTED: there is no library, or it has nothing for this
 * shape; the message says so. */
qs_status qs__lt_plan_find(qs__cuda *cuda, const qs__lt_shape *shape, const qs__lt_plan **out);

/* Addresses of one call. */
typedef struct qs__lt_call {
    CUdeviceptr a, b, c, d, bias, workspace;
    float alpha, beta; /* beta 0 or 1; alpha 1 where sums are integers */
} qs__lt_call;
/* Puts it into the queue of kernels. */
qs_status qs__lt_multiply(const qs__cuda *cuda, const qs__lt_plan *plan, int algorithm, const qs__lt_call *call);

/* The library's type of a format; -1: it has none. */
int qs__lt_type(const qs_format *format);

#endif
