// SPDX-License-Identifier: Apache-2.0
/* plan.json: which recipe every operator of every class runs, with which kernels, and what that was predicted to cost. Written by planners
 * or by hand: what only a planner can know (signatures, kernels, schedule, predictions, reasons) may be absent. */
#include "record_internal.h"

#include <stdlib.h>
#include <string.h>

static const char default_recipe[] = "fp32";

/* ---- Recipes --------------------------------------------------------------------------------------------------------------- */

static bool has_recipe(const qs_plan *plan, const char *name) {
    return qs_plan_recipe(plan, name) != NULL;
}

static qs_status append_recipe(qs_plan *plan, const qs_recipe *recipe) {
    size_t capacity = (size_t)plan->recipes;
    QS_TRY(qs_grow(&plan->recipe, &capacity, (size_t)plan->recipes + 1, sizeof *plan->recipe));
    plan->recipe[plan->recipes++] = *recipe;
    return QS_OK;
}

static qs_status read_recipe(const qs__place *member, int index, void *context) {
    qs_plan *plan = context;
    QS_TRY(qs__recipe_read(member, &plan->recipe[index]));
    plan->recipes = index + 1;
    return QS_OK;
}

static qs_status read_recipes(const qs__place *root, qs_plan *plan) {
    qs__place recipes = qs__field(root, "recipes");
    if (!recipes.value) return QS_OK;
    QS_TRY(qs__expect_object(&recipes));
    QS_TRY(qs__members_create(&recipes, sizeof(qs_recipe), &plan->recipe));
    return qs__each_member(&recipes, read_recipe, plan);
}

static void list_recipes(const qs_plan *plan, char *text, size_t capacity) {
    size_t used = 0;
    *text = '\0';
    for (int i = 0; i < plan->recipes && used < capacity; i++) {
        used += (size_t)snprintf(text + used, capacity - used, "%s%s", i ? ", " : "", plan->recipe[i].name);
    }
}

/* Makes sure that the plan has the recipe an operator names, taking it from the built-in ones if need be. */
static qs_status need_recipe(const qs__place *place, qs_plan *plan, const char *name) {
    qs_recipe builtin;
    if (has_recipe(plan, name)) return QS_OK;
    if (qs_recipe_builtin(name, &builtin) == QS_OK) {
        snprintf(builtin.name, sizeof builtin.name, "%s", name); /* as the operator spells it: "int(8)/bf16" */
        return append_recipe(plan, &builtin);
    }
    char known[512];
    list_recipes(plan, known, sizeof known);
    return qs__refuse_field(place, "recipe \"%s\" is not in recipes (%s) and not built in (%s)", name, known, qs__recipe_names);
}

/* Operators that a plan does not name run in fp32, so that recipe is always there. */
static qs_status need_default_recipe(qs_plan *plan) {
    qs_recipe recipe;
    if (has_recipe(plan, default_recipe)) return QS_OK;
    QS_TRY(qs_recipe_builtin(default_recipe, &recipe));
    return append_recipe(plan, &recipe);
}

/* ---- Reading: classes ------------------------------------------------------------------------------------------------------ */

typedef struct class_reader {
    qs_plan *plan;
    qs_class_plan *one;
} class_reader;

/* "recipe" or {"recipe": ..., "pin": true, "accumulator": {...}}. */
static qs_status read_choice(const qs__place *member, int index, void *context) {
    class_reader *reader = context;
    qs_operator_choice *out = &reader->one->operator_[index];
    QS_TRY(qs__take_key(member, out->name, sizeof out->name));
    if (json_is_object(member->value)) {
        QS_TRY(qs__expect_fields(member, "recipe", "pin accumulator"));
        QS_TRY(qs__get_name(member, "recipe", out->recipe, sizeof out->recipe));
        QS_TRY(qs__get_flag(member, "pin", &out->pin));
    } else {
        QS_TRY(qs__take_text(member, out->recipe, sizeof out->recipe));
    }
    reader->one->operators = index + 1;
    QS_TRY(need_recipe(member, reader->plan, out->recipe));
    return qs__accumulators_read(member, qs_plan_recipe(reader->plan, out->recipe), out);
}

