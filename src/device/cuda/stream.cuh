// SPDX-License-Identifier: Apache-2.0
/* Values read, changed and written once, of formats that the compiler knows: loads have no branches between them, so that several of a thread
 * are on their way at once, and a thread's vector fills 16 bytes where values are written as fp32, so that those of a warp fill whole
 * sectors. */
#ifndef QSYNC_DEVICE_CUDA_STREAM_CUH
#define QSYNC_DEVICE_CUDA_STREAM_CUH

#include "cuda/values.cuh"

/* QS_CUDA_GLOBAL of a kernel that is launched with up to so many threads, and of which a multiprocessor is to hold so many blocks at once:
 * its registers follow from that. */
#if defined(__CUDACC__)
#define QS_CUDA_RESIDENT(name, job_type, threads, blocks) \
    extern "C" __global__ void __launch_bounds__(threads, blocks) name(const __grid_constant__ job_type job)
#else
#define QS_CUDA_RESIDENT(name, job_type, threads, blocks) QS_CUDA_GLOBAL(name, job_type)
#endif

constexpr int STREAM_AHEAD = 4; /* vectors of a thread on their way, of all that it reads */

enum { STREAM_THREADS = 256, STREAM_BLOCKS = 4 }; /* of a block, and blocks of a multiprocessor, where much is done with values */

/* Values of a vector where they are written in a kind. */
template <int TO> constexpr int stream_width = TO == QS__CUDA_FP32 ? 4 : 8;

template <int KIND> constexpr int bytes_of_kind = KIND == QS__CUDA_FP32 ? 4 : KIND == QS__CUDA_BF16 || KIND == QS__CUDA_FP16 ? 2 : 1;

/* Words as they lie in memory: 1, 2, 4 or 8. */
template <int WORDS> QS_CUDA_DEVICE void words_load(const void *at, uint32_t word[WORDS]) {
    constexpr int EACH = WORDS < 4 ? 2 : 4;
    if constexpr (WORDS == 1) {
        word[0] = *(const uint32_t *)at;
    } else {
        QS_CUDA_UNROLL
        for (int w = 0; w < WORDS; w += EACH) {
            const packet<EACH> in = packet_load<EACH>((const uint32_t *)at + w);
            memcpy(word + w, &in, sizeof in);
        }
    }
}

/* Codes that lie in words, as code_load has them. */
template <int KIND, int WIDTH> QS_CUDA_DEVICE void words_codes(const uint32_t *word, uint32_t code[WIDTH]) {
    constexpr int BITS = 8 * bytes_of_kind<KIND>, EACH = 32 / BITS;
    QS_CUDA_UNROLL
    for (int k = 0; k < WIDTH; k++) {
        const uint32_t held = word[k / EACH] >> (k % EACH * BITS);
        code[k] = BITS == 32 ? held : BITS == 16 ? held & 0xFFFFu : KIND == QS__CUDA_INTEGER ? (uint32_t)(int8_t)held : held & 0xFFu;
    }
}

template <int KIND, int WIDTH> QS_CUDA_DEVICE void stream_values(const qs__cuda_format &format, const uint32_t *word, float x[WIDTH]) {
    uint32_t code[WIDTH];
    words_codes<KIND, WIDTH>(word, code);
    if constexpr (WIDTH == 8) {
        values_of8_kind<KIND>(format, code, x);
    } else {
        QS_CUDA_UNROLL
        for (int k = 0; k < WIDTH; k++)
            x[k] = value_of_kind<KIND>(format, code[k]);
    }
}

template <int TO> QS_CUDA_DEVICE void stream_codes(const qs__cuda_format &format, const float *x, uint32_t *code) {
    if constexpr (TO == QS__CUDA_FP32) {
        QS_CUDA_UNROLL
        for (int k = 0; k < 4; k++)
            code[k] = bits_of(x[k]);
    } else {
        codes_of8_kind<TO>(format, x, code);
    }
}

template <int TO> QS_CUDA_DEVICE void stream_store(const qs__cuda_values &dst, int64_t i, const uint32_t *code) {
    if constexpr (TO == QS__CUDA_FP32) {
        const packet<4> out = {{code[0], code[1], code[2], code[3]}};
        packet_store(pointer<uint32_t>(dst.at) + i, out);
    } else {
        whole_store8<TO>(dst, i, code);
    }
}

