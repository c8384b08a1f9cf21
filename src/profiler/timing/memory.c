// SPDX-License-Identifier: Apache-2.0
/* What a training process holds besides arena, data and the library's messages (docs/method.md §4.7).
 *
 * The base is read from a process that has done what every training process does: data are there, fp32 evaluation is bound and was run.
 * Then one uniform plan after the other is lowered, bound and run. Pages of code that come with it belong to the kernels by their names:
 * whatever case needs one first, they are there for all. What the plan's release gives back belonged to its kernels one by one (held); what
 * the heap keeps and what code was generated, a process pays once for each case (shared). The latter two are spread evenly over the cases
 * that a plan brought, so that a mix of plans is priced by its kernels. The heap is read by what is in use in it, since what one plan freed
 * the next one reuses; everything else by its pages. */
#include "timing/timing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

/* ---- Readings -------------------------------------------------------------------------------------------------------------------- */

static double heap_bytes(void) {
#if defined(__GLIBC__) && defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 33)
    const struct mallinfo2 info = mallinfo2();
    return (double)info.uordblks + (double)info.hblkhd;
#endif
#endif
    return 0;
}

typedef struct reading {
    double heap, generated, files; /* bytes in use; resident bytes of generated code, of pages of files */
} reading;

/* "START-END PERMISSIONS OFFSET DEVICE INODE NAME" opens a mapping, "Rss:" tells of it. */
static reading read_now(void) {
    char line[512], permissions[8];
    long long kib = 0, inode = 0;
    reading now = {.heap = heap_bytes()};
    double *sum = NULL;
    FILE *file = fopen("/proc/self/smaps", "re");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%*[0-9a-f]-%*[0-9a-f] %7s %*s %*s %lld", permissions, &inode) == 2)
            sum = inode != 0 ? &now.files : permissions[2] == 'x' ? &now.generated : NULL;
        else if (sum && sscanf(line, "Rss: %lld kB", &kib) == 1)
            *sum += 1024.0 * (double)kib;
    }
    if (file) fclose(file);
    return now;
}

/* ---- Kernels by name -------------------------------------------------------------------------------------------------------------- */

static qs__code *code_of(const qs__memory *memory, const char *kernel) {
    for (int i = 0; i < memory->codes; i++)
        if (strcmp(memory->code[i].kernel, kernel) == 0) return &memory->code[i];
    return NULL;
}

double qs__code_of(const qs__memory *memory, const char *kernel) {
    const qs__code *found = code_of(memory, kernel);
    return found ? found->bytes : 0;
}

/* What grew in the files' pages since the last time goes to this kernel. */
static qs_status code_grown(qs__memory *memory, const char *kernel) {
    const double files = read_now().files;
    if (!code_of(memory, kernel)) {
        QS_TRY(qs_grow(&memory->code, &memory->code_capacity, (size_t)memory->codes + 1, sizeof *memory->code));
        memory->code[memory->codes] = (qs__code){0};
        snprintf(memory->code[memory->codes].kernel, sizeof memory->code->kernel, "%s", kernel);
        memory->codes++;
    }
    code_of(memory, kernel)->bytes += fmax(files - memory->files, 0);
    memory->files = files;
    return QS_OK;
}

typedef struct watched_lookup {
    qs_device *device;
    qs__memory *memory;
    qs_memory *nowhere; /* a line */
} watched_lookup;

/* As qs_lookup_device, with the pages that the answer and a first binding bring. */
static qs_status lookup(void *context, const qs_case *one, const char *case_text, qs_kernel_row *out) {
    const watched_lookup *with = context;
    qs_location operand[QS_MAX_OPERANDS];
    const qs_location nowhere = qs_location_of(with->nowhere, 0); /* bound to, never run on */
    qs_kernel *kernel = NULL;
    QS_TRY(qs_lookup_device(with->device, one, case_text, out));
    if (!code_of(with->memory, out->kernel)) {
        for (int i = 0; i < QS_MAX_OPERANDS; i++)
            operand[i] = i < one->operands && one->operand[i].format ? nowhere : (qs_location){0};
        QS_TRY(qs_device_prepare(with->device, one, out->kernel, operand, nowhere, &kernel));
        qs_kernel_release(kernel);
    }
    return code_grown(with->memory, out->kernel);
}

/* ---- Programs -------------------------------------------------------------------------------------------------------------------- */

typedef struct program {
    qs_schedule *schedule;
    qs_executor *executor;
    const qs_recipe **bound; /* (nodes) */
} program;

static void program_release(program *one) {
    qs_executor_release(one->executor);
    qs_schedule_release(one->schedule);
    free(one->bound);
    *one = (program){0};
}

/* recipe NULL: fp32. `memory` learns what the kernels of a training program bring. */
static qs_status program_lower(const qs__setting *setting, const qs_recipe *recipe, qs_mode mode, qs__memory *memory, program *out) {
    const qs_graph *graph = setting->graph;
    const bool evaluates = mode == QS_MODE_EVALUATION;
    watched_lookup watched = {setting->device, memory, NULL};
    if (!evaluates) QS_TRY(qs_memory_reserve(setting->device, 64, &watched.nowhere));
    QS_TRY(qs_allocate((size_t)graph->nodes, sizeof *out->bound, &out->bound));
    for (int n = graph->samples.inputs; n < graph->nodes; n++)
        if (graph->node[n].op->kind == QS_ADJUSTABLE) out->bound[n] = recipe;
    const qs_lowering lowering = {.graph = graph,
                                  .batch = setting->job->batch,
                                  .mode = mode,
                                  .job = setting->job,
                                  .recipe = out->bound,
                                  .half = evaluates ? qs_format_of("fp32") : qs_class_half(setting->class_),
                                  .joins = qs_device_joins(setting->device),
                                  .lookup = evaluates ? qs_lookup_device : lookup,
                                  .context = evaluates ? (void *)setting->device : (void *)&watched};
    const qs_status status = qs_schedule_lower(&lowering, &out->schedule);
    qs_memory_release(watched.nowhere);
    return status;
}

