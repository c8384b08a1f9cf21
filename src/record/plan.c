// SPDX-License-Identifier: Apache-2.0
/* plan.json: which recipe every operator of every class runs, with which kernels, and what that was predicted to cost. Written by planners
 * or by hand: what only a planner can know (signatures, kernels, schedule, predictions, reasons) may be absent. */
#include <stdlib.h>
#include <string.h>

#include "table.h"

/* ---- An operator ----------------------------------------------------------------------------------------------------------- */

/* Only the operator's own accumulators are written; what they are read for depends on its recipe (choice_check). */
static bool adds_as_its_recipe(const void *object) {
    const qs_operator_choice *choice = object;
    return !choice->adds[QS_GEMM_FORWARD] && !choice->adds[QS_GEMM_INPUT_GRADIENT] && !choice->adds[QS_GEMM_WEIGHT_GRADIENT];
}

static void accumulators_write(qs__writer *writer, const char *name, const void *object) {
    const qs_operator_choice *choice = object;
    char text[QS_NARROW_TEXT];
    qs__open(writer, name, "{}", QS__ONE_LINE);
    for (qs_gemm gemm = 0; gemm < QS_GEMMS; gemm++)
        if (choice->adds[gemm]) qs__put_text(writer, qs_gemm_name(gemm), qs_narrow_text(&choice->accumulator[gemm], text));
    qs__close(writer);
}

static const qs__hook accumulators_hook = {NULL, accumulators_write, adds_as_its_recipe, NULL};

static const qs__field choice_fields[] = {
    {"recipe", QS__NAME, QS__REQUIRED, QS__AT(qs_operator_choice, recipe), .values = "recipe name", .text = "what it runs"},
    {"pin", QS__FLAG, QS__LEFT_OUT, QS__AT(qs_operator_choice, pin), .text = "planners leave a pinned operator alone"},
    {"accumulator", QS__OBJECT, QS__LEFT_OUT, QS__OWN, .hook = &accumulators_hook,
     .values = "object: `forward`, `input_gradient`, `weight_gradient` → accumulator", .absent = "the recipe's",
     .text = "of this operator's GEMMs"},
};

static qs_status recipe_append(qs_plan *plan, const qs_recipe *recipe) {
    size_t capacity = (size_t)plan->recipes;
    QS_TRY(qs_grow(&plan->recipe, &capacity, (size_t)plan->recipes + 1, sizeof *plan->recipe));
    plan->recipe[plan->recipes++] = *recipe;
    return QS_OK;
}

/* Its recipe is one of the plan's, or a built-in one that the plan has from now on, as the operator spells it: "int(8)/bf16". */
static qs_status choice_check(const qs__place *place, void *object, void *root) {
    qs_operator_choice *choice = object;
    qs_plan *plan = root;
    qs_recipe builtin;
    char known[512] = "";
    if (!qs_plan_recipe(plan, choice->recipe)) {
        for (int i = 0; i < plan->recipes; i++) {
            const size_t used = strlen(known);
            snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", plan->recipe[i].name);
        }
        if (qs_recipe_builtin(choice->recipe, &builtin) != QS_OK)
            return qs__refuse_value(place, "recipe \"%s\" is not in recipes (%s) and not built in (%s)", choice->recipe, known,
                                    qs__recipe_names);
        memcpy(builtin.name, choice->recipe, sizeof builtin.name);
        QS_TRY(recipe_append(plan, &builtin));
    }
    const qs_recipe *recipe = qs_plan_recipe(plan, choice->recipe);
    const qs__place accumulators = qs__member(place, "accumulator");
    const char *name;
    json_t *value;
    if (!accumulators.value) return QS_OK;
    if (!json_is_object(accumulators.value)) return qs__refuse_type(&accumulators, "an object");
    json_object_foreach(accumulators.value, name, value) {
        const qs__place member = qs__member(&accumulators, name);
        const qs_format *a, *b;
        qs_gemm gemm = 0;
        while (gemm < QS_GEMMS && strcmp(qs_gemm_name(gemm), name) != 0)
            gemm++;
        if (gemm == QS_GEMMS)
            return qs__refuse_value(&accumulators, "unknown field \"%.80s\"; fields are: forward input_gradient weight_gradient", name);
        qs_recipe_operands(recipe, gemm, &a, &b);
        QS_TRY(qs__accumulator_take(&member, a, &choice->accumulator[gemm]));
        choice->adds[gemm] = a->kind == QS_KIND_FLOAT;
    }
    return QS_OK;
}

static const qs__record choice_record = {QS__FIELDS(choice_fields),
                                         .title = "An operator: `classes.*.operators.*`, a recipe name or an object",
                                         .key = QS_NAME,
                                         .form = QS__SHORT,
                                         .layout = QS__ONE_LINE,
                                         .check = choice_check};

