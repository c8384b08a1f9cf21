// SPDX-License-Identifier: Apache-2.0
/* Microseconds of all-reduces: rows of what was measured; other numbers of ranks and hosts by the algorithm's formula (docs/method.md
 * §4.6). Rows are taken apart into the time of one message over one kind of link, and messages put together again, as comm says that the
 * algorithm sends them: a round is as slow as its slowest link, and messages that leave a host in the same round share its network. Of
 * `shared` the part is an access to memory, and on several hosts the messages between one rank of each. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "qsync/comm.h"
#include "qsync/costmodel.h"

static const char local_link[] = "shared-memory", any_network[] = "network";

/* ---- Rows ------------------------------------------------------------------------------------------------------------------- */

static int hosts_of(const qs_collective_cost *row) {
    return row->hosts > 0 ? row->hosts : 1;
}

static const char *wire_of_row(const qs_collective_cost *row) {
    return row->wire[0] ? row->wire : "fp32";
}

static bool row_is(const qs_collective_cost *row, const char *algorithm, const char *wire) {
    return row->ranks > 1 && strcmp(row->algorithm, algorithm) == 0 && strcmp(wire_of_row(row), wire) == 0;
}

static qs_message_piece piece_at(const qs_collective_cost *row, double bytes) {
    int p = 0;
    if (row->pieces == 0) return (qs_message_piece){INT64_MAX, row->us_per_byte, row->alpha_us};
    while (p + 1 < row->pieces && bytes > (double)row->piece[p].to_bytes)
        p++;
    return row->piece[p];
}

static bool link_matches(const qs_collective_cost *row, const char *link) {
    if (strcmp(link, local_link) == 0) return hosts_of(row) == 1;
    return hosts_of(row) > 1 && (strcmp(row->link, link) == 0 || strcmp(row->link, any_network) == 0);
}

/* Whether a row tells what one message over its link takes: a ring is as slow as its slowest link; of a mixture of rounds only the sum is
 * known. */
static bool is_pure(const qs_collective_cost *row) {
    const qs_comm_facts facts = qs_comm_all_reduce_facts(row->algorithm, wire_of_row(row), row->ranks);
    if (facts.shared) return hosts_of(row) == row->ranks;
    return facts.alike || hosts_of(row) == 1 || hosts_of(row) == row->ranks;
}

/* ---- One message ------------------------------------------------------------------------------------------------------------- */

typedef struct message_cost {
    double us, us_per_byte;
    const qs_collective_cost *from; /* the row with the most messages; NULL: no row */
} message_cost;

/* A message over a link, from all rows that know: the least-squares slope of row times over numbers of messages. */
static message_cost message_find(const qs_profile *profile, const char *algorithm, const char *wire, const char *link, double bytes) {
    message_cost sum = {0};
    double squares = 0;
    for (int i = 0; i < profile->collectives; i++) {
        const qs_collective_cost *row = &profile->collective[i];
        if (!row_is(row, algorithm, wire) || !link_matches(row, link) || !is_pure(row)) continue;
        const qs_comm_facts facts = qs_comm_all_reduce_facts(algorithm, wire, row->ranks);
        const double count = facts.messages, share = facts.share;
        const qs_message_piece piece = piece_at(row, bytes * share);
        sum.us += count * (piece.us + piece.us_per_byte * bytes * share);
        sum.us_per_byte += count * piece.us_per_byte * share;
        squares += count * count;
        if (!sum.from || row->ranks > sum.from->ranks) sum.from = row;
    }
    if (!sum.from) return sum;
    return (message_cost){sum.us / squares, sum.us_per_byte / squares, sum.from};
}

/* ---- Shared memory ------------------------------------------------------------------------------------------------------------ */

/* By the rows of one host: the pace of one access by least squares, the latency as their mean. */
static message_cost shared_find(const qs_profile *profile, const char *wire, int ranks, bool hosts, double bytes) {
    message_cost sum = {0};
    double squares = 0, latency = 0;
    int rows = 0;
    for (int i = 0; i < profile->collectives; i++) {
        const qs_collective_cost *row = &profile->collective[i];
        if (!row_is(row, "shared", wire) || hosts_of(row) > 1) continue;
        const double each = qs_comm_shared_accesses(row->ranks, false);
        const qs_message_piece piece = piece_at(row, bytes);
        sum.us_per_byte += each * piece.us_per_byte;
        squares += each * each;
        latency += piece.us;
        rows++;
        if (!sum.from || row->ranks > sum.from->ranks) sum.from = row;
    }
    if (!sum.from) return sum;
    const double pace = qs_comm_shared_accesses(ranks, hosts) * sum.us_per_byte / squares;
    return (message_cost){latency / rows + pace * bytes, pace, sum.from};
}

