// SPDX-License-Identifier: Apache-2.0
/* Products of two activations by cuBLASLt: batches of the matrices of heads. */
#include "cuda/product.h"

#include <stdlib.h>

static void release(qs__cuda_kernel *kernel) {
    free(kernel->own);
}

static qs_status run(qs__cuda_kernel *kernel, const qs_run *run) {
    (void)run;
    return qs__product_run(kernel, kernel->own);
}

static qs_status build(qs__cuda_kernel *kernel, int algorithm) {
    const qs_matmul of = qs_case_matmul(&kernel->one);
    const qs__product_request request = qs__product_of_pass(&kernel->one, &of);
    qs__product *own;
    if (kernel->one.attributes.accumulator.adder) return qs_fail(QS_UNSUPPORTED, "cuBLASLt adds in no narrow accumulator");
    QS_TRY(qs_allocate(1, sizeof *own, &own));
    kernel->own = own;
    kernel->release = release;
    kernel->run = run;
    QS_TRY(qs__product_build(kernel, &request, algorithm, own));
    qs__products_workspace(kernel, 1, own);
    snprintf(kernel->name, sizeof kernel->name, "cublaslt:%s", own->plan->algorithm[algorithm].tag);
    return QS_OK;
}

qs_status qs__cuda_build_cublaslt_matmul(qs__cuda_kernel *kernel) {
    return build(kernel, 0);
}

qs_status qs__cuda_build_cublaslt_matmul_second(qs__cuda_kernel *kernel) {
    return build(kernel, 1);
}

qs_status qs__cuda_build_cublaslt_matmul_third(qs__cuda_kernel *kernel) {
    return build(kernel, 2);
}