/* ---- A tensor -------------------------------------------------------------------------------------------------------------- */

static const qs__field tensor_fields[] = {
    {"value", QS__QUANTIZER, QS__LEFT_OUT, QS__AT(qs_tensor_choice, value), .values = "quantizer (float, `tensor`)", .absent = "fp32",
     .text = "the output as all readers see it; the parameter as forward and backward do"},
    {"saved", QS__FORMAT, QS__LEFT_OUT, QS__AT(qs_tensor_choice, saved), .values = "float format", .absent = "as it was computed",
     .text = "storage from forward to backward; parameters have none"},
    {"gradient", QS__QUANTIZER, QS__LEFT_OUT, QS__AT(qs_tensor_choice, gradient), .values = "quantizer (float, `tensor`)", .absent = "fp32",
     .text = "gradient of the loss by this tensor"},
    {"promote_at", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_tensor_choice, promote_at), .high = 1, .absent = "0: never",
     .text = "a step in which more than this share of the elements overflowed when `value` was rounded promotes the tensor for good"},
    {"promote_to", QS__QUANTIZER, QS__LEFT_OUT, QS__AT(qs_tensor_choice, promote_to), .values = "quantizer (float, `tensor`)",
     .absent = "`fp(6,9,0)`, rounded as `value`", .text = "`value` after that; its format is the storage then"},
};

/* Whether the model has such a tensor is asked by who lowers the plan; here every field must make sense by itself. */
static qs_status tensor_check(const qs__place *place, void *object, void *root) {
    (void)root;
    const qs_tensor_choice *one = object;
    const qs_quantizer *const quantizers[] = {&one->value, &one->gradient, &one->promote_to};
    static const char *const names[] = {"value", "gradient", "promote_to"};
    for (int i = 0; i < 3; i++) {
        const qs_quantizer *quantizer = quantizers[i];
        const qs__place field = qs__member(place, names[i]);
        if (quantizer->format && (quantizer->format->kind != QS_KIND_FLOAT || quantizer->granularity != QS_PER_TENSOR))
            return qs__refuse_value(&field, "must be a float format with one rounding for the tensor; fixed point is a matter of recipes");
    }
    const qs__place saved = qs__member(place, "saved"), promote_at = qs__member(place, "promote_at");
    if (one->saved && one->saved->kind != QS_KIND_FLOAT)
        return qs__refuse_value(&saved, "must be a float format, is \"%s\"", one->saved->name);
    if (one->promote_at > 0 && !one->value.format)
        return qs__refuse_value(&promote_at, "there is nothing to promote: \"value\" is absent, which is fp32");
    return QS_OK;
}

static const qs__record tensor_record = {QS__FIELDS(tensor_fields), .title = "Formats of a tensor: `classes.*.tensors.*`",
                                         .key = sizeof(((qs_tensor_choice *)0)->name), .layout = QS__ONE_LINE, .check = tensor_check};

/* ---- What a planner says of a class ---------------------------------------------------------------------------------------- */

static const qs__field assigned_bytes_fields[] = {
    {"high", QS__INTEGER, QS__REQUIRED, QS__AT(qs_class_plan, assignment.high_bytes), .low = 1, .unit = "bytes",
     .text = "of the tensors in their formats, were all in high precision"},
    {"plan", QS__INTEGER, QS__REQUIRED, QS__AT(qs_class_plan, assignment.bytes), .low = 1, .unit = "bytes",
     .text = "the same by this plan"},
    {"low", QS__INTEGER, QS__REQUIRED, QS__AT(qs_class_plan, assignment.low_bytes), .low = 1, .unit = "bytes",
     .text = "the same, were all that can be in low precision"},
};
static const qs__record assigned_bytes_record = {QS__FIELDS(assigned_bytes_fields), .layout = QS__ONE_LINE};

static const qs__field assigned_arena_fields[] = {
    {"high", QS__INTEGER, QS__REQUIRED, QS__AT(qs_class_plan, assignment.high_arena_bytes), .unit = "bytes",
     .text = "`predicted.memory.arena`, were all tensors in high precision"},
    {"low", QS__INTEGER, QS__REQUIRED, QS__AT(qs_class_plan, assignment.low_arena_bytes), .unit = "bytes",
     .text = "the same, were all that can be in low precision"},
};
static const qs__record assigned_arena_record = {QS__FIELDS(assigned_arena_fields), .layout = QS__ONE_LINE};

static const qs__field assignment_fields[] = {
    {"ratio_low", QS__NUMBER, QS__REQUIRED, QS__AT(qs_class_plan, assignment.ratio_low), .high = 1,
     .text = "elements in low precision over all elements"},
    {"bytes", QS__OBJECT, QS__REQUIRED, QS__OWN, .of = &assigned_bytes_record},
    {"arena", QS__OBJECT, QS__REQUIRED, QS__OWN, .of = &assigned_arena_record},
};
static const qs__record assignment_record = {QS__FIELDS(assignment_fields), .layout = QS__ONE_LINE};

