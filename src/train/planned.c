// SPDX-License-Identifier: Apache-2.0
/* The test part in the arithmetic that the plan's forward passes have, once, when a run ends: what devices that compute so would reach.
 * Epochs are evaluated in fp32 (plans.c). */
#include "train_internal.h"

#include <math.h>
#include <stdlib.h>

static bool is_fp32(const qs_quantizer *quantizer) {
    return quantizer->format == qs_format_of("fp32") && !quantizer->blocks;
}

/* QS_INFEASIBLE: there is no room for one sample. */
static qs_status planned_lower(const qs__setting *setting, const qs__plans *plans, const qs_recipe *const *recipe, int length,
                               qs__program *out) {
    const qs__formats formats = {.recipe = recipe, .half = qs_class_half(setting->class_)};
    const qs__kernels kernels = {.device = setting->device};
    QS_TRY(qs__evaluation_lower(setting, &plans->present, length, &formats, &kernels, out));
    if (out->schedule) return qs_executor_create(out->schedule, setting->device, setting->comm, plans->memory, &out->executor);
    return qs_fail(QS_INFEASIBLE, "class %s: not one sample fits the memory of training in the plan's forward formats",
                   setting->class_->name);
}

qs_status qs__planned_evaluation(const qs__setting *setting, qs__plans *plans, qs_evaluation *out) {
    const qs__present *present = &plans->present;
    qs__length_programs at[QS_MOST_LENGTHS] = {0};
    const qs_recipe **recipe = NULL;
    double lowered = 0, refused = 0;
    qs_status status;
    *out = (qs_evaluation){.loss = NAN, .accuracy = NAN};
    for (int n = 0; present->recipe && n < setting->graph->nodes; n++)
        if (present->recipe[n] && !(is_fp32(&present->recipe[n]->forward.src) && is_fp32(&present->recipe[n]->forward.weights)))
            lowered = 1;
    QS_TRY(qs_comm_max(setting->comm, &lowered, 1));
    if (setting->options->test_limit < 0 || lowered == 0) return QS_OK;
    status = qs__recipes_to_nearest(setting->graph, present->recipe, &recipe);
    for (int k = 0; status == QS_OK && k < present->lengths; k++)
        status = planned_lower(setting, plans, recipe, k, &at[k].evaluation);
    if (status == QS_INFEASIBLE) {
        qs_log(QS_LOG_WARNING, "no test part in the plan's arithmetic: %s", qs_message());
        refused = 1;
        status = QS_OK;
    }
    QS_GOTO(qs_comm_agree(setting->comm, status));
    QS_GOTO(qs_comm_max(setting->comm, &refused, 1));
    if (refused == 0) status = qs__evaluation_run(at, &setting->test, &plans->test_sharding, setting->comm, NULL, out);
done:
    for (int k = 0; k < present->lengths; k++)
        qs__program_release(&at[k].evaluation);
    free(recipe);
    return status;
}
