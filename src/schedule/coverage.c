// SPDX-License-Identifier: Apache-2.0
/* Every case that any plan over given recipes contains, exactly, without lowering every plan.
 *
 * What the segments of a node emit follows from its surroundings: its recipe, the formats of its output and of its inputs, whether a reader
 * wants the absmax of the output, and two facts about absmax of gradients. So plans that together bring every node into all surroundings
 * that it can have contain every case.
 *
 * Which surroundings occur depends on the whole plan: formats follow from needs, which come from the readers, and from the formats of
 * inputs (docs/method.md §4.3). Nodes are visited from the last to the first. A state holds what the visited nodes know of the values that
 * they read and that are still to be visited: the format that each was assumed to have, and what its readers need. When the visit comes to
 * a value's own node, its format must be the assumed one. A chain of moves from state to state through all nodes is a plan, and each plan
 * is one chain. Moves that lie on no whole chain are struck out; chains are then taken until all surroundings that are left were in one. */
#include <stdlib.h>
#include <string.h>

#include "schedule_internal.h"

enum { MOST_FORMATS = 16, MOST_STATES = 1 << 18, FIRST_SLOTS = 64 };

/* What visited readers know of a value. No padding: states are compared by their bytes. */
typedef struct value_state {
    uint8_t format;      /* assumed; an index */
    uint8_t need;        /* 0: none so far, else an index plus 1 */
    uint8_t absmax;      /* a reader wants it of the value */
    uint8_t gradient;    /* assumed: the value's node wants the absmax of its gradient */
    uint8_t same_reader; /* the only writer of that gradient works in the value's format */
} value_state;

/* One node in one recipe, between the state that the nodes behind it leave and the one that it leaves to those before it. */
typedef struct move {
    int behind, before;
    int next; /* of the moves to the same state before the node; -1: none */
    int surroundings;
    unsigned char recipe;
    bool dead; /* on no whole chain */
} move;

/* States when all nodes from one on have been visited. */
typedef struct layer {
    int values, *value; /* nodes before it that the visited ones read, ascending */
    int states;
    size_t state_capacity;
    value_state *state; /* (states × values) */
    size_t slots;       /* a power of two */
    int *slot;          /* states by hash; -1: free */
    size_t first_capacity, last_capacity;
    int *first, *last; /* (states) moves of the node before: from first[s] to last[s] - 1 */
    int *into;         /* (states) the first of the moves of the node behind that lead here; -1: none */
    size_t into_capacity;
} layer;

/* The moves of one node. */
typedef struct node_moves {
    int moves, surroundings;
    size_t move_capacity, key_capacity;
    move *move;
    uint64_t *key; /* (surroundings) */
    int *taken;    /* (surroundings) chains that went through each */
} node_moves;

typedef struct coverage {
    qs_schedule_draft *draft; /* the room's rules are asked about it, with facts and recipes that are set for each question */
    const qs_graph *graph;
    int recipes;
    const qs_recipe **recipe;
    int formats;
    const qs_format *format[MOST_FORMATS];
    uint32_t *possible; /* (nodes) formats that a value may be assumed to have, a bit each */
    layer *layer;       /* (nodes + 1) */
    node_moves *visit;  /* (nodes) */
    value_state *state; /* (nodes) the state under construction */
} coverage;

/* ---- Formats ---- */

static int format_index(const coverage *all, const qs_format *format) {
    int at = 0;
    while (at < all->formats && all->format[at] != format)
        at++;
    return at;
}

static qs_status format_note(coverage *all, const qs_format *format) {
    if (!format || format->kind != QS_KIND_FLOAT || format_index(all, format) < all->formats) return QS_OK;
    if (all->formats == MOST_FORMATS) return qs_fail(QS_UNSUPPORTED, "recipes of more than %d float formats", MOST_FORMATS);
    all->format[all->formats++] = format;
    return QS_OK;
}

