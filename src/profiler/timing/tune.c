// SPDX-License-Identifier: Apache-2.0
/* Which of a case's kernels is the fastest where it is used: inside training steps, between the kernels that run before and after it there.
 *
 * Plans are run until every case that has a choice was in one of them. A plan is lowered once for each number of a candidate, all cases
 * taking theirs of that number, and these variants run in turn, a step each, round after round. Only times of one round are compared. */
#include "timing/timing.h"

#include <stdlib.h>
#include <string.h>

static const double worthwhile = 0.98; /* of the usual kernel's time */

/* The candidates of one case. */
typedef struct contest {
    int entry;  /* in the tuner's cases */
    int places; /* in all plans that were run */
    int candidates;
    qs_kernel_fact fact[QS_MOST_CANDIDATES];
    qs__samples us[QS_MOST_CANDIDATES];    /* at a place, a value for each plan and round */
    qs__samples ratio[QS_MOST_CANDIDATES]; /* over the first candidate's time in that plan and round */
} contest;

/* A plan whose cases take their candidate of one number. */
typedef struct variant {
    qs_schedule *schedule;
    qs_executor *executor;
    qs_timeline timeline;
    const int *contest; /* (steps) that a step belongs to, -1: none; the same for all variants */
    double *us;         /* (contests) in the step at hand, all its places together */
} variant;

typedef struct tuner {
    const qs_tune_options *options;
    qs__setting setting; /* job, device, class, recipes and graph */
    qs__cases cases;
    qs__mixes mixes;
    contest *contest;
    int contests, most; /* most: candidates that a case has */
    int *of_entry;      /* (cases) its contest; -1: it has no choice */
    int plans;
    variant variant[QS_MOST_CANDIDATES];
    int *contest_of_step, *places; /* (steps), (contests) of the plan at hand */
    qs_memory *memory;
    int64_t steps;
} tuner;

void qs_tune_options_default(qs_tune_options *out) {
    *out = (qs_tune_options){.rounds = 12};
}

/* ---- Cases with a choice ---- */

static qs_status start(tuner *all, qs_device *device) {
    const qs_tune_options *options = all->options;
    qs__setting *setting = &all->setting;
    if (options->rounds < 6) return qs_fail(QS_USAGE, "rounds %d: fewer than 6 tell no kernel from another", options->rounds);
    if (options->recipes > QS__MOST_RECIPES) return qs_fail(QS_USAGE, "%d recipes: at most %d", options->recipes, QS__MOST_RECIPES);
    setting->job = options->job;
    setting->device = device;
    setting->class_ = options->class_;
    all->cases.device = device;
    setting->recipes = options->recipes;
    if (options->recipes > 0) memcpy(setting->recipe, options->recipe, (size_t)options->recipes * sizeof *options->recipe);
    if (options->recipes == 0) QS_TRY(qs_class_recipes(options->class_, QS__MOST_RECIPES, setting->recipe, &setting->recipes));
    qs_data_description set;
    const bool shaped = options->job->dataset[0] != '\0';
    if (shaped) QS_TRY(qs_dataset_describe(options->job->dataset, NULL, &set));
    QS_TRY(qs_model_open_frozen(options->job->model, options->job->freeze, shaped ? &set.samples : NULL, &setting->opened));
    setting->graph = setting->opened;
    QS_TRY(qs_comm_open("self", &setting->self));
    return qs__mixes_list(setting, &all->cases, &all->mixes);
}

static qs_status contests_list(tuner *all) {
    const qs__cases *cases = &all->cases;
    QS_TRY(qs_allocate((size_t)cases->count, sizeof *all->contest, &all->contest));
    QS_TRY(qs_allocate((size_t)cases->count, sizeof *all->of_entry, &all->of_entry));
    for (int i = 0; i < cases->count; i++) {
        contest *one = &all->contest[all->contests];
        all->of_entry[i] = -1;
        if (!cases->entry[i].as_kernel) continue;
        QS_TRY(qs_device_candidates(all->setting.device, &cases->entry[i].case_, one->fact, &one->candidates));
        if (one->candidates < 2) continue;
        one->entry = i;
        if (one->candidates > all->most) all->most = one->candidates;
        all->of_entry[i] = all->contests++;
    }
    return QS_OK;
}

/* ---- One plan ---- */

static void contests_add(const variant *one) {
    for (int step = 0; step < one->schedule->steps; step++)
        if (one->contest[step] >= 0) one->us[one->contest[step]] += 1e6 * qs_timeline_seconds(&one->timeline, step);
}