static qs_status read_tensor(const qs__place *member, int index, void *context) {
    (void)index;
    return qs__tensor_read(member, ((class_reader *)context)->one);
}

static qs_status read_kernel(const qs__place *member, int index, void *context) {
    qs_class_plan *one = ((class_reader *)context)->one;
    qs_plan_kernel *out = &one->kernel[index];
    if (!*member->key) return qs__refuse_field(member, "a case must not be empty");
    QS_TRY(qs__expect_fields(member, "kernel scratch_bytes allocates", ""));
    QS_TRY(qs__get_name(member, "kernel", out->kernel, sizeof out->kernel));
    QS_TRY(qs__get_integer(member, "scratch_bytes", 0, INT64_MAX, &out->scratch_bytes));
    QS_TRY(qs__get_flag(member, "allocates", &out->allocates));
    QS_TRY(qs_format_text(&out->case_text, "%s", member->key));
    one->kernels = index + 1;
    return QS_OK;
}

static qs_status read_reason(const qs__place *member, int index, void *context) {
    qs_class_plan *one = ((class_reader *)context)->one;
    qs_operator_reason *out = &one->reason[index];
    QS_TRY(qs__take_key(member, out->name, sizeof out->name));
    QS_TRY(qs__expect_fields(member, "stopped_by time_us bytes omega", "next"));
    QS_TRY(qs__get_name(member, "stopped_by", out->stopped_by, sizeof out->stopped_by));
    QS_TRY(qs__get_name(member, "next", out->next, sizeof out->next));
    QS_TRY(qs__get_number(member, "time_us", -INFINITY, INFINITY, &out->time_us));
    QS_TRY(qs__get_integer(member, "bytes", INT64_MIN, INT64_MAX, &out->bytes));
    QS_TRY(qs__get_number(member, "omega", -INFINITY, INFINITY, &out->omega));
    one->reasons = index + 1;
    return QS_OK;
}

/* The phases by name, in the order in which they are written. */
typedef struct phase_field {
    const char *name;
    size_t offset;
} phase_field;
static const phase_field phase_fields[] = {
    {"forward_us", offsetof(qs_phase_times, forward_us)}, {"backward_us", offsetof(qs_phase_times, backward_us)},
    {"cast_us", offsetof(qs_phase_times, cast_us)},       {"communication_us", offsetof(qs_phase_times, communication_us)},
    {"waiting_us", offsetof(qs_phase_times, waiting_us)}, {"optimizer_us", offsetof(qs_phase_times, optimizer_us)},
    {"data_us", offsetof(qs_phase_times, data_us)}};
enum { PHASES = sizeof phase_fields / sizeof *phase_fields };

static qs_status read_phases(const qs__place *predicted, qs_phase_times *out) {
    qs__place phases = qs__field(predicted, "phases");
    if (!phases.value) return QS_OK;
    QS_TRY(qs__expect_fields(&phases, "forward_us backward_us cast_us communication_us waiting_us optimizer_us data_us", ""));
    for (int i = 0; i < PHASES; i++)
        QS_TRY(qs__get_number(&phases, phase_fields[i].name, 0, INFINITY, (double *)((char *)out + phase_fields[i].offset)));
    return QS_OK;
}

