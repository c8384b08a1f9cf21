// SPDX-License-Identifier: Apache-2.0
/* What is found over the elements that one of a smaller operand stands for: sums, in double and in an order that is always the same, and
 * largest values, the first of equal ones. Every value is read once, and a gradient that goes on beside a sum is written by who read it. */
#include "cuda/broadcast.cuh"

#include "cuda/columns.cuh"

/* ---- What is found ---------------------------------------------------------------------------------------------------------------- */

/* Σ of a, or of a b. */
template <bool PRODUCTS> struct summing {
    typedef double found;
    static constexpr bool TWO = PRODUCTS;
    double sum = 0;
    QS_CUDA_DEVICE_MEMBER void take(float a, float b, bool bent, int64_t) {
        const double term = TWO ? (double)a * (double)b : (double)a;
        sum += bent && b > 0 ? 0 : term;
    }
    QS_CUDA_DEVICE_MEMBER found result() const {
        return sum;
    }
    QS_CUDA_DEVICE_MEMBER found operator()(found a, found b) const {
        return a + b;
    }
};

/* The largest of a: rows come in their order, so that of equal ones the first stays. A NaN is above all, both zeros are alike; no value has
 * the order 0. */
struct seeking {
    typedef uint64_t found;
    static constexpr bool TWO = false;
    uint32_t order = 0, row = 0;
    QS_CUDA_DEVICE_MEMBER void take(float a, float, bool, int64_t at) {
        const uint32_t bits = a == 0 ? 0 : bits_of(a), own = a != a ? UINT32_MAX : bits & SIGN_BIT ? ~bits : bits | SIGN_BIT;
        if (own <= order) return;
        order = own;
        row = (uint32_t)at;
    }
    QS_CUDA_DEVICE_MEMBER found result() const {
        return order == 0 ? 0 : (uint64_t)order << 32 | (uint32_t)~row;
    }
    QS_CUDA_DEVICE_MEMBER found operator()(found a, found b) const {
        return largest(a, b);
    }
};

QS_CUDA_DEVICE float written_of(const qs__reduce_job &job, double sum, int64_t, int64_t, int64_t) {
    return (float)(job.divisor == 1 ? sum : sum / job.divisor);
}

/* The value itself, whose bits a key does not have. */
QS_CUDA_DEVICE float written_of(const qs__reduce_job &job, uint64_t key, int64_t first, int64_t channel, int64_t channels) {
    return value_load(job.a, first + (int64_t)(uint32_t)~key * channels + channel);
}

QS_CUDA_DEVICE uint32_t row_of(double) {
    return 0; /* sums come from nowhere */
}

QS_CUDA_DEVICE uint32_t row_of(uint64_t key) {
    return ~(uint32_t)key;
}

/* Writes what was asked for of `WIDTH` channels from `channel` on of a batch, whose values begin at `first`. */
template <int WIDTH, typename T>
QS_CUDA_DEVICE void results_write(const qs__reduce_job &job, int64_t at, int64_t first, int64_t channel, int64_t channels,
                                  const T of[WIDTH]) {
    float y[WIDTH];
    QS_CUDA_UNROLL
    for (int k = 0; k < WIDTH; k++) {
        if (job.place)
            pointer<uint32_t>(job.place)[at + k] = row_of(of[k]);
        else
            y[k] = written_of(job, of[k], first, channel + k, channels);
    }
    if (!job.place) store_each<WIDTH>(job.to, at, y);
}

/* ---- Values that are read, and gradients that go on ------------------------------------------------------------------------------- */

/* The kind that all operands share which a loop over rows reads or writes. */
QS_CUDA_DEVICE int kind_of(const qs__reduce_job &job) {
    if (!job.b.at) return job.a.format.kind;
    return common_kind(job.b.format, job.diff.format) == job.a.format.kind ? job.a.format.kind : ANY_KIND;
}

template <int WIDTH, bool TWO> struct terms {
    float a[WIDTH], b[WIDTH];
    QS_CUDA_DEVICE_MEMBER void load(const qs__cuda_values &from, const qs__cuda_values &other, int64_t at) {
        load_each<WIDTH>(from, at, a);
        if (TWO) load_each<WIDTH>(other, at, b);
    }
    /* a times the part, or of prelu as it is where b is positive. */
    QS_CUDA_DEVICE_MEMBER void pass_on(const qs__reduce_job &job, const qs__cuda_values &diff, const float part[WIDTH], int64_t at) const {
        float y[WIDTH];
        QS_CUDA_UNROLL
        for (int k = 0; k < WIDTH; k++)
            y[k] = job.bent && b[k] > 0 ? a[k] : a[k] * part[k];
        store_each<WIDTH>(diff, at, y);
    }
};

/* ---- Channels: a thread goes down rows --------------------------------------------------------------------------------------------- */