static const qs__field kernel_fields[] = {
    {"kernel", QS__NAME, QS__REQUIRED, QS__AT(qs_plan_kernel, kernel), .text = "as in the profile"},
    {"scratch_bytes", QS__INTEGER, QS__REQUIRED, QS__AT(qs_plan_kernel, scratch_bytes), .unit = "bytes", .text = "as in the profile"},
    {"allocates", QS__FLAG, QS__REQUIRED, QS__AT(qs_plan_kernel, allocates), .text = "as in the profile"},
};
static const qs__record kernel_record = {QS__FIELDS(kernel_fields), .title = "A kernel: `classes.*.kernels.*`", .layout = QS__ONE_LINE};

static const qs__field memory_fields[] = {
    {"arena", QS__INTEGER, QS__REQUIRED, QS__AT(qs_class_plan, predicted.arena_bytes), .unit = "bytes", .text = "memory of the arena"},
    {"communication", QS__INTEGER, QS__REQUIRED, QS__AT(qs_class_plan, predicted.communication_bytes), .unit = "bytes",
     .text = "buffers of the communication library"},
    {"base", QS__INTEGER, QS__REQUIRED, QS__AT(qs_class_plan, predicted.base_bytes), .unit = "bytes",
     .text = "memory of the process without arena, data and training program"},
    {"program", QS__INTEGER, QS__LEFT_OUT, QS__AT(qs_class_plan, predicted.program_bytes), .unit = "bytes", .absent = "not known",
     .text = "memory that the kernels of the training program hold; once more for a smaller last step"},
    {"kept", QS__INTEGER, QS__LEFT_OUT, QS__AT(qs_class_plan, predicted.kept_bytes), .unit = "bytes", .absent = "not known",
     .text = "memory of the arena, were nothing computed again"},
};
static const qs__record memory_record = {QS__FIELDS(memory_fields), .layout = QS__ONE_LINE};

static const qs__field phase_fields[] = {
    {"forward_us", QS__NUMBER, QS__REQUIRED, QS__AT(qs_phase_times, forward_us), .unit = "µs", .text = "forward kernels"},
    {"backward_us", QS__NUMBER, QS__REQUIRED, QS__AT(qs_phase_times, backward_us), .unit = "µs", .text = "backward kernels"},
    {"cast_us", QS__NUMBER, QS__REQUIRED, QS__AT(qs_phase_times, cast_us), .unit = "µs", .text = "conversions of all phases"},
    {"communication_us", QS__NUMBER, QS__REQUIRED, QS__AT(qs_phase_times, communication_us), .unit = "µs",
     .text = "inside calls that start or move all-reduces"},
    {"waiting_us", QS__NUMBER, QS__REQUIRED, QS__AT(qs_phase_times, waiting_us), .unit = "µs",
     .text = "blocked until their sums are there"},
    {"optimizer_us", QS__NUMBER, QS__REQUIRED, QS__AT(qs_phase_times, optimizer_us), .unit = "µs",
     .text = "the update and the checks before it"},
    {"data_us", QS__NUMBER, QS__REQUIRED, QS__AT(qs_phase_times, data_us), .unit = "µs", .text = "batch loading and the training loop"},
};
static const qs__record phases_record = {QS__FIELDS(phase_fields), .layout = QS__ONE_LINE};

static const qs__field predicted_fields[] = {
    {"iteration_us", QS__NUMBER, QS__REQUIRED, QS__AT(qs_class_plan, predicted.iteration_us), .unit = "µs",
     .text = "time of one iteration"},
    {"compute_us", QS__NUMBER, QS__REQUIRED, QS__AT(qs_class_plan, predicted.compute_us), .unit = "µs",
     .text = "part of it spent computing"},
    {"waiting_us", QS__NUMBER, QS__REQUIRED, QS__AT(qs_class_plan, predicted.waiting_us), .low = -INFINITY, .unit = "µs",
     .text = "part of it spent waiting for other ranks"},
    {"memory", QS__OBJECT, QS__REQUIRED, QS__OWN, .of = &memory_record},
    {"sum_omega", QS__NUMBER, QS__REQUIRED, QS__AT(qs_class_plan, predicted.sum_omega), .low = -INFINITY, .values = "Ω",
     .text = "indicator summed over operators"},
    {"doubt", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_class_plan, predicted.doubt), .unit = "share", .absent = "none is known",
     .text = "by which its steps may take longer than predicted, at the confidence of `guard`"},
    {"factor", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_class_plan, predicted.factor), .unit = "ratio", .absent = "none was found",
     .text = "by which a verification had found that its steps take longer than profiled, and which the times here have in them"},
    {"lower_bound", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_class_plan, predicted.lower_bound), .low = -INFINITY, .values = "Ω",
     .absent = "not known", .text = "no feasible plan is below it"},
    {"recompute_us", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_class_plan, predicted.recompute_us), .unit = "µs", .absent = "0",
     .text = "part of the iteration spent on computing again what was not kept"},
    {"phases", QS__OBJECT, QS__LEFT_OUT, QS__AT(qs_class_plan, predicted.phases), .of = &phases_record, .absent = "not known",
     .text = "an iteration of a rank by what its compute thread does; together they are the iteration"},
};
static const qs__record predicted_record = {QS__FIELDS(predicted_fields)};

