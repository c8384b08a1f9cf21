// SPDX-License-Identifier: Apache-2.0
/* The cases of a class and plans that contain them: what lowering asked the device about, found again by text; and plans that together
 * contain every case that any plan of the class may contain (qs_schedule_case_plans), the uniform ones first. A few of them, whose kernels
 * cover the cases as far as possible, are then measured. */
#include "timing/timing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const int64_t qs__cache_bytes[QS__CACHES] = {1 << 20, 2 << 20, 4 << 20, 6 << 20, 8 << 20, 12 << 20, 16 << 20, 24 << 20};

/* ---- Cases ---- */

static size_t slot_of(const qs__cases *cases, const char *text) {
    size_t at = (size_t)qs_hash(text, strlen(text), 0) & (cases->slots - 1);
    while (cases->slot[at] >= 0 && strcmp(cases->entry[cases->slot[at]].text, text) != 0)
        at = (at + 1) & (cases->slots - 1);
    return at;
}

int qs__cases_find(const qs__cases *cases, const char *case_text) {
    return cases->slots ? cases->slot[slot_of(cases, case_text)] : -1;
}

/* At most half full; a power of two. */
static qs_status slots_grow(qs__cases *cases) {
    if ((size_t)cases->count * 2 < cases->slots) return QS_OK;
    const size_t slots = cases->slots ? cases->slots * 2 : 256;
    int *fresh = NULL;
    QS_TRY(qs_allocate(slots, sizeof *fresh, &fresh));
    free(cases->slot);
    cases->slot = fresh;
    cases->slots = slots;
    for (size_t i = 0; i < slots; i++)
        fresh[i] = -1;
    for (int i = 0; i < cases->count; i++)
        fresh[slot_of(cases, cases->entry[i].text)] = i;
    return QS_OK;
}

static qs_status entry_add(qs__cases *cases, const qs_case *one, const char *text, int *index) {
    qs_kernel_row row;
    char *copy = NULL;
    QS_TRY(qs_lookup_device(cases->device, one, text, &row));
    QS_TRY(qs_grow(&cases->entry, &cases->capacity, (size_t)cases->count + 1, sizeof *cases->entry));
    QS_TRY(slots_grow(cases));
    QS_TRY(qs_format_text(&copy, "%s", text));
    cases->slot[slot_of(cases, text)] = cases->count;
    cases->entry[cases->count] = (qs__entry){.text = copy, .case_ = *one, .row = row};
    *index = cases->count++;
    return QS_OK;
}

qs_status qs__cases_lookup(void *context, const qs_case *one, const char *case_text, qs_kernel_row *out) {
    qs__cases *cases = context;
    int index = qs__cases_find(cases, case_text);
    if (index < 0) QS_TRY(entry_add(cases, one, case_text, &index));
    *out = cases->entry[index].row;
    return QS_OK;
}

void qs__elsewhere_release(qs__elsewhere *elsewhere) {
    free(elsewhere->kernel_us.value);
    for (int c = 0; c < QS__CACHES; c++)
        free(elsewhere->cold[c].value);
    free(elsewhere->half_us.value);
    free(elsewhere->alone.value);
    *elsewhere = (qs__elsewhere){0};
}

void qs__cases_release(qs__cases *cases) {
    for (int i = 0; i < cases->count; i++) {
        free(cases->entry[i].text);
        free(cases->entry[i].kernel_us.value);
        free(cases->entry[i].conversion_us.value);
        for (int c = 0; c < QS__CACHES; c++)
            free(cases->entry[i].cold[c].value);
        free(cases->entry[i].half_us.value);
        free(cases->entry[i].alone.value);
        qs__elsewhere_release(&cases->entry[i].elsewhere);
    }
    free(cases->entry);
    free(cases->slot);
    *cases = (qs__cases){0};
}

/* ---- Plans ---- */

bool qs__class_emulates(const qs_class *one) {
    for (int i = 0; i < one->storages; i++) {
        bool computes = false;
        for (int k = 0; k < one->formats; k++)
            computes = computes || one->format[k] == one->storage[i];
        if (one->storage[i]->kind == QS_KIND_FLOAT && !computes) return true;
    }
    return false;
}

/* Node 0, the images, has no recipe: its place in a choice says that tensors may have formats of their own. No format is given, but
 * operators that are otherwise done by one kernel (a relu behind a normalisation) then stand apart, as they do where their tensors are
 * rounded one by one. */
enum { APART = 0 };