/* What a value may be assumed to be: a little more than what plans can give it. Readers may need any format of an integer recipe. */
static qs_status formats_list(coverage *all, const qs_format *half) {
    const qs_graph *graph = all->graph;
    uint32_t adjustable = 0;
    QS_TRY(format_note(all, all->draft->fp32));
    QS_TRY(format_note(all, half));
    for (int r = 0; r < all->recipes; r++) {
        QS_TRY(format_note(all, all->recipe[r]->forward.dst));
        QS_TRY(format_note(all, all->recipe[r]->forward.src.format));
    }
    for (int r = 0; r < all->recipes; r++) {
        const qs_recipe *recipe = all->recipe[r];
        const qs_format *own = recipe->forward.dst ? recipe->forward.dst : recipe->forward.src.format;
        adjustable |= own->kind == QS_KIND_FLOAT ? 1u << format_index(all, own) : (1u << all->formats) - 1;
    }
    for (int n = 0; n < graph->nodes; n++) {
        const qs_node *node = &graph->node[n];
        const bool fixed = !node->op || node->op->kind == QS_FIXED;
        if (qs__reads_integers_alone(graph, n)) {
            all->possible[n] = (1u << all->formats) - 1;
            continue;
        }
        all->possible[n] = fixed ? 1u << format_index(all, all->draft->fp32) : node->op->kind == QS_ADJUSTABLE ? adjustable : 0;
        for (int i = 0; !fixed && node->op->kind == QS_DEPENDENT && i < node->inputs; i++)
            all->possible[n] |= all->possible[node->input[i]];
    }
    return QS_OK;
}

/* ---- States ---- */

static int value_find(const layer *at, int node) {
    for (int i = 0; i < at->values; i++)
        if (at->value[i] == node) return i;
    return -1;
}

static size_t slot_find(const layer *at, const value_state *state) {
    const size_t bytes = (size_t)at->values * sizeof *state;
    size_t slot = (size_t)qs_hash(state, bytes, 0) & (at->slots - 1);
    while (at->slot[slot] >= 0 && memcmp(&at->state[(size_t)at->slot[slot] * (size_t)at->values], state, bytes) != 0)
        slot = (slot + 1) & (at->slots - 1);
    return slot;
}

static qs_status slots_grow(layer *at) {
    if ((size_t)at->states * 2 < at->slots) return QS_OK;
    free(at->slot);
    at->slot = NULL;
    at->slots = at->slots ? 2 * at->slots : FIRST_SLOTS;
    QS_TRY(qs_allocate(at->slots, sizeof *at->slot, &at->slot));
    for (size_t i = 0; i < at->slots; i++)
        at->slot[i] = -1;
    for (int s = 0; s < at->states; s++)
        at->slot[slot_find(at, &at->state[(size_t)s * (size_t)at->values])] = s;
    return QS_OK;
}

/* The number of a state, which may be new. */
static qs_status state_add(layer *at, const value_state *state, int *out) {
    QS_TRY(slots_grow(at));
    int *slot = &at->slot[slot_find(at, state)];
    if (*slot < 0) {
        if (at->states == MOST_STATES)
            return qs_fail(QS_UNSUPPORTED, "the model has too many values at once: cases of all its plans cannot be listed");
        const size_t states = (size_t)at->states + 1, values = (size_t)at->values;
        QS_TRY(qs_grow(&at->state, &at->state_capacity, states * values + 1, sizeof *at->state));
        QS_TRY(qs_grow(&at->first, &at->first_capacity, states, sizeof *at->first));
        QS_TRY(qs_grow(&at->last, &at->last_capacity, states, sizeof *at->last));
        QS_TRY(qs_grow(&at->into, &at->into_capacity, states, sizeof *at->into));
        if (values) memcpy(&at->state[(states - 1) * values], state, values * sizeof *state);
        at->into[at->states] = -1;
        *slot = at->states++;
    }
    *out = *slot;
    return QS_OK;
}

/* Values before node `n` that nodes from n on read. */
static qs_status values_list(const qs_graph *graph, int n, const layer *behind, layer *out) {
    QS_TRY(qs_allocate((size_t)behind->values + QS_MAX_INPUTS, sizeof *out->value, &out->value));
    for (int v = 0; v < n; v++) {
        bool read = value_find(behind, v) >= 0;
        for (int i = 0; i < graph->node[n].inputs; i++)
            read = read || graph->node[n].input[i] == v;
        if (read) out->value[out->values++] = v;
    }
    return QS_OK;
}

/* ---- Moves ---- */

static int choices_of(const coverage *all, int value) {
    int choices = 0;
    for (int f = 0; f < all->formats; f++)
        choices += all->possible[value] >> f & 1;
    return qs__gradient_may_deliver(all->draft, value) && all->graph->node[value].op->kind == QS_ADJUSTABLE ? 2 * choices : choices;
}