static const qs__field reason_fields[] = {
    {"stopped_by", QS__NAME, QS__REQUIRED, QS__AT(qs_operator_reason, stopped_by),
     .values =
         "`memory`, `throughput`, `neighbours` (other ranks of its host would compute more slowly beside it, and be late), `highest`, "
         "`pinned`, `profile` (the profile lacks a case of the mix), `planner` (the planner chose so)",
     .text = "what kept it from the next recipe"},
    {"next", QS__NAME, QS__LEFT_OUT, QS__AT(qs_operator_reason, next), .values = "recipe name", .absent = "already the highest",
     .text = "the recipe one step up"},
    {"time_us", QS__NUMBER, QS__REQUIRED, QS__AT(qs_operator_reason, time_us), .low = -INFINITY, .unit = "µs",
     .text = "iteration time that the next recipe would cost"},
    {"bytes", QS__INTEGER, QS__REQUIRED, QS__AT(qs_operator_reason, bytes), .low = -INFINITY, .unit = "bytes",
     .text = "memory that it would cost"},
    {"omega", QS__NUMBER, QS__REQUIRED, QS__AT(qs_operator_reason, omega), .low = -INFINITY, .values = "Ω",
     .text = "indicator of the present recipe"},
};
static const qs__record reason_record = {QS__FIELDS(reason_fields), .title = "A reason: `classes.*.why.*`", .key = QS_NAME,
                                         .layout = QS__ONE_LINE};

/* ---- A length ------------------------------------------------------------------------------------------------------------------ */

static const qs__field length_fields[] = {
    {"length", QS__INTEGER, QS__REQUIRED, QS__AT(qs_length_plan, length), .low = 1, .high = INT32_MAX, .unit = "values",
     .text = "one of the job's `lengths`, in their order"},
    {"schedule", QS__NAME, QS__LEFT_OUT, QS__AT(qs_length_plan, schedule), .values = "hash", .absent = "not checked",
     .text = "of the schedule lowered at this length; training refuses another"},
    {"share", QS__NUMBER, QS__REQUIRED, QS__AT(qs_length_plan, share), .high = 1,
     .text = "of the training samples, by which `predicted` of the class is a mean over lengths"},
    {"iteration_us", QS__NUMBER, QS__REQUIRED, QS__AT(qs_length_plan, iteration_us), .unit = "µs", .text = "time of one iteration"},
    {"compute_us", QS__NUMBER, QS__REQUIRED, QS__AT(qs_length_plan, compute_us), .unit = "µs", .text = "part of it spent computing"},
    {"waiting_us", QS__NUMBER, QS__REQUIRED, QS__AT(qs_length_plan, waiting_us), .low = -INFINITY, .unit = "µs",
     .text = "part of it spent waiting for other ranks"},
    {"arena", QS__INTEGER, QS__REQUIRED, QS__AT(qs_length_plan, arena_bytes), .unit = "bytes", .text = "memory that its schedule needs"},
    {"program", QS__INTEGER, QS__LEFT_OUT, QS__AT(qs_length_plan, program_bytes), .unit = "bytes", .absent = "not known",
     .text = "memory that its kernels hold; once more for a smaller step"},
    {"phases", QS__OBJECT, QS__LEFT_OUT, QS__AT(qs_length_plan, phases), .of = &phases_record, .absent = "not known",
     .text = "an iteration of a rank by what its compute thread does"},
};
static const qs__record length_record = {QS__FIELDS(length_fields), .title = "A length: `classes.*.lengths[]`", .layout = QS__ONE_LINE};

/* ---- A class --------------------------------------------------------------------------------------------------------------- */