static qs_status read_predicted(const qs__place *member, qs_class_plan *out) {
    qs__place predicted = qs__field(member, "predicted");
    if (!predicted.value) return QS_OK;
    QS_TRY(qs__expect_fields(&predicted, "iteration_us compute_us waiting_us memory sum_omega", "lower_bound phases"));
    QS_TRY(qs__get_number(&predicted, "iteration_us", 0, INFINITY, &out->predicted.iteration_us));
    QS_TRY(qs__get_number(&predicted, "compute_us", 0, INFINITY, &out->predicted.compute_us));
    QS_TRY(qs__get_number(&predicted, "waiting_us", -INFINITY, INFINITY, &out->predicted.waiting_us));
    QS_TRY(qs__get_number(&predicted, "sum_omega", -INFINITY, INFINITY, &out->predicted.sum_omega));
    QS_TRY(qs__get_number(&predicted, "lower_bound", -INFINITY, INFINITY, &out->predicted.lower_bound));
    QS_TRY(read_phases(&predicted, &out->predicted.phases));
    qs__place memory = qs__field(&predicted, "memory");
    QS_TRY(qs__expect_fields(&memory, "arena communication base", "program"));
    QS_TRY(qs__get_integer(&memory, "arena", 0, INT64_MAX, &out->predicted.arena_bytes));
    QS_TRY(qs__get_integer(&memory, "communication", 0, INT64_MAX, &out->predicted.communication_bytes));
    QS_TRY(qs__get_integer(&memory, "base", 0, INT64_MAX, &out->predicted.base_bytes));
    return qs__get_integer(&memory, "program", 0, INT64_MAX, &out->predicted.program_bytes);
}

/* An object of named members, which may be absent: allocates *array and reads each. */
static qs_status read_table(const qs__place *object, const char *key, size_t size, void *array, qs__member_reader read,
                            class_reader *reader) {
    qs__place table = qs__field(object, key);
    if (!table.value) return QS_OK;
    QS_TRY(qs__expect_object(&table));
    QS_TRY(qs__members_create(&table, size, array));
    return qs__each_member(&table, read, reader);
}

static qs_status read_class(const qs__place *member, int index, void *context) {
    qs_plan *plan = context;
    qs_class_plan *out = &plan->class_[index];
    class_reader reader = {plan, out};
    plan->classes = index + 1;
    QS_TRY(qs__take_key(member, out->class_name, sizeof out->class_name));
    QS_TRY(qs__expect_fields(member, "operators", "batch tensors assignment kernels schedule predicted why"));
    QS_TRY(qs__get_integer(member, "batch", 0, INT32_MAX, &out->batch));
    QS_TRY(read_table(member, "operators", sizeof(qs_operator_choice), &out->operator_, read_choice, &reader));
    QS_TRY(read_table(member, "tensors", sizeof(qs_tensor_choice), &out->tensor, read_tensor, &reader));
    QS_TRY(qs__assignment_read(member, &out->assignment));
    QS_TRY(read_table(member, "kernels", sizeof(qs_plan_kernel), &out->kernel, read_kernel, &reader));
    QS_TRY(qs__get_name(member, "schedule", out->schedule, sizeof out->schedule));
    QS_TRY(read_predicted(member, out));
    return read_table(member, "why", sizeof(qs_operator_reason), &out->reason, read_reason, &reader);
}

/* ---- Reading: the whole ---------------------------------------------------------------------------------------------------- */

static qs_status read_job(const qs__place *root, qs_plan *out) {
    qs__place job = qs__field(root, "job");
    qs_job_default(&out->job);
    out->without_job = !job.value;
    return job.value ? qs__job_read(&job, false, &out->job) : QS_OK;
}

/* The job's signature guards against a job edited under a planner's predictions. */
static qs_status check_job_signature(const qs__place *signature, const qs_plan *plan) {
    char stated[32] = "", actual[32];
    QS_TRY(qs__get_name(signature, "job", stated, sizeof stated));
    if (!*stated || strcmp(stated, qs_job_signature(&plan->job, actual)) == 0) return QS_OK;
    qs__place field = qs__field(signature, "job");
    return qs__refuse_field(&field, "%s is not the job's (%s): the job was changed after planning; plan again or remove \"signature\"",
                            stated, actual);
}

static qs_status read_signature(const qs__place *root, qs_plan *out) {
    qs__place signature = qs__field(root, "signature");
    if (!signature.value) return QS_OK;
    QS_TRY(qs__expect_fields(&signature, "", "graph cluster profile job"));
    QS_TRY(qs__get_name(&signature, "graph", out->graph, sizeof out->graph));
    QS_TRY(qs__get_name(&signature, "cluster", out->cluster, sizeof out->cluster));
    QS_TRY(qs__get_name(&signature, "profile", out->profile, sizeof out->profile));
    return check_job_signature(&signature, out);
}