/* ---- Layout ------------------------------------------------------------------------------------------------------------------ */

typedef struct layout {
    const char *algorithm, *wire, *network;
    int ranks, hosts;
    qs_comm_facts facts;
    int *host;  /* of every position */
    int *flows; /* (hosts) messages that leave it in the round at hand */
} layout;

static int hosts_count(const qs_all_reduce *what) {
    int last = 0;
    for (int rank = 0; what->host && rank < what->ranks; rank++) {
        if (what->host[rank] > last) last = what->host[rank];
    }
    return last + 1;
}

static qs_status layout_make(const qs_all_reduce *what, layout *out) {
    QS_TRY(qs_allocate((size_t)what->ranks + (size_t)out->hosts, sizeof *out->host, &out->host));
    out->flows = out->host + what->ranks;
    if (!what->host) return QS_OK;
    if (!out->facts.by_host) {
        memcpy(out->host, what->host, (size_t)what->ranks * sizeof *out->host);
        return QS_OK;
    }
    for (int rank = 0; rank < what->ranks; rank++)
        out->flows[what->host[rank]]++;
    for (int host = 0, position = 0; host < out->hosts; host++) {
        for (; out->flows[host] > 0; out->flows[host]--)
            out->host[position++] = host;
    }
    return QS_OK;
}

/* What one round has: messages within hosts, and at most so many that leave one host. */
typedef struct round_load {
    bool local;
    int flows;
} round_load;

static round_load load_of(const layout *one, int round) {
    round_load load = {0};
    memset(one->flows, 0, (size_t)one->hosts * sizeof *one->flows);
    for (int from = 0; from < one->ranks; from++) {
        const int to = qs_comm_all_reduce_peer(one->algorithm, one->ranks, from, round);
        if (to < 0) continue;
        if (one->host[from] == one->host[to])
            load.local = true;
        else if (++one->flows[one->host[from]] > load.flows)
            load.flows = one->flows[one->host[from]];
    }
    return load;
}

/* ---- Putting together --------------------------------------------------------------------------------------------------------- */

static void measured_list(const qs_profile *profile, char *text, size_t capacity) {
    size_t used = (size_t)snprintf(text, capacity, "no all-reduce");
    bool first = true;
    for (int i = 0; i < profile->collectives && used < capacity; i++) {
        const qs_collective_cost *row = &profile->collective[i];
        if (row->ranks < 2) continue;
        if (first) used = 0;
        used += (size_t)snprintf(text + used, capacity - used, "%s%s%s%s of %d ranks on %d host%s", first ? "" : ", ", row->algorithm,
                                 row->wire[0] ? " in " : "", row->wire, row->ranks, hosts_of(row), hosts_of(row) > 1 ? "s" : "");
        first = false;
    }
}

static qs_status missing(const qs_profile *profile, const layout *one, const char *link) {
    const bool compressed = strcmp(one->wire, "fp32") != 0;
    char have[256];
    measured_list(profile, have, sizeof have);
    return qs_fail(
        QS_MISMATCH,
        "the profile has no all-reduce \"%s\"%s%s over %s of 2 ranks or more (it has %s): profile with --all-reduce %s%s%s under "
        "the launcher, with two ranks of each kind of link",
        one->algorithm, compressed ? " in " : "", compressed ? one->wire : "", link, have, one->algorithm, compressed ? " --wire " : "",
        compressed ? one->wire : "");
}

/* The slower of what a round has. Messages that leave a host together share its network's bytes, not its latency. */
static qs_status round_cost(const qs_profile *profile, const layout *one, round_load load, double bytes, message_cost *out) {
    message_cost local = {0}, network = {0};
    if (load.local) {
        local = message_find(profile, one->algorithm, one->wire, local_link, bytes);
        if (!local.from) return missing(profile, one, local_link);
    }
    if (load.flows > 0) {
        network = message_find(profile, one->algorithm, one->wire, one->network, bytes);
        if (!network.from) return missing(profile, one, one->network);
        network.us += (load.flows - 1) * network.us_per_byte * bytes;
    }
    *out = network.from && !(local.us > network.us) ? network : local;
    return QS_OK;
}