static const qs__field class_fields[] = {
    {"batch", QS__INTEGER, QS__LEFT_OUT, QS__AT(qs_class_plan, batch), .high = INT32_MAX, .unit = "samples", .absent = "the job's",
     .text = "local batch"},
    {"idle", QS__FLAG, QS__LEFT_OUT, QS__AT(qs_class_plan, idle), .absent = "false",
     .text = "the class takes no samples: its ranks add zeros to the sums of gradients and update their weights, the others share its part "
             "of the global batch; `batch` is what its schedule is lowered at"},
    {"operators", QS__OBJECT, QS__REQUIRED, QS__TABLE(qs_class_plan, operator_, operators), .of = &choice_record,
     .values = "object: operator → recipe name, or an object", .text = "operators that are not named run in `fp32`"},
    {"tensors", QS__OBJECT, QS__LEFT_OUT, QS__TABLE(qs_class_plan, tensor, tensors), .of = &tensor_record,
     .values = "object: tensor → formats", .absent = "fp32",
     .text = "mixed-precision assignment: an operator's output goes by its name (the images: `input`), a parameter by the one it has in "
             "graph.json (`conv1.weights`); operators compute in fp32, what they write is rounded behind them"},
    {"assignment", QS__OBJECT, QS__LEFT_OUT, QS__OWN, .of = &assignment_record, .absent = "none was planned",
     .text = "what `tensors` come to: every tensor of a gradient computation and its gradient counts once, at the class's batch"},
    {"recompute", QS__NAME, QS__LEFT_OUT, QS__ARRAY(qs_class_plan, recompute, recomputes), .values = "array of blocks", .absent = "none",
     .text = "blocks (`qsync inspect MODEL --blocks`), each by the name of its first operator, whose values are computed again for "
             "backward instead of being kept"},
    {"recompute_why", QS__NAME, QS__LEFT_OUT, QS__AT(qs_class_plan, recompute_why), .absent = "nobody chose",
     .values = "`asked` (named when planning), `memory` (chosen: the plan is better with them, or fits only so), "
               "`pace` (memory binds, and no plan with "
               "recomputed blocks is better), `fits` (memory does not bind)",
     .text = "why these blocks and no others"},
    {"kernels", QS__OBJECT, QS__LEFT_OUT, QS__TABLE(qs_class_plan, kernel, kernels), .of = &kernel_record,
     .values = "object: case → kernel", .absent = "chosen anew",
     .text = "training runs these, whatever a cache of kernels says by then; cases that are not named take the first kernel of the lists"},
    {"schedule", QS__NAME, QS__LEFT_OUT, QS__AT(qs_class_plan, schedule), .values = "hash", .absent = "not checked",
     .text = "of the lowered schedule; training refuses another"},
    {"lengths", QS__OBJECT, QS__LEFT_OUT, QS__ARRAY(qs_class_plan, length, lengths), .least = 1, .of = &length_record, .values = "rows",
     .absent = "samples have one length",
     .text = "what the class runs at each of the job's lengths; `schedule` is that of the last, `predicted` holds means of times, the most "
             "memory, and the kernels of all"},
    {"predicted", QS__OBJECT, QS__LEFT_OUT, QS__OWN, .of = &predicted_record, .absent = "not known",
     .text = "what the plan is predicted to come to"},
    {"why", QS__OBJECT, QS__LEFT_OUT, QS__TABLE(qs_class_plan, reason, reasons), .of = &reason_record,
     .values = "object: operator → reason", .absent = "not known", .text = "why no operator has a higher recipe"},
};
static const qs__record class_record = {QS__FIELDS(class_fields), .title = "A class: `classes.*`", .key = QS_NAME};

static const qs__field pace_fields[] = {
    {"samples_per_second", QS__NUMBER, QS__REQUIRED, QS__AT(qs_class_pace, samples_per_second), .unit = "1/s"},
};
static const qs__record pace_record = {QS__FIELDS(pace_fields), .key = QS_NAME, .form = QS__ONLY_SHORT};

static const qs__field wire_fields[] = {
    {"why", QS__NAME, QS__REQUIRED, QS__AT(qs_wire_plan, why),
     .values = "`taken`, `slower` (the plan on the taken one is), `tolerance` (it saves no more than the planner's tolerance over a more "
               "exact one), `memory` (with its residuals no plan fits), `profile` (the profile cannot price it on this cluster)",
     .text = "why the planner took it or not"},
    {"iteration_us", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_wire_plan, iteration_us), .unit = "µs", .absent = "there is no plan on it",
     .text = "predicted of the plan on it"},
    {"exposed_us", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_wire_plan, exposed_us), .low = -INFINITY, .unit = "µs", .absent = "0",
     .text = "part of it that is there because all-reduces take time"},
    {"residual_bytes", QS__INTEGER, QS__LEFT_OUT, QS__AT(qs_wire_plan, residual_bytes), .unit = "bytes", .absent = "0",
     .text = "what a rank keeps of what the wire leaves out, a part of its arena"},
};
static const qs__record wire_record = {QS__FIELDS(wire_fields), .title = "A wire: `wires.*`", .key = sizeof((qs_wire_plan *)0)->wire,
                                       .layout = QS__ONE_LINE};