static qs_status read_pace(const qs__place *member, int index, void *context) {
    qs_class_pace *out = &((qs_class_pace *)context)[index];
    QS_TRY(qs__take_key(member, out->class_name, sizeof out->class_name));
    return qs__take_number(member, 0, INFINITY, &out->images_per_second);
}

/* An object of class names with images per second, which may be absent. */
static qs_status read_paces(const qs__place *root, const char *key, int *count, qs_class_pace **out) {
    qs__place table = qs__field(root, key);
    if (!table.value) return QS_OK;
    QS_TRY(qs__expect_object(&table));
    QS_TRY(qs__members_create(&table, sizeof **out, out));
    QS_TRY(qs__each_member(&table, read_pace, *out));
    *count = (int)json_object_size(table.value);
    return QS_OK;
}

static qs_status fill(const qs__place *root, qs_plan *out) {
    QS_TRY(qs__expect_fields(root, "schema classes", "planner signature job images_per_second without left_out recipes"));
    QS_TRY(qs__get_name(root, "planner", out->planner, sizeof out->planner));
    QS_TRY(qs__get_number(root, "images_per_second", 0, INFINITY, &out->images_per_second));
    QS_TRY(read_paces(root, "without", &out->withouts, &out->without));
    QS_TRY(read_paces(root, "left_out", &out->left_outs, &out->left_out));
    QS_TRY(read_job(root, out));
    QS_TRY(read_signature(root, out));
    QS_TRY(read_recipes(root, out));
    qs__place classes = qs__field(root, "classes");
    QS_TRY(qs__expect_object(&classes));
    QS_TRY(qs__members_create(&classes, sizeof(qs_class_plan), &out->class_));
    QS_TRY(qs__each_member(&classes, read_class, out));
    return need_default_recipe(out);
}

static qs_status read_root(const qs__place *root, qs_plan *out) {
    qs_plan plan = {0};
    qs_status status = fill(root, &plan);
    json_decref(root->value);
    if (status == QS_OK) {
        *out = plan;
    } else {
        qs_plan_release(&plan);
    }
    return status;
}

qs_status qs_plan_read(const char *path, qs_plan *out) {
    qs__place root;
    QS_TRY(qs__record_load(path, "plan", &root));
    return read_root(&root, out);
}

qs_status qs_plan_parse(const char *json, const char *source, qs_plan *out) {
    qs__place root;
    QS_TRY(qs__record_parse(json, strlen(json), source, "plan", &root));
    return read_root(&root, out);
}

/* ---- Writing --------------------------------------------------------------------------------------------------------------- */

static bool adds_by_itself(const qs_operator_choice *choice) {
    for (qs_gemm gemm = 0; gemm < QS_GEMMS; gemm++)
        if (choice->adds[gemm]) return true;
    return false;
}

static void write_choice(qs__writer *writer, const qs_operator_choice *choice) {
    if (!choice->pin && !adds_by_itself(choice)) {
        qs__put_text(writer, choice->name, choice->recipe);
        return;
    }
    qs__open_object(writer, choice->name, QS__ONE_LINE);
    qs__put_text(writer, "recipe", choice->recipe);
    if (choice->pin) qs__put_flag(writer, "pin", true);
    if (adds_by_itself(choice)) qs__accumulators_write(writer, choice);
    qs__close(writer);
}

static void write_kernels(qs__writer *writer, const qs_class_plan *one) {
    qs__open_object(writer, "kernels", QS__LINES);
    for (int i = 0; i < one->kernels; i++) {
        qs__open_object(writer, one->kernel[i].case_text, QS__ONE_LINE);
        qs__put_text(writer, "kernel", one->kernel[i].kernel);
        qs__put_integer(writer, "scratch_bytes", one->kernel[i].scratch_bytes);
        qs__put_flag(writer, "allocates", one->kernel[i].allocates);
        qs__close(writer);
    }
    qs__close(writer);
}

