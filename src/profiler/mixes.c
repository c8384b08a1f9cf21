// SPDX-License-Identifier: Apache-2.0
/* Which cases may a plan of this class need? A case depends on few operators (its own recipe, the formats that neighbours need), so it is
 * met by uniform plans, alternating ones, plans with one or two operators changed, or random ones; plans are lowered until none brings a
 * case that is new. Then a few of them are chosen whose kernels cover the cases. */
#include "kinds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { QUIET_MIXES = 200, MOST_RANDOM_MIXES = 4000 };

/* Node 0, the images, has no recipe: its place in a choice says that tensors may have formats of their own. No format is given, but
 * operators that are otherwise done by one kernel (a relu behind a normalisation) then stand apart, as they do where their tensors are
 * rounded one by one. */
enum { APART = 0 };

static qs_status tensors_make(const qs_graph *graph, const unsigned char *choice, qs_tensor_table *out) {
    if (!choice[APART]) return QS_OK;
    QS_TRY(qs_allocate((size_t)graph->nodes, sizeof *out->value, &out->value));
    return qs_allocate((size_t)graph->parameters + 1, sizeof *out->parameter, &out->parameter);
}

qs_status qs__mix_lower(qs__profiler *profiler, const unsigned char *choice, qs_mode mode, int64_t batch, qs_schedule **out) {
    const qs_graph *graph = profiler->graph;
    const qs_recipe **recipe = NULL;
    qs_tensor_table tensors = {0};
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)graph->nodes, sizeof *recipe, &recipe));
    QS_GOTO(tensors_make(graph, choice, &tensors));
    for (int n = 1; n < graph->nodes; n++)
        if (graph->node[n].op->kind == QS_ADJUSTABLE) recipe[n] = &profiler->recipe[choice[n]];
    const qs_lowering lowering = {.graph = graph,
                                  .batch = batch,
                                  .mode = mode,
                                  .job = profiler->job,
                                  .recipe = recipe,
                                  .half = qs_class_half(profiler->class_),
                                  .tensors = &tensors,
                                  .lookup = qs__cases_lookup,
                                  .context = &profiler->cases};
    status = qs_schedule_lower(&lowering, out);
done:
    qs_tensor_table_release(&tensors);
    free(recipe);
    return qs_fail_within(status, "class %s", profiler->class_->name);
}

static int seen_count(const qs__cases *cases) {
    int seen = 0;
    for (int i = 0; i < cases->count; i++)
        seen += cases->entry[i].as_kernel + cases->entry[i].as_conversion;
    return seen;
}

/* Marks what the schedule's cases serve as and lists its kernels, each once. */
static qs_status kernels_list(qs__cases *cases, const qs_schedule *schedule, qs__mix *mix) {
    bool *listed = NULL;
    QS_TRY(qs_allocate((size_t)cases->count, sizeof *listed, &listed));
    const qs_status status = qs_allocate((size_t)schedule->steps, sizeof *mix->kernel, &mix->kernel);
    for (int s = 0; status == QS_OK && s < schedule->steps; s++) {
        if (schedule->step[s].kind != QS_STEP_KERNEL) continue;
        const int index = qs__cases_find(cases, schedule->step[s].case_text);
        if (schedule->step[s].conversion) {
            cases->entry[index].as_conversion = true;
            continue;
        }
        cases->entry[index].as_kernel = true;
        if (!listed[index]) mix->kernel[mix->kernels++] = index;
        listed[index] = true;
    }
    free(listed);
    return status;
}

/* Lowers a copy of `choice` and keeps it; *fresh tells whether it brought a case that no mix before it had. */
static qs_status mix_add(qs__profiler *profiler, const unsigned char *choice, bool *fresh) {
    qs__mixes *mixes = &profiler->mixes;
    const size_t nodes = (size_t)profiler->graph->nodes;
    qs_schedule *schedule = NULL;
    const int before = seen_count(&profiler->cases);
    QS_TRY(qs_grow(&mixes->mix, &mixes->capacity, (size_t)mixes->count + 1, sizeof *mixes->mix));
    QS_TRY(qs__mix_lower(profiler, choice, QS_MODE_TRAIN, profiler->job->batch, &schedule));
    qs__mix *mix = &mixes->mix[mixes->count++];
    qs_status status = qs_allocate(nodes, 1, &mix->choice);
    if (status == QS_OK) {
        memcpy(mix->choice, choice, nodes);
        mix->arena_bytes = schedule->arena_bytes;
        status = kernels_list(&profiler->cases, schedule, mix);
    }
    qs_schedule_release(schedule);
    *fresh = seen_count(&profiler->cases) > before;
    return status;
}

typedef struct enumeration {
    qs__profiler *profiler;
    unsigned char *choice;
    int *adjustable, adjustables;
} enumeration;

static void fill(enumeration *one, int recipe) {
    for (int i = 0; i < one->adjustables; i++)
        one->choice[one->adjustable[i]] = (unsigned char)recipe;
}

static qs_status uniform_add(enumeration *one) {
    bool fresh;
    for (int r = 0; r < one->profiler->recipes; r++) {
        fill(one, r);
        QS_TRY(qs_fail_within(mix_add(one->profiler, one->choice, &fresh), "recipe %s", one->profiler->recipe[r].name));
    }
    return QS_OK;
}

/* The highest recipe everywhere, for planners that assign formats to tensors. */
static qs_status apart_add(enumeration *one) {
    bool fresh;
    fill(one, 0);
    one->choice[APART] = 1;
    const qs_status status = mix_add(one->profiler, one->choice, &fresh);
    one->choice[APART] = 0;
    return status;
}