/* Blocks take tiles of channels of a slab, of one batch or, where rows are few, of several. */
QS_CUDA_DEVICE column_place place_of(const qs__reduce_job &job, int64_t *batch) {
    const qs__columns &cut = job.cut;
    const int threads = cut.across * cut.down, group = (int)threadIdx.x / threads, inside = (int)threadIdx.x - group * threads;
    const int64_t wide = blockIdx.x / (unsigned)cut.tiles, tile = blockIdx.x % (unsigned)cut.tiles;
    column_place out = {};
    out.slab = wide % cut.slabs;
    out.lane = inside / cut.across;
    out.channel = (tile * cut.across + inside % cut.across) * cut.width;
    out.row = out.slab * cut.slab_rows + out.lane;
    out.stop = least((out.slab + 1) * cut.slab_rows, cut.rows);
    out.step = cut.down;
    *batch = wide / cut.slabs * job.groups + group;
    out.vector = *batch * cut.channels + out.channel;
    if (group >= job.groups || *batch >= job.batches) out.channel = cut.channels;
    if (group >= job.groups) out.lane = cut.down; /* threads that are left have no share in sums */
    if (out.channel >= cut.channels) out.stop = out.row;
    return out;
}

/* Down the rows of a thread: first values begin at `first`. */
template <int KIND, int WIDTH, typename Finding>
QS_CUDA_DEVICE void rows_walk(const qs__reduce_job &job, const column_place &place, int64_t first, const float part[WIDTH],
                              Finding of[WIDTH]) {
    enum { TOGETHER = KIND == ANY_KIND ? 1 : Finding::TWO ? 2 : 4 };
    const qs__cuda_values a = of_kind<KIND>(job.a), b = of_kind<KIND>(job.b), diff = of_kind<KIND>(job.diff);
    const int64_t channels = job.cut.channels, step = place.step * channels;
    int64_t row = place.row, at = first + row * channels + place.channel;
    const auto take = [&](const terms<WIDTH, Finding::TWO> &x, int r) {
        QS_CUDA_UNROLL
        for (int k = 0; k < WIDTH; k++)
            of[k].take(x.a[k], Finding::TWO ? x.b[k] : 0, job.bent, row + r * place.step);
        if (Finding::TWO) x.pass_on(job, diff, part, at + r * step);
    };
    for (; TOGETHER > 1 && row + (TOGETHER - 1) * place.step < place.stop; row += TOGETHER * place.step, at += TOGETHER * step) {
        terms<WIDTH, Finding::TWO> x[TOGETHER];
        QS_CUDA_UNROLL
        for (int r = 0; r < TOGETHER; r++)
            x[r].load(a, b, at + r * step);
        QS_CUDA_UNROLL
        for (int r = 0; r < TOGETHER; r++)
            take(x[r], r);
    }
    for (; row < place.stop; row += place.step, at += step) {
        terms<WIDTH, Finding::TWO> x;
        x.load(a, b, at);
        take(x, 0);
    }
}

template <int WIDTH, typename Finding> QS_CUDA_DEVICE void find_columns(const qs__reduce_job &job) {
    int64_t batch;
    const column_place place = place_of(job, &batch);
    const int64_t channels = job.cut.channels, first = batch * job.cut.rows * channels;
    typedef typename Finding::found found;
    Finding of[WIDTH];
    float part[WIDTH];
    found all[WIDTH];
    if (Finding::TWO && place.row < place.stop)
        load_each<WIDTH>(job.part, part_of_row(job.outer, job.outer.axes, batch) + place.channel, part);
    with_common_kind(kind_of(job), [&](auto kind) { rows_walk<decltype(kind)::value, WIDTH>(job, place, first, part, of); });
    QS_CUDA_UNROLL
    for (int k = 0; k < WIDTH; k++)
        all[k] = of[k].result();
    if (!slab_join<WIDTH>(job.cut, place, all, Finding())) return;
    if (!job.partial) return results_write<WIDTH>(job, place.vector, first, place.channel, channels, all);
    found *const to = pointer<found>(job.partial) + (batch * job.cut.slabs + place.slab) * channels + place.channel;
    QS_CUDA_UNROLL
    for (int k = 0; k < WIDTH; k++)
        to[k] = all[k];
}

/* ---- Without channels: lanes go along rows ------------------------------------------------------------------------------------------ */