/* One step, so that code which only runs can touch is touched; the rate is 0. In an arena for this program alone: the mapping is gone when
 * the base is read. */
static qs_status program_try(const qs__setting *setting, program *one) {
    const int64_t batch = setting->job->batch;
    const qs_run run = {.seed = setting->job->seed, .samples = batch, .global_samples = batch, .loss_scale = 1};
    qs_memory *memory = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_memory_reserve(setting->device, one->schedule->arena_bytes, &memory));
    QS_GOTO(qs_executor_create(one->schedule, setting->device, setting->self, memory, &one->executor));
    QS_GOTO(qs_executor_initialize(one->executor, setting->graph, setting->job->seed));
    QS_GOTO(qs__batch_fill(setting, one->executor, 0, batch));
    status = qs_executor_run(one->executor, &run);
done:
    qs_memory_release(memory);
    return status;
}

/* ---- Cases ------------------------------------------------------------------------------------------------------------------------- */

static qs__held *held_find(const qs__memory *memory, const char *text) {
    for (int i = 0; i < memory->count; i++)
        if (strcmp(memory->held[i].text, text) == 0) return &memory->held[i];
    return NULL;
}

static qs_status cases_add(qs__memory *memory, const qs_schedule *schedule, int *kernels) {
    *kernels = 0;
    for (int s = 0; s < schedule->steps; s++) {
        if (schedule->step[s].kind != QS_STEP_KERNEL) continue;
        ++*kernels;
        if (held_find(memory, schedule->step[s].case_text)) continue;
        QS_TRY(qs_grow(&memory->held, &memory->capacity, (size_t)memory->count + 1, sizeof *memory->held));
        memory->held[memory->count] = (qs__held){0};
        QS_TRY(qs_format_text(&memory->held[memory->count].text, "%s", schedule->step[s].case_text));
        memory->count++;
    }
    return QS_OK;
}

/* `grown` stays behind and is the new cases' alone. */
static void bytes_share(qs__memory *memory, int from, double held, double grown) {
    const int added = memory->count - from;
    for (int i = from; i < memory->count; i++) {
        memory->held[i].held_bytes = fmax(held, 0);
        memory->held[i].shared_bytes = fmax(grown, 0) / added;
    }
}

/* A mix has cases that no uniform plan has: they are taken for the mean of the others. */
static void mean_set(qs__memory *memory) {
    qs__held sum = {0};
    for (int i = 0; i < memory->count; i++) {
        sum.held_bytes += memory->held[i].held_bytes;
        sum.shared_bytes += memory->held[i].shared_bytes;
    }
    memory->mean.held_bytes = sum.held_bytes / fmax(memory->count, 1);
    memory->mean.shared_bytes = sum.shared_bytes / fmax(memory->count, 1);
}

const qs__held *qs__held_of(const qs__memory *memory, const char *text) {
    const qs__held *found = held_find(memory, text);
    return found ? found : &memory->mean;
}

/* ---- All of it --------------------------------------------------------------------------------------------------------------------- */

/* Code that only runs brought in: no name tells of it. */
static void code_rest(qs__memory *memory, int from, double files) {
    const int added = memory->codes - from;
    for (int i = from; i < memory->codes; i++)
        memory->code[i].bytes += fmax(files - memory->files, 0) / added;
    memory->files = files;
}

static qs_status recipe_read(const qs__setting *setting, const qs_recipe *recipe, qs__memory *memory) {
    const int cases = memory->count, codes = memory->codes;
    program one = {0};
    int kernels = 1;
    const reading before = read_now();
    memory->files = before.files;
    qs_status status = program_lower(setting, recipe, QS_MODE_TRAIN, memory, &one);
    if (status == QS_OK) status = program_try(setting, &one);
    const reading alive = read_now();
    if (status == QS_OK) status = cases_add(memory, one.schedule, &kernels);
    const double noted = heap_bytes() - alive.heap; /* by the lists, which only profiling has */
    program_release(&one);
    const reading after = read_now();
    const double kept = after.heap - noted - before.heap, generated = after.generated - before.generated;
    code_rest(memory, codes, after.files);
    bytes_share(memory, cases, (alive.heap - before.heap - kept) / kernels, kept + generated);
    return status;
}

qs_status qs__memory_measure(const qs__setting *setting, qs__memory *out) {
    program evaluation = {0};
    qs_status status = QS_OK;
    QS_GOTO(program_lower(setting, NULL, QS_MODE_EVALUATION, out, &evaluation));
    QS_GOTO(program_try(setting, &evaluation));
    qs_heap_trim();
    out->base_bytes = fmax((double)qs_resident_bytes() - setting->data_bytes, 0);
    for (int r = 0; r < setting->recipes; r++)
        QS_GOTO(recipe_read(setting, &setting->recipe[r], out));
    mean_set(out);
done:
    program_release(&evaluation);
    return status;
}

void qs__memory_release(qs__memory *memory) {
    for (int i = 0; i < memory->count; i++)
        free(memory->held[i].text);
    free(memory->held);
    free(memory->code);
    *memory = (qs__memory){0};
}