/* ---- The plan -------------------------------------------------------------------------------------------------------------- */

/* Guards against a job edited under a planner's predictions: a plan that carries any signature carries the job's as well. */
static void job_signature_write(qs__writer *writer, const char *name, const void *object) {
    char signature[32];
    qs__put_text(writer, name, qs_job_signature(&((const qs_plan *)object)->job, signature));
}
static const qs__hook job_signature_hook = {NULL, job_signature_write, NULL, NULL};

static bool is_unsigned(const void *object) {
    const qs_plan *plan = object;
    return !*plan->graph && !*plan->cluster && !*plan->profile;
}

static bool is_without_job(const void *object) {
    return ((const qs_plan *)object)->without_job;
}

static const qs__field signature_fields[] = {
    {"graph", QS__NAME, QS__LEFT_OUT, QS__AT(qs_plan, graph), .values = "signature", .absent = "not checked",
     .text = "of the model it was made for; training refuses others"},
    {"cluster", QS__NAME, QS__LEFT_OUT, QS__AT(qs_plan, cluster), .values = "signature", .absent = "not checked",
     .text = "of the cluster; training refuses others"},
    {"profile", QS__NAME, QS__LEFT_OUT, QS__AT(qs_plan, profile), .values = "signature", .absent = "not checked", .text = "of the profile"},
    {"job", QS__OBJECT, QS__OPTIONAL, QS__OWN, .hook = &job_signature_hook, .values = "signature", .absent = "not checked",
     .text = "of `job`; the reader refuses a job that was changed under the plan"},
};
static const qs__record signature_record = {QS__FIELDS(signature_fields), .layout = QS__ONE_LINE};

static bool is_unguarded(const void *object) {
    return ((const qs_plan *)object)->confidence == 0;
}

static const qs__field guard_fields[] = {
    {"confidence", QS__NUMBER, QS__REQUIRED, QS__AT(qs_plan, confidence), .high = 1,
     .text = "probability with which an iteration takes no longer than `upper_us`, if errors are normal as those that the profile knows"},
    {"upper_us", QS__NUMBER, QS__REQUIRED, QS__AT(qs_plan, upper_us), .unit = "µs", .text = "upper bound of an iteration"},
    {"longest_us", QS__NUMBER, QS__REQUIRED, QS__AT(qs_plan, longest_us), .unit = "µs",
     .text = "longest upper bound that T_min and its tolerance allow: that of the best uniform plan, and the tolerance"},
};
static const qs__record guard_record = {QS__FIELDS(guard_fields), .layout = QS__ONE_LINE};

static const qs__field verification_fields[] = {
    {"measured_us", QS__NUMBER, QS__REQUIRED, QS__AT(qs_verification, measured_us), .unit = "µs",
     .text = "of an iteration of the round's plan: median of the steps in which no rank was disturbed"},
    {"uniform_us", QS__NUMBER, QS__REQUIRED, QS__AT(qs_verification, uniform_us), .unit = "µs",
     .text = "the same of the uniform plan, in turn with it"},
    {"predicted_us", QS__NUMBER, QS__REQUIRED, QS__AT(qs_verification, predicted_us), .unit = "µs",
     .text = "what the round's plan was predicted to take before it was timed"},
    {"confidence", QS__NUMBER, QS__REQUIRED, QS__AT(qs_verification, confidence), .unit = "share",
     .text = "half the 95 % interval of measured over uniform"},
    {"kept", QS__FLAG, QS__REQUIRED, QS__AT(qs_verification, kept),
     .text = "true: it keeps the uniform plan's pace, less the tolerance and what is not known"},
};
static const qs__record verification_record = {QS__FIELDS(verification_fields), .title = "A round: `verification[]`",
                                               .layout = QS__ONE_LINE};

