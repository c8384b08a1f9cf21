// SPDX-License-Identifier: Apache-2.0
/* The tensors of a model's gradient computation, group by group. */
#include <inttypes.h>

#include "inspect.h"

static double share_of(const qs_groups *all, int64_t elements) {
    return (double)elements / (double)all->elements;
}

static int64_t gradient_elements(const qs_graph_tensor *tensor) {
    return tensor->gradient ? tensor->elements : 0;
}

/* The multiplication that a group's tensors flow into, or the loss. */
static const char *leader_name(const qs_graph *graph, const qs_tensor_group *group) {
    return graph->node[group->leader < 0 ? graph->nodes - 1 : group->leader].name;
}

static void group_print(const qs_graph *graph, const qs_groups *all, int g) {
    const qs_tensor_group *group = &all->group[g];
    printf("%5d %-40s %12" PRId64 " %12" PRId64 " %9s\n", g, leader_name(graph, group), group->elements, group->demotable,
           percent_text(share_of(all, group->elements)));
    for (int i = 0; i < all->tensors; i++) {
        const qs_graph_tensor *one = &all->tensor[i];
        const int64_t gradient = gradient_elements(one);
        if (one->group != g) continue;
        printf("        %-38s %12" PRId64 " %12" PRId64 " %9s\n", qs_graph_tensor_name(graph, one), one->elements + gradient,
               one->elements + (one->parameter < 0 ? gradient : 0), percent_text(share_of(all, one->elements + gradient)));
    }
}

static void text_print(const qs_graph *graph, int64_t batch, const qs_groups *all) {
    printf("%5s %-40s %12s %12s %9s\n", "group", "up to, and its tensors", "elements", "demotable", "share");
    for (int g = 0; g < all->groups; g++)
        group_print(graph, all, g);
    printf("\n%s, batch %" PRId64 ": %d groups, %d tensors; with their gradients %" PRId64 " elements, demotable %s\n", graph->name, batch,
           all->groups, all->tensors, all->elements, percent_text(share_of(all, all->demotable)));
}

static json_t *tensor_json(const qs_graph *graph, const qs_graph_tensor *one) {
    return json_pack("{s:s,s:s,s:I,s:I}", "name", qs_graph_tensor_name(graph, one), "kind", one->parameter < 0 ? "output" : "parameter",
                     "elements", (json_int_t)one->elements, "gradient_elements", (json_int_t)gradient_elements(one));
}

static json_t *group_json(const qs_graph *graph, const qs_groups *all, int g) {
    const qs_tensor_group *group = &all->group[g];
    json_t *tensors = json_array();
    for (int i = 0; i < all->tensors; i++)
        if (all->tensor[i].group == g) json_array_append_new(tensors, tensor_json(graph, &all->tensor[i]));
    return json_pack("{s:i,s:s,s:I,s:I,s:f,s:o}", "group", g, "up_to", leader_name(graph, group), "elements", (json_int_t)group->elements,
                     "demotable", (json_int_t)group->demotable, "share", share_of(all, group->elements), "tensors", tensors);
}

qs_status groups_inspect(const qs_graph *graph, int64_t batch, bool json) {
    qs_groups all;
    qs_status status = QS_OK;
    QS_TRY(qs_graph_groups(graph, batch, &all));
    if (json) {
        json_t *groups = json_array();
        for (int g = 0; g < all.groups; g++)
            json_array_append_new(groups, group_json(graph, &all, g));
        status = json_print(json_pack("{s:s,s:I,s:I,s:I,s:o}", "model", graph->name, "batch", (json_int_t)batch, "elements",
                                      (json_int_t)all.elements, "demotable", (json_int_t)all.demotable, "groups", groups));
    } else {
        text_print(graph, batch, &all);
    }
    qs_groups_release(&all);
    return status;
}