qs_status qs__mix_lower(const qs__setting *setting, qs__cases *cases, const unsigned char *choice, qs_mode mode, int64_t batch,
                        qs_schedule **out) {
    const qs_graph *graph = setting->graph;
    const qs_recipe **recipe = NULL;
    qs_tensor_table tensors = {0};
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)graph->nodes, sizeof *recipe, &recipe));
    for (int n = graph->samples.inputs; n < graph->nodes; n++)
        if (graph->node[n].op->kind == QS_ADJUSTABLE) recipe[n] = &setting->recipe[choice[n]];
    if (choice[APART]) {
        QS_GOTO(qs_allocate((size_t)graph->nodes, sizeof *tensors.value, &tensors.value));
        QS_GOTO(qs_allocate((size_t)graph->parameters + 1, sizeof *tensors.parameter, &tensors.parameter));
    }
    const qs_lowering lowering = {.graph = graph,
                                  .batch = batch,
                                  .mode = mode,
                                  .job = setting->job,
                                  .recipe = recipe,
                                  .half = qs_class_half(setting->class_),
                                  .tensors = &tensors,
                                  .joins = qs_device_joins(setting->device),
                                  .lookup = qs__cases_lookup,
                                  .context = cases};
    status = qs_schedule_lower(&lowering, out);
done:
    qs_tensor_table_release(&tensors);
    free(recipe);
    return qs_fail_within(status, "class %s", setting->class_->name);
}

static qs_status plan_check(const qs__setting *setting, const qs_plan *plan) {
    char signature[32];
    qs_graph_signature(setting->graph, signature);
    if (plan->graph[0] && strcmp(plan->graph, signature) != 0)
        return qs_fail(QS_MISMATCH, "it is a plan for another model (%s) than %s (%s)", plan->graph, setting->graph->name, signature);
    for (int i = 0; i < plan->classes; i++)
        if (plan->class_[i].batch > 0 && plan->class_[i].batch != setting->job->batch)
            return qs_fail(QS_USAGE, "class %s: its batch is %lld, checks are timed at the profile's %lld", plan->class_[i].class_name,
                           (long long)plan->class_[i].batch, (long long)setting->job->batch);
    return QS_OK;
}

qs_status qs__check_lower(const qs__setting *setting, const qs_plan *plan, qs_schedule **out) {
    const qs_recipe **recipe = NULL;
    qs_tensor_table tensors = {0};
    qs_status status = QS_OK;
    QS_GOTO(plan_check(setting, plan));
    QS_GOTO(qs_plan_bind(plan, setting->class_->name, setting->graph, &recipe));
    QS_GOTO(qs_tensors_bind(qs_plan_class(plan, setting->class_->name), setting->graph, &tensors));
    const qs_lowering lowering = {.graph = setting->graph,
                                  .batch = setting->job->batch,
                                  .mode = QS_MODE_TRAIN,
                                  .job = setting->job,
                                  .recipe = recipe,
                                  .half = qs_class_half(setting->class_),
                                  .tensors = &tensors,
                                  .joins = qs_device_joins(setting->device),
                                  .lookup = qs_lookup_device,
                                  .context = setting->device};
    QS_GOTO(qs_schedule_lower(&lowering, out));
done:
    qs_tensor_table_release(&tensors);
    free(recipe);
    return status;
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

/* Lowers a copy of `choice` and keeps it. */
static qs_status mix_add(const qs__setting *setting, qs__cases *cases, const unsigned char *choice, qs__mixes *mixes) {
    const size_t nodes = (size_t)setting->graph->nodes;
    qs_schedule *schedule = NULL;
    QS_TRY(qs_grow(&mixes->mix, &mixes->capacity, (size_t)mixes->count + 1, sizeof *mixes->mix));
    QS_TRY(qs__mix_lower(setting, cases, choice, QS_MODE_TRAIN, setting->job->batch, &schedule));
    qs__mix *mix = &mixes->mix[mixes->count++];
    qs_status status = qs_allocate(nodes, 1, &mix->choice);
    if (status == QS_OK) {
        memcpy(mix->choice, choice, nodes);
        mix->arena_bytes = schedule->arena_bytes;
        status = kernels_list(cases, schedule, mix);
    }
    qs_schedule_release(schedule);
    return status;
}

qs_status qs__mixes_list(const qs__setting *setting, qs__cases *cases, qs__mixes *out) {
    const qs_graph *graph = setting->graph;
    const qs_lowering lowering = {.graph = graph,
                                  .batch = setting->job->batch,
                                  .mode = QS_MODE_TRAIN,
                                  .job = setting->job,
                                  .half = qs_class_half(setting->class_),
                                  .joins = qs_device_joins(setting->device)};
    qs_case_plans plans = {0};
    unsigned char *choice = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)graph->nodes, 1, &choice));
    for (int r = 0; r < setting->recipes; r++) {
        for (int n = graph->samples.inputs; n < graph->nodes; n++)
            if (graph->node[n].op->kind == QS_ADJUSTABLE) choice[n] = (unsigned char)r;
        QS_GOTO(qs_fail_within(mix_add(setting, cases, choice, out), "recipe %s", setting->recipe[r].name));
    }
    /* The highest recipe everywhere, for planners that assign formats to tensors. */
    memset(choice, 0, (size_t)graph->nodes);
    choice[APART] = 1;
    if (qs__class_emulates(setting->class_)) QS_GOTO(mix_add(setting, cases, choice, out));
    /* Two recipes in turn: many operators of a block then differ from their neighbours, so few such plans hold many cases. */
    choice[APART] = 0;
    for (int a = 0; a < setting->recipes; a++)
        for (int b = 0; b < setting->recipes; b++) {
            for (int n = graph->samples.inputs, turn = 0; n < graph->nodes; n++)
                if (graph->node[n].op->kind == QS_ADJUSTABLE) choice[n] = (unsigned char)(turn++ % 2 ? a : b);
            if (a != b) QS_GOTO(mix_add(setting, cases, choice, out));
        }
    if (setting->recipes > 1) QS_GOTO(qs_schedule_case_plans(&lowering, setting->recipes, setting->recipe, &plans));
    for (int p = 0; p < plans.plans; p++)
        QS_GOTO(mix_add(setting, cases, plans.choice + (size_t)p * (size_t)plans.nodes, out));