static const qs__field plan_fields[] = {
    {"planner", QS__NAME, QS__LEFT_OUT, QS__AT(qs_plan, planner), .absent = "made by hand", .text = "who made it"},
    {"signature", QS__OBJECT, QS__LEFT_OUT, QS__OWN, .of = &signature_record, .left_out = is_unsigned},
    {"job", QS__OBJECT, QS__LEFT_OUT, QS__AT(qs_plan, job), .of = &qs__job_record, .left_out = is_without_job, .values = "see [job](#job)",
     .absent = "the trainer's own", .text = "what it was made for; training refuses another, where the schedule depends on it"},
    {"samples_per_second", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_plan, samples_per_second), .unit = "1/s", .absent = "not known",
     .text = "predicted, of all ranks together"},
    {"unit", QS__TEXT, QS__LEFT_OUT, QS__AT(qs_plan, unit), .absent = "`samples`",
     .text = "what people call the samples of the data set: `images`"},
    {"guard", QS__OBJECT, QS__LEFT_OUT, QS__OWN, .of = &guard_record, .left_out = is_unguarded, .absent = "by expected times",
     .text = "how the planner asked for T_min: of upper bounds, the steps of lowered classes taking longer by their `doubt`"},
    {"without", QS__OBJECT, QS__LEFT_OUT, QS__TABLE(qs_plan, without, withouts), .of = &pace_record, .values = "object: class → 1/s",
     .absent = "not known",
     .text = "predicted of the other classes alone, by a plan of their own; 0: they have none. A class that the rest is as fast without "
             "does not help"},
    {"left_out", QS__OBJECT, QS__LEFT_OUT, QS__TABLE(qs_plan, left_out, left_outs), .of = &pace_record, .values = "object: class → 1/s",
     .absent = "none",
     .text = "classes that `plan --drop-unhelpful` took out of the cluster, in this order, and the pace with each still in it"},
    {"wires", QS__OBJECT, QS__LEFT_OUT, QS__TABLE(qs_plan, wire, wires), .of = &wire_record, .values = "object: wire → what it comes to",
     .absent = "nothing was compared",
     .text = "wires that were compared for `job.buckets.wire`, from the most exact one on ([allreduce.md](allreduce.md#choosing))"},
    {"verification", QS__OBJECT, QS__LEFT_OUT, QS__ARRAY(qs_plan, verification, verifications), .least = 1, .of = &verification_record,
     .values = "rows", .absent = "it was not timed",
     .text = "what `qsync run` measured, a row a round; where none was kept the plan is the uniform one"},
    {"recipes", QS__OBJECT, QS__OPTIONAL, QS__TABLE(qs_plan, recipe, recipes), .of = &qs__recipe_record, .values = "object: name → recipe",
     .absent = "empty", .text = "the file's own recipes; built-in ones need not stand here"},
    {"classes", QS__OBJECT, QS__REQUIRED, QS__TABLE(qs_plan, class_, classes), .of = &class_record,
     .values = "object: class name → plan of the class", .text = "what every class runs"},
};

/* Operators that a plan does not name run in fp32, so that recipe is always there. */
static qs_status plan_check(const qs__place *place, void *object, void *root) {
    (void)root;
    qs_plan *plan = object;
    const qs_recipe fp32 = qs__recipe_fp32();
    char stated[32] = "", actual[32];
    const qs__place signature = qs__member(place, "signature"), job = qs__member(&signature, "job");
    plan->without_job = !qs__member(place, "job").value;
    if (job.value) {
        QS_TRY(qs__text_take(&job, stated, sizeof stated));
        if (strcmp(stated, qs_job_signature(&plan->job, actual)) != 0)
            return qs__refuse_value(
                &job, "%s is not the job's (%s): the job was changed after planning; plan again or remove \"signature\"", stated, actual);
    }
    return qs_plan_recipe(plan, fp32.name) ? QS_OK : recipe_append(plan, &fp32);
}

const qs__record qs__plan_record = {QS__FIELDS(plan_fields), .kind = "plan", .size = sizeof(qs_plan), .check = plan_check};

qs_status qs_plan_read(const char *path, qs_plan *out) {
    return qs__record_read(&qs__plan_record, path, out);
}

qs_status qs_plan_parse(const char *json, const char *source, qs_plan *out) {
    return qs__record_parse(&qs__plan_record, json, strlen(json), source, out);
}

qs_status qs_plan_text(const qs_plan *plan, char **json) {
    const qs_recipe fp32 = qs__recipe_fp32();
    qs_plan whole = *plan;
    if (qs_plan_recipe(plan, fp32.name)) return qs__record_text(&qs__plan_record, plan, json);
    QS_TRY(qs_allocate((size_t)plan->recipes + 1, sizeof *whole.recipe, &whole.recipe));
    if (plan->recipes > 0) memcpy(whole.recipe, plan->recipe, (size_t)plan->recipes * sizeof *whole.recipe);
    whole.recipe[whole.recipes++] = fp32;
    const qs_status status = qs__record_text(&qs__plan_record, &whole, json);
    free(whole.recipe);
    return status;
}

qs_status qs_plan_write(const char *path, const qs_plan *plan) {
    char *json;
    QS_TRY(qs_plan_text(plan, &json));
    return qs__text_save(json, path);
}

qs_status qs_plan_copy(const qs_plan *plan, qs_plan *out) {
    return qs__record_copy(&qs__plan_record, plan, out);
}

void qs_plan_release(qs_plan *plan) {
    qs__record_release(&qs__plan_record, plan);
}