/* A lane's values of those from `from` to `stop` - 1, of a row that begins at `first`. */
template <int KIND, typename Finding>
QS_CUDA_DEVICE void row_walk_of(const qs__reduce_job &job, int64_t first, int64_t from, int64_t stop, const float part[8], Finding &of) {
    enum { TOGETHER = KIND == ANY_KIND ? 1 : Finding::TWO ? 2 : 4 };
    const int lanes = job.lanes, lane = (int)threadIdx.x % lanes;
    const qs__cuda_values a = of_kind<KIND>(job.a), b = of_kind<KIND>(job.b), diff = of_kind<KIND>(job.diff);
    const int64_t body = least((from + 7) / 8 * 8, stop), tail = largest(stop / 8 * 8, body); /* eights lie between */
    const auto singles = [&](int64_t begin, int64_t end) {
        for (int64_t at = begin + lane; at < end; at += lanes) {
            terms<1, Finding::TWO> x;
            x.load(a, b, at);
            of.take(x.a[0], Finding::TWO ? x.b[0] : 0, job.bent, at - first);
            if (Finding::TWO) x.pass_on(job, diff, part, at);
        }
    };
    const auto take = [&](const terms<8, Finding::TWO> &x, int64_t at) {
        QS_CUDA_UNROLL
        for (int k = 0; k < 8; k++)
            of.take(x.a[k], Finding::TWO ? x.b[k] : 0, job.bent, at + k - first);
        if (Finding::TWO) x.pass_on(job, diff, part, at);
    };
    int64_t at = body + 8 * lane;
    singles(from, body);
    for (; TOGETHER > 1 && at + 8 * (TOGETHER - 1) * lanes < tail; at += 8 * TOGETHER * lanes) {
        terms<8, Finding::TWO> x[TOGETHER];
        QS_CUDA_UNROLL
        for (int r = 0; r < TOGETHER; r++)
            x[r].load(a, b, at + 8 * r * lanes);
        QS_CUDA_UNROLL
        for (int r = 0; r < TOGETHER; r++)
            take(x[r], at + 8 * r * lanes);
    }
    for (; at < tail; at += 8 * lanes) {
        terms<8, Finding::TWO> x;
        x.load(a, b, at);
        take(x, at);
    }
    singles(tail, stop);
}

template <typename Finding> QS_CUDA_DEVICE void find_rows(const qs__reduce_job &job) {
    const int lanes = job.lanes, together = (int)blockDim.x / lanes;
    const int64_t items = job.batches * job.cut.slabs;
    typedef typename Finding::found found;
    for (int64_t begin = (int64_t)blockIdx.x * together; begin < items; begin += (int64_t)gridDim.x * together) {
        const int64_t item = begin + (int)threadIdx.x / lanes, batch = item / job.cut.slabs, slab = item - batch * job.cut.slabs;
        const int64_t first = batch * job.cut.rows, from = first + slab * job.cut.slab_rows;
        const int64_t stop = first + least((slab + 1) * job.cut.slab_rows, job.cut.rows);
        float part[8] = {};
        Finding of;
        if (item < items) {
            if (Finding::TWO) {
                const float one = value_load(job.part, part_of_row(job.outer, job.outer.axes, batch));
                QS_CUDA_UNROLL
                for (int k = 0; k < 8; k++)
                    part[k] = one;
            }
            with_common_kind(kind_of(job), [&](auto kind) { row_walk_of<decltype(kind)::value>(job, first, from, stop, part, of); });
        }
        found all = of.result();
        if (lanes > WARP) {
            all = block_reduce(all, Finding());
        } else {
            for (int by = lanes / 2; by > 0; by /= 2)
                all = Finding()(all, __shfl_xor_sync(WHOLE_WARP, all, by));
        }
        if (threadIdx.x % (unsigned)lanes > 0 || item >= items) continue;
        if (job.partial)
            pointer<found>(job.partial)[item] = all;
        else
            results_write<1>(job, batch, first, 0, 1, &all);
    }
}

/* ---- Slabs -------------------------------------------------------------------------------------------------------------------------- */

/* cut: [slabs][channels] of each batch, of which a block takes QS__TOTAL_CHANNELS; rows of the value are as many channels apart. */
template <typename Finding> QS_CUDA_DEVICE void find_last(const qs__reduce_job &job) {
    typedef typename Finding::found found;
    const int64_t channels = job.cut.channels, tiles = (channels + QS__TOTAL_CHANNELS - 1) / QS__TOTAL_CHANNELS;
    const int lane = (int)threadIdx.x / QS__TOTAL_CHANNELS;
    for (int64_t item = blockIdx.x; item < job.batches * tiles; item += gridDim.x) {
        const int64_t batch = item / tiles, c = (item - batch * tiles) * QS__TOTAL_CHANNELS + threadIdx.x % QS__TOTAL_CHANNELS;
        const found all =
            slabs_join<found>(job.cut, c, lane, pointer<const found>(job.partial) + batch * job.cut.slabs * channels, Finding());
        if (lane == 0 && c < channels) results_write<1>(job, batch * channels + c, batch * job.cut.rows * channels, c, channels, &all);
    }
}

/* ---- Kernels ------------------------------------------------------------------------------------------------------------------------ */

#define REDUCE(name, finding)                        \
    QS_CUDA_GLOBAL(name##_columns, qs__reduce_job) { \
        if (job.cut.width == 8)                      \
            find_columns<8, finding>(job);           \
        else                                         \
            find_columns<1, finding>(job);           \
    }                                                \
    QS_CUDA_GLOBAL(name##_rows, qs__reduce_job) {    \
        find_rows<finding>(job);                     \
    }

REDUCE(qs__sum, summing<false>)
REDUCE(qs__sum_products, summing<true>)
REDUCE(qs__largest, seeking)

QS_CUDA_GLOBAL(qs__sum_last, qs__reduce_job) {
    find_last<summing<false>>(job);
}

QS_CUDA_GLOBAL(qs__largest_last, qs__reduce_job) {
    find_last<seeking>(job);
}