/* A case with fewer candidates runs one of them again: it is not counted. */
static void candidates_set(tuner *all, int number) {
    for (int k = 0; k < all->contests; k++) {
        const contest *one = &all->contest[k];
        const qs_kernel_fact *fact = &one->fact[number % one->candidates];
        qs_kernel_row *row = &all->cases.entry[one->entry].row;
        *row = (qs_kernel_row){.scratch_bytes = fact->scratch_bytes, .allocates = fact->allocates};
        memcpy(row->kernel, fact->kernel, sizeof row->kernel);
    }
}

static qs_status steps_sort(tuner *all, const qs_schedule *schedule) {
    QS_TRY(qs_allocate((size_t)schedule->steps, sizeof *all->contest_of_step, &all->contest_of_step));
    QS_TRY(qs_allocate((size_t)all->contests, sizeof *all->places, &all->places));
    for (int s = 0; s < schedule->steps; s++) {
        const qs_step *step = &schedule->step[s];
        const bool counts = step->kind == QS_STEP_KERNEL && !step->conversion;
        const int index = counts ? all->of_entry[qs__cases_find(&all->cases, step->case_text)] : -1;
        all->contest_of_step[s] = index;
        if (index >= 0) all->places[index]++;
    }
    return QS_OK;
}

static qs_status variants_lower(tuner *all, const qs__mix *mix, size_t *bytes) {
    for (int number = 0; number < all->most; number++) {
        qs_schedule **schedule = &all->variant[number].schedule;
        candidates_set(all, number);
        QS_TRY(qs__mix_lower(&all->setting, &all->cases, mix->choice, QS_MODE_TRAIN, all->options->job->batch, schedule));
        if ((*schedule)->arena_bytes > *bytes) *bytes = (*schedule)->arena_bytes;
    }
    return steps_sort(all, all->variant[0].schedule);
}

static void plan_end(tuner *all) {
    for (int number = 0; number < QS_MOST_CANDIDATES; number++) {
        qs_executor_release(all->variant[number].executor);
        qs_schedule_release(all->variant[number].schedule);
        qs_timeline_release(&all->variant[number].timeline);
        free(all->variant[number].us);
        all->variant[number] = (variant){0};
    }
    qs_memory_release(all->memory);
    all->memory = NULL;
    free(all->contest_of_step);
    free(all->places);
    all->contest_of_step = all->places = NULL;
}

/* ---- Rounds ---- */

static qs_status round_keep(tuner *all) {
    for (int k = 0; k < all->contests; k++) {
        contest *one = &all->contest[k];
        for (int c = 0; c < one->candidates && all->places[k] > 0; c++) {
            QS_TRY(qs__samples_add(&one->us[c], all->variant[c].us[k] / all->places[k]));
            QS_TRY(qs__samples_add(&one->ratio[c], all->variant[c].us[k] / all->variant[0].us[k]));
        }
    }
    return QS_OK;
}

/* To and fro: what the variant before left in caches is not always the same. The first round makes code and tables. Learning rate 0:
 * weights stay ordinary, and the same for all. */
static qs_status rounds_run(tuner *all) {
    const int64_t batch = all->options->job->batch;
    qs_run run = {.seed = all->options->job->seed, .samples = batch, .global_samples = batch, .loss_scale = 1};
    for (int round = -1; round < all->options->rounds; round++) {
        for (int i = 0; i < all->most; i++) {
            variant *one = &all->variant[round & 1 ? all->most - 1 - i : i];
            run.step = (uint64_t)all->steps++;
            memset(one->us, 0, (size_t)all->contests * sizeof *one->us);
            QS_TRY(qs__inputs_fill(all->setting.graph, one->schedule, one->executor));
            QS_TRY(qs_executor_run(one->executor, &run));
            contests_add(one);
        }
        if (round >= 0) QS_TRY(round_keep(all));
    }
    for (int k = 0; k < all->contests; k++)
        all->contest[k].places += all->places[k];
    all->plans++;
    return QS_OK;
}

static qs_status plan_time(tuner *all, const qs__mix *mix) {
    size_t bytes = 0;
    qs_status status = QS_OK;
    QS_GOTO(variants_lower(all, mix, &bytes));
    QS_GOTO(qs_memory_reserve(all->setting.device, bytes, &all->memory));
    for (int number = 0; number < all->most; number++) {
        variant *one = &all->variant[number];
        one->contest = all->contest_of_step;
        QS_GOTO(qs_allocate((size_t)all->contests, sizeof *one->us, &one->us));
        QS_GOTO(qs_executor_create(one->schedule, all->setting.device, all->setting.self, all->memory, &one->executor));
        QS_GOTO(qs_timeline_create(one->schedule, &one->timeline));
        qs_executor_time(one->executor, &one->timeline);
    }
    QS_GOTO(qs_executor_initialize(all->variant[0].executor, all->setting.graph, all->options->job->seed));
    status = rounds_run(all);
done:
    plan_end(all);
    return status;
}