static value_state assumption(const coverage *all, int value, int choice) {
    value_state state = {0};
    int formats = 0;
    for (int f = 0; f < all->formats; f++)
        formats += all->possible[value] >> f & 1;
    state.gradient = choice >= formats;
    for (int left = choice % formats; !(all->possible[value] >> state.format & 1) || left-- > 0;)
        state.format++;
    return state;
}

/* All that the visited nodes know of the values before node n, if it has this recipe and the new ones of its inputs are as assumed;
 * `assumed` counts through the assumptions. false: the node's own value is not what its readers assumed. */
static bool state_make(coverage *all, int n, const value_state *own, int behind, int assumed, uint64_t *key) {
    qs_schedule_draft *draft = all->draft;
    const qs_node *node = &all->graph->node[n];
    const layer *from = &all->layer[n + 1], *to = &all->layer[n];
    for (int i = 0; i < to->values; i++) {
        const int known = value_find(from, to->value[i]), choices = known < 0 ? choices_of(all, to->value[i]) : 1;
        all->state[i] = known < 0 ? assumption(all, to->value[i], assumed % choices)
                                  : from->state[(size_t)behind * (size_t)from->values + (size_t)known];
        assumed /= choices;
        draft->facts[to->value[i]].value = all->format[all->state[i].format];
    }
    draft->facts[n].need = own && own->need ? all->format[own->need - 1] : NULL;
    draft->facts[n].value = qs__value_format(draft, n);
    const int format = format_index(all, draft->facts[n].value);
    if (own && own->format != format) return false;
    if (own && qs__gradient_may_deliver(draft, n) && node->op->kind == QS_ADJUSTABLE && own->gradient != qs__gradient_is_wanted(draft, n))
        return false;
    *key = (uint64_t)format;
    if (own) *key |= (uint64_t)own->absmax << 4 | (uint64_t)own->same_reader << 5;
    for (int i = node->inputs - 1; i >= 0; i--) {
        const int input = node->input[i];
        value_state *state = &all->state[value_find(to, input)];
        const qs_format *need =
            qs__wider_format(state->need ? all->format[state->need - 1] : NULL, qs__need_of_reader(draft, qs__edge(n, i)));
        const qs_quantizer want = qs__wanted_form(draft, n, i);
        if (need) state->need = (uint8_t)(format_index(all, need) + 1);
        if (qs__value_can_deliver(draft, draft->topology.root[input]))
            state->absmax |= qs__takes_one_step(&want) || (qs__is_alias(&draft->in, n) && own && own->absmax);
        if (qs__gradient_may_deliver(draft, input) && draft->topology.last[input] == qs__edge(n, i))
            state->same_reader = draft->facts[input].value == draft->facts[n].value;
        *key |= ((uint64_t)state->format | (uint64_t)state->gradient << 4) << (8 + 8 * i);
    }
    return true;
}

static qs_status move_add(coverage *all, int n, int recipe, int behind, uint64_t key) {
    node_moves *at = &all->visit[n];
    layer *before = &all->layer[n];
    move one = {.behind = behind, .recipe = (unsigned char)recipe};
    key |= (uint64_t)recipe << (8 + 8 * QS_MAX_INPUTS);
    while (one.surroundings < at->surroundings && at->key[one.surroundings] != key)
        one.surroundings++;
    if (one.surroundings == at->surroundings) {
        QS_TRY(qs_grow(&at->key, &at->key_capacity, (size_t)at->surroundings + 1, sizeof *at->key));
        at->key[at->surroundings++] = key;
    }
    QS_TRY(state_add(before, all->state, &one.before));
    QS_TRY(qs_grow(&at->move, &at->move_capacity, (size_t)at->moves + 1, sizeof *at->move));
    one.next = before->into[one.before];
    before->into[one.before] = at->moves;
    at->move[at->moves++] = one;
    return QS_OK;
}