static void from_note(const qs_collective_cost *row, qs_all_reduce_cost *out) {
    if (row->ranks > out->from_ranks) out->from_ranks = row->ranks;
    if (hosts_of(row) > out->from_hosts) out->from_hosts = hosts_of(row);
}

static qs_status rounds_cost(const qs_profile *profile, const layout *one, int64_t bytes, qs_all_reduce_cost *out) {
    const int count = one->facts.messages, alike = one->facts.alike ? count : 1;
    const double length = (double)bytes / one->facts.share;
    double slowest = -1;
    for (int round = 0; round < count; round += alike) {
        message_cost message = {0};
        QS_TRY(round_cost(profile, one, load_of(one, round), length, &message));
        out->us += alike * message.us;
        if (message.us > slowest) out->cpu_share = message.from->cpu_share;
        if (message.us > slowest) slowest = message.us;
        from_note(message.from, out);
    }
    return QS_OK;
}

/* Most ranks on one host. */
static int fullest(const layout *one) {
    int most = 0;
    memset(one->flows, 0, (size_t)one->hosts * sizeof *one->flows);
    for (int position = 0; position < one->ranks; position++)
        if (++one->flows[one->host[position]] > most) most = one->flows[one->host[position]];
    return most;
}

/* The fullest host adds up, then one rank of each host meets the others in a ring, or by `library` on a compressed wire: by rows of one
 * rank a host, or rows of that algorithm. */
static qs_status shared_cost(const qs_profile *profile, const layout *one, int64_t bytes, qs_all_reduce_cost *out) {
    const char *between = strcmp(one->wire, "fp32") == 0 ? "ring" : "library";
    const qs_comm_facts facts = qs_comm_all_reduce_facts(between, one->wire, one->hosts);
    const int local = fullest(one), count = facts.messages;
    const double length = (double)bytes / facts.share;
    double stolen = 0;
    if (local > 1) {
        const message_cost sum = shared_find(profile, one->wire, local, one->hosts > 1, (double)bytes);
        if (!sum.from) return missing(profile, one, local_link);
        out->us = stolen = sum.us;
        from_note(sum.from, out);
    }
    if (one->hosts > 1) {
        message_cost message = message_find(profile, "shared", one->wire, one->network, length);
        if (!message.from) message = message_find(profile, between, one->wire, one->network, length);
        if (!message.from) return missing(profile, one, one->network);
        out->us += count * message.us;
        stolen += count * message.us * message.from->cpu_share;
        from_note(message.from, out);
    }
    out->cpu_share = out->us > 0 ? stolen / out->us : 0;
    return QS_OK;
}

static const qs_collective_cost *row_find(const qs_profile *profile, const layout *one) {
    const char *link = one->hosts > 1 ? one->network : local_link;
    for (int i = 0; i < profile->collectives; i++) {
        const qs_collective_cost *row = &profile->collective[i];
        if (row_is(row, one->algorithm, one->wire) && row->ranks == one->ranks && hosts_of(row) == one->hosts && link_matches(row, link))
            return row;
    }
    return NULL;
}

/* That of the first row, which is the job's, unless the caller names one. */
static const char *algorithm_of(const qs_profile *profile, const qs_all_reduce *what) {
    if (what->algorithm) return what->algorithm;
    for (int i = 0; i < profile->collectives; i++) {
        if (profile->collective[i].ranks > 1) return profile->collective[i].algorithm;
    }
    return "library";
}

static const char *wire_of(const qs_profile *profile, const qs_all_reduce *what) {
    if (what->wire) return what->wire;
    for (int i = 0; i < profile->collectives; i++) {
        if (profile->collective[i].ranks > 1) return wire_of_row(&profile->collective[i]);
    }
    return "fp32";
}

const char *qs_cost_wire_at(const qs_profile *profile, const char *algorithm, size_t index) {
    for (size_t w = 0; qs_comm_wire_at(w); w++) {
        int i = 0;
        while (i < profile->collectives && !row_is(&profile->collective[i], algorithm, qs_comm_wire_at(w)))
            i++;
        if (i < profile->collectives && index-- == 0) return qs_comm_wire_at(w);
    }
    return NULL;
}