static qs_status alternating_add(enumeration *one, int a, int b) {
    bool fresh;
    fill(one, a);
    for (int i = 0; i < one->adjustables; i += 2)
        one->choice[one->adjustable[i]] = (unsigned char)b;
    return mix_add(one->profiler, one->choice, &fresh);
}

/* All `a`, but `width` neighbours in `b`, at every place. */
static qs_status flips_add(enumeration *one, int a, int b, int width) {
    bool fresh;
    for (int first = 0; first + width <= one->adjustables; first++) {
        fill(one, a);
        for (int i = first; i < first + width; i++)
            one->choice[one->adjustable[i]] = (unsigned char)b;
        QS_TRY(mix_add(one->profiler, one->choice, &fresh));
    }
    return QS_OK;
}

static qs_status pairs_add(enumeration *one) {
    for (int a = 0; a < one->profiler->recipes; a++) {
        for (int b = 0; b < one->profiler->recipes; b++) {
            if (a == b) continue;
            QS_TRY(alternating_add(one, a, b));
            QS_TRY(flips_add(one, a, b, 1));
            QS_TRY(flips_add(one, a, b, 2));
        }
    }
    return QS_OK;
}

/* Two recipes and how often the second one comes differ from mix to mix: rare neighbourhoods get their turn. */
static void random_fill(enumeration *one, uint64_t mix) {
    const uint64_t key = qs_random_key(mix, 0, 0, 0);
    const int recipes = one->profiler->recipes;
    const int common = (int)(qs_random_bits(key, 0) % (unsigned)recipes);
    const float share = qs_random_uniform(key, 1);
    for (int i = 0; i < one->adjustables; i++) {
        const uint64_t counter = 2 + 2 * (uint64_t)i;
        const bool other = qs_random_uniform(key, counter) < share;
        one->choice[one->adjustable[i]] = (unsigned char)(other ? (int)(qs_random_bits(key, counter + 1) % (unsigned)recipes) : common);
    }
}

static qs_status random_add(enumeration *one) {
    int quiet = 0;
    for (int mix = 0; mix < MOST_RANDOM_MIXES && quiet < QUIET_MIXES; mix++) {
        bool fresh = false;
        random_fill(one, (uint64_t)mix);
        QS_TRY(mix_add(one->profiler, one->choice, &fresh));
        quiet = fresh ? 0 : quiet + 1;
    }
    return QS_OK;
}

qs_status qs__mixes_enumerate(qs__profiler *profiler) {
    const qs_graph *graph = profiler->graph;
    enumeration one = {.profiler = profiler};
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)graph->nodes, 1, &one.choice));
    QS_GOTO(qs_allocate((size_t)graph->nodes, sizeof *one.adjustable, &one.adjustable));
    for (int n = 1; n < graph->nodes; n++)
        if (graph->node[n].op->kind == QS_ADJUSTABLE) one.adjustable[one.adjustables++] = n;
    QS_GOTO(uniform_add(&one));
    if (qs__class_simulates(profiler->class_)) QS_GOTO(apart_add(&one));
    if (profiler->recipes > 1) {
        QS_GOTO(pairs_add(&one));
        QS_GOTO(random_add(&one));
    }
done:
    free(one.choice);
    free(one.adjustable);
    return status;
}

qs_status qs__mixes_repeat(qs__profiler *profiler, const qs__mixes *like) {
    bool fresh;
    for (int i = 0; i < like->count; i++)
        QS_TRY(mix_add(profiler, like->mix[i].choice, &fresh));
    return QS_OK;
}

void qs__mixes_release(qs__mixes *mixes) {
    for (int i = 0; i < mixes->count; i++) {
        free(mixes->mix[i].choice);
        free(mixes->mix[i].kernel);
    }
    free(mixes->mix);
    *mixes = (qs__mixes){0};
}

/* ---- Covering ---------------------------------------------------------------------------------------------------------------- */

static void cover(const qs__mix *mix, int *covered) {
    for (int i = 0; i < mix->kernels; i++)
        covered[mix->kernel[i]]++;
}

/* What a plan adds: a case that was never met counts most. */
static double gain(const qs__mix *mix, const int *covered) {
    double sum = 0;
    for (int i = 0; i < mix->kernels; i++)
        if (covered[mix->kernel[i]] < QS__WANTED_PLANS) sum += ldexp(1, -4 * covered[mix->kernel[i]]);
    return sum;
}

qs_status qs__mixes_cover(const qs__profiler *profiler, int most, int *chosen, int *chosen_count) {
    const qs__mixes *mixes = &profiler->mixes;
    const int first = profiler->recipes + qs__class_simulates(profiler->class_);
    int *covered = NULL, count = 0;
    QS_TRY(qs_allocate((size_t)profiler->cases.count, sizeof *covered, &covered));
    for (; count < first && count < most; count++) {
        chosen[count] = count;
        cover(&mixes->mix[count], covered);
    }
    while (profiler->recipes > 1 && count < most) {
        int best = -1;
        double best_gain = 0;
        for (int i = first; i < mixes->count; i++) {
            const double one = gain(&mixes->mix[i], covered);
            if (one <= best_gain) continue;
            best = i;
            best_gain = one;
        }
        if (best < 0) break;
        chosen[count++] = best;
        cover(&mixes->mix[best], covered);
    }
    free(covered);
    *chosen_count = count;
    return QS_OK;
}