/* All moves of a node, from every state behind it. */
static qs_status node_visit(coverage *all, int n) {
    layer *from = &all->layer[n + 1], *to = &all->layer[n];
    const qs_op *op = all->graph->node[n].op;
    const bool adjustable = op && op->kind == QS_ADJUSTABLE;
    const int self = value_find(from, n);
    int assumptions = 1;
    QS_TRY(values_list(all->graph, n, from, to));
    for (int i = 0; i < to->values; i++)
        if (value_find(from, to->value[i]) < 0) assumptions *= choices_of(all, to->value[i]);
    for (int s = 0; s < from->states; s++) {
        const value_state *own = self < 0 ? NULL : &from->state[(size_t)s * (size_t)from->values + (size_t)self];
        from->first[s] = all->visit[n].moves;
        for (int r = 0; r < (adjustable ? all->recipes : 1); r++) {
            if (adjustable) all->draft->recipe[n] = all->recipe[r];
            for (int a = 0; a < assumptions; a++) {
                uint64_t key;
                if (state_make(all, n, own, s, a, &key)) QS_TRY(move_add(all, n, r, s, key));
            }
        }
        from->last[s] = all->visit[n].moves;
    }
    return QS_OK;
}

/* From the first node to the last: a state that no live move leaves is dead, and so are the moves to it. */
static void dead_ends_strike(coverage *all) {
    for (int n = 1; n < all->graph->nodes; n++) {
        const layer *before = &all->layer[n];
        for (int s = 0; s < before->states; s++) {
            bool alive = false;
            for (int m = before->first[s]; m < before->last[s]; m++)
                alive = alive || !all->visit[n - 1].move[m].dead;
            for (int m = before->into[s]; m >= 0 && !alive; m = all->visit[n].move[m].next)
                all->visit[n].move[m].dead = true;
        }
    }
}

/* ---- Plans ---- */

static void move_take(coverage *all, int n, const move *one, unsigned char *choice) {
    all->visit[n].taken[one->surroundings]++;
    choice[n] = one->recipe;
}

/* A chain through this move; on the way surroundings come first that fewest chains went through. */
static void chain_take(coverage *all, int n, const move *through, unsigned char *choice) {
    move_take(all, n, through, choice);
    int state = through->before;
    for (int k = n - 1; k >= 0; k--) {
        const layer *behind = &all->layer[k + 1];
        const int *taken = all->visit[k].taken;
        const move *chosen = NULL;
        for (int m = behind->first[state]; m < behind->last[state]; m++) {
            const move *one = &all->visit[k].move[m];
            if (!one->dead && (!chosen || taken[one->surroundings] < taken[chosen->surroundings])) chosen = one;
        }
        move_take(all, k, chosen, choice);
        state = chosen->before;
    }
    state = through->behind;
    for (int k = n + 1; k < all->graph->nodes; k++) {
        const node_moves *at = &all->visit[k];
        const move *chosen = NULL;
        for (int m = all->layer[k].into[state]; m >= 0; m = at->move[m].next)
            if (!chosen || at->taken[at->move[m].surroundings] < at->taken[chosen->surroundings]) chosen = &at->move[m];
        move_take(all, k, chosen, choice);
        state = chosen->behind;
    }
}

static qs_status plans_take(coverage *all, qs_case_plans *out) {
    size_t capacity = 0;
    for (int n = 0; n < all->graph->nodes; n++)
        QS_TRY(qs_allocate((size_t)all->visit[n].surroundings + 1, sizeof *all->visit[n].taken, &all->visit[n].taken));
    for (int n = all->graph->nodes - 1; n >= 0; n--)
        for (int m = 0; m < all->visit[n].moves; m++) {
            const move *one = &all->visit[n].move[m];
            if (one->dead || all->visit[n].taken[one->surroundings] > 0) continue;
            QS_TRY(qs_grow(&out->choice, &capacity, (size_t)(out->plans + 1) * (size_t)out->nodes, 1));
            chain_take(all, n, one, out->choice + (size_t)out->plans++ * (size_t)out->nodes);
        }
    return QS_OK;
}

static qs_status no_kernel(void *context, const qs_case *one, const char *case_text, qs_kernel_row *out) {
    (void)context, (void)one, (void)case_text;
    *out = (qs_kernel_row){0};
    return QS_OK;
}

static qs_status coverage_start(coverage *all, const qs_lowering *lowering, const qs_recipe *recipe) {
    const size_t nodes = (size_t)all->graph->nodes;
    qs_lowering plain = *lowering;
    int only;
    plain.recipe = NULL;
    plain.lookup = no_kernel;
    QS_TRY(qs__draft_make(&plain, NULL, &all->draft));
    QS_TRY(qs_allocate((size_t)all->recipes, sizeof(const qs_recipe *), &all->recipe));
    for (int r = 0; r < all->recipes; r++)
        all->recipe[r] = &recipe[r];
    QS_TRY(qs_allocate(nodes, sizeof *all->possible, &all->possible));
    QS_TRY(qs_allocate(nodes + 1, sizeof *all->layer, &all->layer));
    QS_TRY(qs_allocate(nodes, sizeof *all->visit, &all->visit));
    QS_TRY(qs_allocate(nodes, sizeof *all->state, &all->state));
    QS_TRY(formats_list(all, lowering->half));
    return state_add(&all->layer[nodes], all->state, &only);
}