/* Between memory that the host does not see and the all-reduce: every class that has such adds its copies, the slowest counts. That they
 * overlap with other buckets' all-reduces is left out: the time is an upper bound. One rank alone looks at its gradients and takes nothing
 * back. */
static void staging_add(const qs_profile *profile, const qs_all_reduce *what, const char *wire, int64_t bytes, qs_all_reduce_cost *out) {
    const double moved = (double)bytes * (strcmp(wire, "fp32") == 0 ? 1 : 2), reduce_us = out->us; /* 2: with residuals */
    double slowest = 0;
    int staged = 0;
    for (int c = 0; c < profile->classes; c++) {
        const qs_copy_cost *copies = &profile->class_[c].copies;
        if (!copies->known) continue;
        const double to_host = copies->out_us + copies->out_us_per_byte * moved, back = copies->in_us + copies->in_us_per_byte * moved;
        slowest = fmax(slowest, what->ranks > 1 ? to_host + back : to_host);
        staged++;
    }
    out->us += slowest;
    if (staged > 0) out->cpu_share = staged == profile->classes || out->us <= 0 ? 0 : out->cpu_share * reduce_us / out->us;
}

static qs_status reduce_cost(const qs_profile *profile, const qs_all_reduce *what, int64_t bytes, qs_all_reduce_cost *out) {
    layout one = {.algorithm = algorithm_of(profile, what),
                  .wire = wire_of(profile, what),
                  .network = what->network ? what->network : any_network,
                  .ranks = what->ranks};
    *out = (qs_all_reduce_cost){0};
    if (what->ranks < 2) return QS_OK;
    one.hosts = hosts_count(what);
    one.facts = qs_comm_all_reduce_facts(one.algorithm, one.wire, what->ranks);
    const qs_collective_cost *row = row_find(profile, &one);
    if (row) {
        const qs_message_piece piece = piece_at(row, (double)bytes);
        *out = (qs_all_reduce_cost){piece.us + piece.us_per_byte * (double)bytes, row->cpu_share, false, row->ranks, hosts_of(row)};
        return QS_OK;
    }
    out->extrapolated = true;
    qs_status status = layout_make(what, &one);
    if (status == QS_OK) status = one.facts.shared ? shared_cost(profile, &one, bytes, out) : rounds_cost(profile, &one, bytes, out);
    free(one.host);
    return status;
}

qs_status qs_cost_all_reduce_on(const qs_profile *profile, const qs_all_reduce *what, int64_t bytes, qs_all_reduce_cost *out) {
    QS_TRY(reduce_cost(profile, what, bytes, out));
    if (!qs_comm_by_devices(algorithm_of(profile, what))) staging_add(profile, what, wire_of(profile, what), bytes, out);
    return QS_OK;
}

qs_status qs_cost_all_reduce(const qs_profile *profile, int ranks, int64_t bytes, double *us, double *cpu_share) {
    qs_all_reduce_cost cost;
    *us = *cpu_share = 0;
    QS_TRY(qs_cost_all_reduce_on(profile, &(qs_all_reduce){.ranks = ranks}, bytes, &cost));
    *us = cost.us;
    *cpu_share = cost.cpu_share;
    return QS_OK;
}

/* ---- Memory -------------------------------------------------------------------------------------------------------------------- */

static int together(int ranks, int hosts) {
    return (ranks + hosts - 1) / hosts;
}

int64_t qs_cost_all_reduce_memory(const qs_profile *profile, const qs_all_reduce *what, int64_t bytes) {
    const char *algorithm = algorithm_of(profile, what), *wire = wire_of(profile, what);
    const qs_collective_cost *from = NULL;
    const int hosts = hosts_count(what);
    for (int i = 0; i < profile->collectives && what->ranks > 1; i++) {
        const qs_collective_cost *row = &profile->collective[i];
        if (!row_is(row, algorithm, wire)) continue;
        if (!from || (row->ranks == what->ranks && hosts_of(row) == hosts)) from = row;
    }
    if (!from) return 0;
    const double share = (double)together(what->ranks, hosts) / together(from->ranks, hosts_of(from));
    return (int64_t)((double)bytes * from->temporary_per_byte + (double)from->window_bytes * share);
}