void qs_plan_forget(qs_plan *plan) {
    for (int i = 0; i < plan->classes; i++) {
        qs_class_plan *one = &plan->class_[i];
        qs_class_plan said = {.kernels = one->kernels,
                              .kernel = one->kernel,
                              .reasons = one->reasons,
                              .reason = one->reason,
                              .lengths = one->lengths,
                              .length = one->length};
        qs__record_release(&class_record, &said);
        one->kernel = NULL;
        one->length = NULL;
        one->lengths = 0;
        one->reason = NULL;
        one->kernels = one->reasons = 0;
        one->schedule[0] = one->recompute_why[0] = '\0';
        memset(&one->predicted, 0, sizeof one->predicted);
    }
    free(plan->without);
    plan->without = NULL;
    plan->withouts = 0;
    free(plan->wire);
    plan->wire = NULL;
    plan->wires = 0;
    free(plan->verification);
    plan->verification = NULL;
    plan->verifications = 0;
    plan->planner[0] = plan->graph[0] = plan->cluster[0] = plan->profile[0] = '\0';
    plan->samples_per_second = 0;
    plan->confidence = plan->upper_us = plan->longest_us = 0;
    plan->unit[0] = '\0';
}

/* ---- Asking ---------------------------------------------------------------------------------------------------------------- */

const qs_class_plan *qs_plan_class(const qs_plan *plan, const char *name) {
    for (int i = 0; i < plan->classes; i++)
        if (strcmp(plan->class_[i].class_name, name) == 0) return &plan->class_[i];
    return NULL;
}

bool qs_plans_alike(const qs_plan *a, const qs_plan *b) {
    if (a->classes != b->classes) return false;
    for (int c = 0; c < a->classes; c++) {
        const qs_class_plan *one = &a->class_[c], *other = qs_plan_class(b, one->class_name);
        if (!other || one->schedule[0] == '\0' || strcmp(one->schedule, other->schedule) != 0 || one->batch != other->batch ||
            one->idle != other->idle)
            return false;
    }
    return true;
}

const qs_recipe *qs_plan_recipe(const qs_plan *plan, const char *name) {
    for (int i = 0; i < plan->recipes; i++)
        if (strcmp(plan->recipe[i].name, name) == 0) return &plan->recipe[i];
    return NULL;
}

const char *qs_class_plan_recipe(const qs_class_plan *plan, const char *operator_name) {
    for (int i = 0; i < plan->operators; i++)
        if (strcmp(plan->operator_[i].name, operator_name) == 0) return plan->operator_[i].recipe;
    return "fp32";
}

const qs_tensor_choice *qs_class_plan_tensor(const qs_class_plan *plan, const char *name) {
    for (int i = 0; i < plan->tensors; i++)
        if (strcmp(plan->tensor[i].name, name) == 0) return &plan->tensor[i];
    return NULL;
}

qs_status qs_choice_recipe(const qs_plan *plan, const qs_operator_choice *choice, qs_recipe *out) {
    const qs_recipe *recipe = qs_plan_recipe(plan, choice->recipe);
    if (!recipe)
        return qs_fail(QS_MISMATCH, "the plan gives operator %s recipe %s, which is not among its recipes", choice->name, choice->recipe);
    *out = *recipe;
    for (qs_gemm gemm = 0; gemm < QS_GEMMS; gemm++)
        if (choice->adds[gemm]) out->accumulator[gemm] = choice->accumulator[gemm];
    return QS_OK;
}

void qs_choice_accumulate(qs_operator_choice *choice, const qs_recipe *recipe, const qs_narrow wanted[QS_GEMMS]) {
    for (qs_gemm gemm = 0; gemm < QS_GEMMS; gemm++) {
        choice->adds[gemm] = !qs_narrow_equal(&wanted[gemm], &recipe->accumulator[gemm]);
        choice->accumulator[gemm] = choice->adds[gemm] ? wanted[gemm] : (qs_narrow){0};
    }
}

/* A plan deals the job's global batch out anew, never another one: what is learned must not depend on who computes. */
qs_status qs_plan_batches(const qs_plan *plan, const qs_cluster *cluster, int64_t job_batch, int64_t *batch) {
    int64_t sum = 0, ranks = 0;
    for (int c = 0; c < cluster->classes; c++) {
        const qs_class_plan *one = plan ? qs_plan_class(plan, cluster->class_[c].name) : NULL;
        batch[c] = one && one->idle ? 0 : one && one->batch > 0 ? one->batch : job_batch;
        ranks += cluster->class_[c].count;
        sum += batch[c] * cluster->class_[c].count;
    }
    if (sum == job_batch * ranks) return QS_OK;
    return qs_fail(QS_MISMATCH,
                   "the plan's batches sum to %lld samples over %lld ranks, the job's global batch is %lld (%lld x %lld): plan again for "
                   "this cluster, or write batches that sum to it",
                   (long long)sum, (long long)ranks, (long long)(job_batch * ranks), (long long)ranks, (long long)job_batch);
}