static bool is_predicted(const qs_class_plan *one) {
    return one->predicted.iteration_us != 0 || one->predicted.compute_us != 0 || one->predicted.waiting_us != 0 ||
           one->predicted.arena_bytes != 0 || one->predicted.communication_bytes != 0 || one->predicted.base_bytes != 0 ||
           one->predicted.sum_omega != 0 || one->predicted.lower_bound != 0;
}

static void write_phases(qs__writer *writer, const qs_phase_times *phases) {
    const qs_phase_times none = {0};
    if (memcmp(phases, &none, sizeof none) == 0) return;
    qs__open_object(writer, "phases", QS__ONE_LINE);
    for (int i = 0; i < PHASES; i++)
        qs__put_number(writer, phase_fields[i].name, *(const double *)((const char *)phases + phase_fields[i].offset));
    qs__close(writer);
}

static void write_predicted(qs__writer *writer, const qs_class_plan *one) {
    qs__open_object(writer, "predicted", QS__LINES);
    qs__put_number(writer, "iteration_us", one->predicted.iteration_us);
    qs__put_number(writer, "compute_us", one->predicted.compute_us);
    qs__put_number(writer, "waiting_us", one->predicted.waiting_us);
    qs__open_object(writer, "memory", QS__ONE_LINE);
    qs__put_integer(writer, "arena", one->predicted.arena_bytes);
    qs__put_integer(writer, "communication", one->predicted.communication_bytes);
    qs__put_integer(writer, "base", one->predicted.base_bytes);
    if (one->predicted.program_bytes > 0) qs__put_integer(writer, "program", one->predicted.program_bytes);
    qs__close(writer);
    qs__put_number(writer, "sum_omega", one->predicted.sum_omega);
    if (one->predicted.lower_bound != 0) qs__put_number(writer, "lower_bound", one->predicted.lower_bound);
    write_phases(writer, &one->predicted.phases);
    qs__close(writer);
}

static void write_reasons(qs__writer *writer, const qs_class_plan *one) {
    qs__open_object(writer, "why", QS__LINES);
    for (int i = 0; i < one->reasons; i++) {
        const qs_operator_reason *reason = &one->reason[i];
        qs__open_object(writer, reason->name, QS__ONE_LINE);
        qs__put_text(writer, "stopped_by", reason->stopped_by);
        if (*reason->next) qs__put_text(writer, "next", reason->next);
        qs__put_number(writer, "time_us", reason->time_us);
        qs__put_integer(writer, "bytes", reason->bytes);
        qs__put_number(writer, "omega", reason->omega);
        qs__close(writer);
    }
    qs__close(writer);
}

static void write_class(qs__writer *writer, const qs_class_plan *one) {
    qs__open_object(writer, one->class_name, QS__LINES);
    if (one->batch > 0) qs__put_integer(writer, "batch", one->batch);
    qs__open_object(writer, "operators", QS__LINES);
    for (int i = 0; i < one->operators; i++)
        write_choice(writer, &one->operator_[i]);
    qs__close(writer);
    qs__tensors_write(writer, one);
    qs__assignment_write(writer, &one->assignment);
    if (one->kernels > 0) write_kernels(writer, one);
    if (*one->schedule) qs__put_text(writer, "schedule", one->schedule);
    if (is_predicted(one)) write_predicted(writer, one);
    if (one->reasons > 0) write_reasons(writer, one);
    qs__close(writer);
}

/* A plan that carries any signature carries the job's as well. */
static void write_signature(qs__writer *writer, const qs_plan *plan) {
    char job[32];
    if (!*plan->graph && !*plan->cluster && !*plan->profile) return;
    qs__open_object(writer, "signature", QS__ONE_LINE);
    if (*plan->graph) qs__put_text(writer, "graph", plan->graph);
    if (*plan->cluster) qs__put_text(writer, "cluster", plan->cluster);
    if (*plan->profile) qs__put_text(writer, "profile", plan->profile);
    qs__put_text(writer, "job", qs_job_signature(&plan->job, job));
    qs__close(writer);
}