/* Calls use(i, x[SOURCES][WIDTH], code[WIDTH], beside) for the elements i to i + WIDTH - 1, which are stream_width<TO>: it makes codes of
 * values, and may change those; beside is what ahead(i) read, a word, on its way with the values. Sources are of one kind. Returns how many
 * elements from 0 on were taken, whole pieces; the rest is the caller's. */
template <int FROM, int TO, int SOURCES, typename Ahead, typename Use>
QS_CUDA_DEVICE int64_t stream_beside(const qs__cuda_values *const (&src)[SOURCES], const qs__cuda_values &dst, const Ahead &ahead,
                                     const Use &use) {
    constexpr int WIDTH = stream_width<TO>, WORDS = WIDTH * bytes_of_kind<FROM> / 4, AHEAD = STREAM_AHEAD / SOURCES;
    const int64_t step = WIDTH * (int64_t)blockDim.x, piece = AHEAD * step, whole = dst.count / piece * piece;
    for (int64_t first = blockIdx.x * piece + WIDTH * (int64_t)threadIdx.x; first < whole; first += gridDim.x * piece) {
        uint32_t word[AHEAD][SOURCES][WORDS], beside[AHEAD];
        QS_CUDA_UNROLL
        for (int e = 0; e < AHEAD; e++) {
            QS_CUDA_UNROLL
            for (int s = 0; s < SOURCES; s++)
                words_load<WORDS>(pointer<const uint8_t>(src[s]->at) + (first + e * step) * bytes_of_kind<FROM>, word[e][s]);
            beside[e] = ahead(first + e * step);
        }
        QS_CUDA_UNROLL
        for (int e = 0; e < AHEAD; e++) {
            float x[SOURCES][WIDTH];
            uint32_t code[WIDTH];
            QS_CUDA_UNROLL
            for (int s = 0; s < SOURCES; s++)
                stream_values<FROM, WIDTH>(src[s]->format, word[e][s], x[s]);
            use(first + e * step, x, code, beside[e]);
            stream_store<TO>(dst, first + e * step, code);
        }
    }
    return whole;
}

/* The same with nothing beside: use(i, x[SOURCES][WIDTH], code[WIDTH]). */
template <int FROM, int TO, int SOURCES, typename Use>
QS_CUDA_DEVICE int64_t stream_of(const qs__cuda_values *const (&src)[SOURCES], const qs__cuda_values &dst, const Use &use) {
    return stream_beside<FROM, TO, SOURCES>(
        src, dst, [](int64_t) { return 0u; }, [&](int64_t i, auto &x, uint32_t *code, uint32_t) { use(i, x, code); });
}

/* And of one source: use(i, x[WIDTH], code[WIDTH]). */
template <int FROM, int TO, typename Use>
QS_CUDA_DEVICE int64_t stream(const qs__cuda_values &src, const qs__cuda_values &dst, const Use &use) {
    const qs__cuda_values *const one[1] = {&src};
    return stream_of<FROM, TO, 1>(one, dst, [&](int64_t i, auto &x, uint32_t *code) { use(i, x[0], code); });
}

/* The kind of operands that have one of 16 bits in common; QS__CUDA_FLOAT, which is none, where they have not. */
template <int SOURCES> QS_CUDA_DEVICE int stream_kind(const qs__cuda_values *const (&src)[SOURCES], const qs__cuda_values &dst) {
    bool alike = true;
    for (int s = 0; s < SOURCES; s++)
        alike = alike && src[s]->format.kind == dst.format.kind;
    return alike ? dst.format.kind : QS__CUDA_FLOAT;
}

/* Calls `use` with the kind of 16 bits that the format has, if it has one. */
template <typename Use> QS_CUDA_DEVICE void with_half_kind(int kind, Use use) {
    if (kind == QS__CUDA_BF16) use(constant<QS__CUDA_BF16>());
    if (kind == QS__CUDA_FP16) use(constant<QS__CUDA_FP16>());
}

#endif