done:
    qs_case_plans_release(&plans);
    free(choice);
    return status;
}

qs_status qs__mixes_repeat(const qs__setting *setting, const qs__mixes *like, qs__cases *cases, qs__mixes *out) {
    for (int i = 0; i < like->count; i++)
        QS_TRY(mix_add(setting, cases, like->mix[i].choice, out));
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

/* What a plan adds: a case that no chosen plan contains counts most. */
static double gain(const qs__mix *mix, const int *covered) {
    double sum = 0;
    for (int i = 0; i < mix->kernels; i++)
        if (covered[mix->kernel[i]] < QS__WANTED_PLANS) sum += ldexp(1, -4 * covered[mix->kernel[i]]);
    return sum;
}

qs_status qs__mixes_cover(const qs__setting *setting, const qs__cases *cases, const qs__mixes *mixes, int most, int *chosen,
                          int *chosen_count) {
    const int first = setting->recipes + qs__class_emulates(setting->class_);
    int *covered = NULL, count = 0;
    QS_TRY(qs_allocate((size_t)cases->count, sizeof *covered, &covered));
    for (int i = 0; i < cases->count; i++)
        covered[i] = cases->entry[i].elsewhere.kernel_us.count > 0 ? QS__WANTED_PLANS : 0;
    for (; count < first && count < most; count++) {
        chosen[count] = count;
        cover(&mixes->mix[count], covered);
    }
    while (setting->recipes > 1 && count < most) {
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

/* ---- What places in plans showed ---- */

qs_status qs__cold_bytes(const qs_schedule *schedule, int64_t *cold) {
    int64_t *one = NULL;
    qs_status status = qs_allocate((size_t)schedule->steps, sizeof *one, &one);
    for (int c = 0; c < QS__CACHES && status == QS_OK; c++) {
        status = qs_schedule_cold_bytes(schedule, qs__cache_bytes[c], one);
        for (int s = 0; s < schedule->steps; s++)
            cold[s * QS__CACHES + c] = one[s];
    }
    free(one);
    return status;
}

qs_status qs__place_keep(qs__cases *cases, const qs_step *step, const int64_t *cold, double us, double alone_us) {
    qs__entry *entry = &cases->entry[qs__cases_find(cases, step->case_text)];
    /* Company never makes a kernel faster: a ratio above 1 is noise. */
    if (alone_us > 0 && us > 0) QS_TRY(qs__samples_add(&entry->alone, fmin(alone_us / us, 1)));
    if (step->conversion) return qs__samples_add(&entry->conversion_us, us);
    for (int c = 0; c < QS__CACHES; c++)
        QS_TRY(qs__samples_add(&entry->cold[c], (double)cold[c]));
    return qs__samples_add(&entry->kernel_us, us);
}