static void write_recipes(qs__writer *writer, const qs_plan *plan) {
    qs_recipe fallback;
    qs__open_object(writer, "recipes", QS__LINES);
    for (int i = 0; i < plan->recipes; i++)
        qs__recipe_write(writer, &plan->recipe[i]);
    if (!has_recipe(plan, default_recipe)) {
        qs__writer_fail(writer, qs_recipe_builtin(default_recipe, &fallback));
        qs__recipe_write(writer, &fallback);
    }
    qs__close(writer);
}

static void write_paces(qs__writer *writer, const char *key, int count, const qs_class_pace *pace) {
    if (count == 0) return;
    qs__open_object(writer, key, QS__ONE_LINE);
    for (int i = 0; i < count; i++)
        qs__put_number(writer, pace[i].class_name, pace[i].images_per_second);
    qs__close(writer);
}

qs_status qs_plan_text(const qs_plan *plan, char **json) {
    qs__writer writer = {0};
    qs__record_begin(&writer, "plan");
    if (*plan->planner) qs__put_text(&writer, "planner", plan->planner);
    write_signature(&writer, plan);
    if (!plan->without_job) {
        qs__open_object(&writer, "job", QS__LINES);
        qs__job_write(&writer, &plan->job);
        qs__close(&writer);
    }
    if (plan->images_per_second > 0) qs__put_number(&writer, "images_per_second", plan->images_per_second);
    write_paces(&writer, "without", plan->withouts, plan->without);
    write_paces(&writer, "left_out", plan->left_outs, plan->left_out);
    write_recipes(&writer, plan);
    qs__open_object(&writer, "classes", QS__LINES);
    for (int i = 0; i < plan->classes; i++)
        write_class(&writer, &plan->class_[i]);
    qs__close(&writer);
    return qs__record_finish(&writer, "plan", json);
}

qs_status qs_plan_write(const char *path, const qs_plan *plan) {
    char *json;
    QS_TRY(qs_plan_text(plan, &json));
    return qs__record_save(path, json);
}

/* ---- Asking and releasing -------------------------------------------------------------------------------------------------- */

/* What a planner said of a class, all but its choices. */
static void class_forget(qs_class_plan *one) {
    for (int k = 0; k < one->kernels; k++)
        free(one->kernel[k].case_text);
    free(one->kernel);
    free(one->reason);
    one->kernel = NULL;
    one->reason = NULL;
    one->kernels = one->reasons = 0;
    one->schedule[0] = '\0';
    memset(&one->predicted, 0, sizeof one->predicted);
}

void qs_plan_forget(qs_plan *plan) {
    for (int i = 0; i < plan->classes; i++)
        class_forget(&plan->class_[i]);
    free(plan->without);
    plan->without = NULL;
    plan->withouts = 0;
    plan->planner[0] = plan->graph[0] = plan->cluster[0] = plan->profile[0] = '\0';
    plan->images_per_second = 0;
}

void qs_plan_release(qs_plan *plan) {
    for (int i = 0; i < plan->classes; i++) {
        qs_class_plan *one = &plan->class_[i];
        class_forget(one);
        free(one->operator_);
        free(one->tensor);
    }
    free(plan->class_);
    free(plan->recipe);
    free(plan->without);
    free(plan->left_out);
    *plan = (qs_plan){0};
}

const qs_class_plan *qs_plan_class(const qs_plan *plan, const char *name) {
    for (int i = 0; i < plan->classes; i++) {
        if (strcmp(plan->class_[i].class_name, name) == 0) return &plan->class_[i];
    }
    return NULL;
}

const qs_recipe *qs_plan_recipe(const qs_plan *plan, const char *name) {
    for (int i = 0; i < plan->recipes; i++) {
        if (strcmp(plan->recipe[i].name, name) == 0) return &plan->recipe[i];
    }
    return NULL;
}

const char *qs_class_plan_recipe(const qs_class_plan *plan, const char *operator_name) {
    for (int i = 0; i < plan->operators; i++) {
        if (strcmp(plan->operator_[i].name, operator_name) == 0) return plan->operator_[i].recipe;
    }
    return default_recipe;
}