static void coverage_end(coverage *all) {
    for (int n = 0; all->layer && n <= all->graph->nodes; n++) {
        layer *one = &all->layer[n];
        free(one->value), free(one->state), free(one->slot), free(one->first), free(one->last), free(one->into);
    }
    for (int n = 0; all->visit && n < all->graph->nodes; n++)
        free(all->visit[n].move), free(all->visit[n].key), free(all->visit[n].taken);
    free(all->layer), free(all->visit), free(all->state), free(all->possible);
    free(all->recipe);
    qs_schedule_draft_release(all->draft);
}

qs_status qs_schedule_case_plans(const qs_lowering *lowering, int recipes, const qs_recipe *recipe, qs_case_plans *out) {
    coverage all = {.graph = lowering->graph, .recipes = recipes};
    qs_case_plans plans = {.nodes = lowering->graph->nodes};
    qs_status status = coverage_start(&all, lowering, recipe);
    for (int n = all.graph->nodes - 1; n >= 0 && status == QS_OK; n--)
        status = node_visit(&all, n);
    if (status == QS_OK) {
        dead_ends_strike(&all);
        status = plans_take(&all, &plans);
    }
    coverage_end(&all);
    if (status != QS_OK) qs_case_plans_release(&plans);
    *out = plans;
    return qs_fail_within(status, "model %s", lowering->graph->name);
}

void qs_case_plans_release(qs_case_plans *plans) {
    free(plans->choice);
    *plans = (qs_case_plans){0};
}

/* ---- Cases ---- */

/* A case may serve as a kernel of the model in one place and as a conversion in another (sums of gradients and `add`). */
static qs_status cases_visit(const qs_schedule_draft *draft, uint8_t **seen, size_t *capacity, qs_case_visit visit, void *context) {
    for (int s = 0; s < draft->segments; s++)
        for (int i = 0; i < draft->segment[s]->steps; i++) {
            const qs_draft_step *step = &draft->segment[s]->step[i];
            if (step->kind != QS_STEP_KERNEL) continue;
            const size_t at = (size_t)step->case_->index;
            const uint8_t as = step->conversion ? 2 : 1;
            QS_TRY(qs_grow(seen, capacity, at + 1, 1));
            if ((*seen)[at] & as) continue;
            (*seen)[at] |= as;
            QS_TRY(visit(context, step->case_, step->conversion));
        }
    return QS_OK;
}

qs_status qs_schedule_cases(const qs_lowering *lowering, int recipes, const qs_recipe *recipe, qs_case_visit visit, void *context) {
    const qs_graph *graph = lowering->graph;
    qs_case_plans plans = {0};
    qs_schedule_draft *draft = NULL;
    uint8_t *seen = NULL;
    size_t capacity = 0;
    const qs_recipe **first = NULL;
    qs_lowering own = *lowering;
    qs_status status = QS_OK;
    QS_GOTO(qs_schedule_case_plans(lowering, recipes, recipe, &plans));
    QS_GOTO(qs_allocate((size_t)graph->nodes, sizeof(const qs_recipe *), &first));
    for (int n = 0; n < graph->nodes; n++)
        first[n] = &recipe[plans.choice[n]];
    own.recipe = first;
    QS_GOTO(qs_schedule_draft_create(&own, &draft));
    for (int p = 0; p < plans.plans; p++) {
        for (int n = graph->samples.inputs; n < graph->nodes; n++) {
            if (graph->node[n].op->kind != QS_ADJUSTABLE) continue;
            QS_GOTO(qs_schedule_change(draft, n, &recipe[plans.choice[(size_t)p * (size_t)plans.nodes + (size_t)n]], NULL));
            qs_schedule_keep(draft);
        }
        if (visit) QS_GOTO(cases_visit(draft, &seen, &capacity, visit, context));
    }
done:
    qs_schedule_draft_release(draft);
    qs_case_plans_release(&plans);
    free(first);
    free(seen);
    return status;
}
