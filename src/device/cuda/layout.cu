// SPDX-License-Identifier: Apache-2.0
/* Values that move as they are, by the widest unit that everything is made of, or from one format to another; and channels that change
 * places. */
#include "cuda/layout_jobs.h"

#include "cuda/values.cuh"

/* Where unit i of the result comes from: the number of a part and a place there; -1: it is zero. Ids that name no row are complained of. */
QS_CUDA_DEVICE int source_of(const qs__move_job &job, int64_t i, int64_t *place) {
    const int64_t row = i / job.width, unit = i - row * job.width;
    for (int p = 0; p < job.parts; p++) {
        const qs__move_part &part = job.part[p];
        int64_t from = row;
        if (unit < part.begin || unit >= part.begin + part.run) continue;
        if (part.ids) {
            const int32_t id = pointer<const int32_t>(part.ids)[row];
            if (id < 0 || id >= part.rows) {
                complain(job.complaint, job.number, id, row);
                return -1;
            }
            from = row / part.group * part.rows + id;
        }
        *place = part.at + from * part.row + unit - part.begin;
        return p;
    }
    return -1;
}

template <typename unit> QS_CUDA_DEVICE void move_units(const qs__move_job &job) {
    for (int64_t i = thread_number(); i < job.count; i += thread_count()) {
        int64_t place = 0;
        unit value = {};
        const int part = source_of(job, i, &place);
        if (part >= 0) value = pointer<const unit>(job.part[part].from.at)[place];
        pointer<unit>(job.to.at)[i] = value;
    }
}

QS_CUDA_GLOBAL(qs__move_1, qs__move_job) {
    move_units<uint8_t>(job);
}

QS_CUDA_GLOBAL(qs__move_2, qs__move_job) {
    move_units<uint16_t>(job);
}

QS_CUDA_GLOBAL(qs__move_4, qs__move_job) {
    move_units<uint32_t>(job);
}

QS_CUDA_GLOBAL(qs__move_8, qs__move_job) {
    move_units<uint2>(job);
}

QS_CUDA_GLOBAL(qs__move_16, qs__move_job) {
    move_units<uint4>(job);
}

QS_CUDA_GLOBAL(qs__move_values, qs__move_job) {
    for (int64_t i = thread_number(); i < job.count; i += thread_count()) {
        int64_t place = 0;
        float x[8] = {0};
        const int part = source_of(job, i, &place);
        if (job.each == 8) {
            if (part >= 0) value_load8(job.part[part].from, 8 * place, x);
            value_store8(job.to, 8 * i, x);
        } else {
            value_store(job.to, i, part >= 0 ? value_load(job.part[part].from, place) : 0);
        }
    }
}

/* Where channel c of the result comes from: the channel c mod groups · members + c div groups. */
template <typename code> QS_CUDA_DEVICE void shuffle(const qs__shuffle_job &job) {
    constexpr int MOST = 16 / (int)sizeof(code);
    for (int64_t i = job.each * thread_number(); i < job.count; i += job.each * thread_count()) {
        const int64_t channel = i % job.channels;
        const code *const row = pointer<const code>(job.from) + (i - channel);
        int64_t member = channel / job.groups, group = channel - member * job.groups;
        if (job.each == 1) {
            pointer<code>(job.to)[i] = row[group * job.members + member];
            continue;
        }
        code taken[MOST];
        QS_CUDA_UNROLL
        for (int k = 0; k < MOST; k++) {
            taken[k] = row[group * job.members + member];
            if (++group == job.groups) group = 0, member++;
        }
        packet<4> out;
        memcpy(&out, taken, sizeof out);
        packet_store(pointer<code>(job.to) + i, out);
    }
}

QS_CUDA_GLOBAL(qs__shuffle_1, qs__shuffle_job) {
    shuffle<uint8_t>(job);
}

QS_CUDA_GLOBAL(qs__shuffle_2, qs__shuffle_job) {
    shuffle<uint16_t>(job);
}

QS_CUDA_GLOBAL(qs__shuffle_4, qs__shuffle_job) {
    shuffle<uint32_t>(job);
}