/* ---- All plans ---- */

/* Those with a case that no plan before has; uniform ones come first. */
static int plans_choose(const tuner *all, bool *contained, int *chosen) {
    const qs__mixes *mixes = &all->mixes;
    int count = 0;
    for (int m = 0; m < mixes->count; m++) {
        bool fresh = false;
        for (int i = 0; i < mixes->mix[m].kernels; i++) {
            const int index = all->of_entry[mixes->mix[m].kernel[i]];
            if (index < 0 || contained[index]) continue;
            contained[index] = fresh = true;
        }
        if (fresh) chosen[count++] = m;
    }
    return count;
}

static qs_status plans_time(tuner *all) {
    const qs_tune_options *options = all->options;
    bool *contained = NULL;
    int *chosen = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)all->contests, sizeof *contained, &contained));
    QS_GOTO(qs_allocate((size_t)all->mixes.count, sizeof *chosen, &chosen));
    const int plans = plans_choose(all, contained, chosen);
    for (int p = 0; p < plans; p++) {
        if (options->progress) options->progress(options->progress_context, options->job->model, (double)p / plans);
        QS_GOTO(plan_time(all, &all->mixes.mix[chosen[p]]));
    }
done:
    free(contained);
    free(chosen);
    return status;
}

/* ---- The answer ---- */

int qs__fastest_of(int candidates, qs__samples *ratio) {
    int best = 0;
    double least = 1;
    for (int c = 1; c < candidates; c++) {
        const double most = qs__median_at_most(&ratio[c]), median = qs__quartiles_of(ratio[c].count, ratio[c].value).median;
        if (most > worthwhile || median >= least) continue;
        best = c;
        least = median;
    }
    return best;
}

static qs_status row_fill(tuner *all, contest *one, qs_tune_result *result) {
    qs_tune_row *row = &result->row[result->rows];
    QS_TRY(qs_format_text(&row->case_text, "%s", all->cases.entry[one->entry].text));
    result->rows++;
    row->candidates = one->candidates;
    for (int c = 0; c < one->candidates; c++) {
        memcpy(row->kernel[c], one->fact[c].kernel, sizeof row->kernel[c]);
        row->us[c] = qs__quartiles_of(one->us[c].count, one->us[c].value).median;
    }
    row->chosen = qs__fastest_of(one->candidates, one->ratio);
    result->usual_us += row->us[0] * one->places / all->plans;
    result->chosen_us += row->us[row->chosen] * one->places / all->plans;
    return QS_OK;
}

static int by_case(const void *left, const void *right) {
    const qs_tune_row *a = left, *b = right;
    return strcmp(a->case_text, b->case_text);
}

void qs_tune_release(qs_tune_result *result) {
    for (int i = 0; i < result->rows; i++)
        free(result->row[i].case_text);
    free(result->row);
    *result = (qs_tune_result){0};
}

qs_status qs_tune_measure(const qs_tune_options *options, qs_device *device, qs_tune_result *out) {
    tuner *all = NULL;
    qs_tune_result result = {0};
    qs_status status = QS_OK;
    QS_TRY(qs_allocate(1, sizeof *all, &all));
    all->options = options;
    QS_GOTO(start(all, device));
    QS_GOTO(contests_list(all));
    QS_GOTO(plans_time(all));
    QS_GOTO(qs_allocate((size_t)all->contests, sizeof *result.row, &result.row));
    for (int k = 0; k < all->contests; k++)
        QS_GOTO(row_fill(all, &all->contest[k], &result));
    qsort(result.row, (size_t)result.rows, sizeof *result.row, by_case);
    *out = result;
    result = (qs_tune_result){0};
done:
    qs_tune_release(&result);
    for (int k = 0; k < all->contests; k++)
        for (int c = 0; c < QS_MOST_CANDIDATES; c++) {
            free(all->contest[k].us[c].value);
            free(all->contest[k].ratio[c].value);
        }
    free(all->contest);
    free(all->of_entry);
    qs__mixes_release(&all->mixes);
    qs__cases_release(&all->cases);
    qs_graph_release(all->setting.opened);
    qs_comm_close(all->setting.self);
    free(all);
    return status;
}
