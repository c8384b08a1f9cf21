// SPDX-License-Identifier: Apache-2.0
/* What each rank sends and receives in each round of an all-reduce, by algorithm; no messages yet; and what follows from that for
 * predictions. Every element is added up in one order, which does not depend on the rank that ends with it, so all ranks end with the same
 * bits. */
#include "comm_internal.h"

#include <string.h>

static const qs__round nothing = {.send_to = -1, .receive_from = -1};

/* ---- Ring ------------------------------------------------------------------------------------------------------------------- */

static int64_t chunk_begin(int64_t count, int size, int chunk) {
    return count / size * chunk + count % size * chunk / size;
}

static int ring_rounds(int size) {
    return 2 * (size - 1);
}

/* n chunks go round: in the first n - 1 rounds each takes up the values of the ranks that it passes, in the others the sums are handed on.
 */
static qs__round ring_at(int size, int position, int64_t count, int index) {
    const int back = index % (size - 1), ahead = index >= size - 1;
    const int send = (position + ahead - back + size) % size, receive = (send - 1 + size) % size;
    return (qs__round){.send_to = (position + 1) % size,
                       .receive_from = (position - 1 + size) % size,
                       .send_first = chunk_begin(count, size, send),
                       .send_count = chunk_begin(count, size, send + 1) - chunk_begin(count, size, send),
                       .receive_first = chunk_begin(count, size, receive),
                       .receive_count = chunk_begin(count, size, receive + 1) - chunk_begin(count, size, receive),
                       .adds = !ahead};
}

/* ---- Recursive doubling ------------------------------------------------------------------------------------------------------ */

static int doubling_steps(int size) {
    int steps = 0;
    while ((size >> (steps + 1)) > 0)
        steps++;
    return steps;
}

static int doubling_rounds(int size) {
    const int steps = doubling_steps(size);
    return steps + ((1 << steps) < size ? 2 : 0);
}

/* A whole message to or from one other rank, or both at once. */
static qs__round whole(int peer, int64_t count, bool sends, bool receives, bool adds) {
    qs__round round = nothing;
    if (sends) round.send_to = peer;
    if (receives) round.receive_from = peer;
    round.send_count = sends ? count : 0;
    round.receive_count = receives ? count : 0;
    round.adds = adds;
    return round;
}

/* Beyond a power of two, the first `over` odd positions hand their values to the position before them, and get the sums from it at the end.
 */
static qs__round doubling_at(int size, int position, int64_t count, int index) {
    const int steps = doubling_steps(size), over = size - (1 << steps), rounds = doubling_rounds(size);
    const bool paired = position < 2 * over, odd = position % 2 == 1;
    if (over > 0 && index == 0) return paired ? whole(position ^ 1, count, odd, !odd, true) : nothing;
    if (over > 0 && index == rounds - 1) return paired ? whole(position ^ 1, count, !odd, odd, false) : nothing;
    if (paired && odd) return nothing;
    const int member = paired ? position / 2 : position - over, other = member ^ (1 << (index - (over > 0)));
    return whole(other < over ? 2 * other : other + over, count, true, true, true);
}

/* ---- By name ----------------------------------------------------------------------------------------------------------------- */

static const qs__algorithm algorithms[] = {{"shared", QS__WINDOW, NULL, NULL},
                                           {"library", QS__LIBRARY, NULL, NULL},
                                           {"ring", QS__ROUNDS, ring_rounds, ring_at},
                                           {"recursive-doubling", QS__ROUNDS, doubling_rounds, doubling_at},
                                           {"devices", QS__DEVICES, NULL, NULL}};
enum { ALGORITHMS = sizeof algorithms / sizeof *algorithms };

const qs__algorithm *qs__algorithm_named(const char *name) {
    for (size_t i = 0; i < ALGORITHMS; i++) {
        if (strcmp(algorithms[i].name, name) == 0) return &algorithms[i];
    }
    return NULL;
}

const char *qs_comm_algorithm_at(size_t index) {
    return index < ALGORITHMS ? algorithms[index].name : NULL;
}

qs_status qs_comm_algorithm_set(qs_comm *comm, const char *name) {
    const qs__algorithm *algorithm = qs__algorithm_named(name);
    if (!algorithm)
        return qs_fail(QS_UNSUPPORTED, "all-reduce algorithm %s: there is %s", name, qs_names_join(ALGORITHMS, qs_comm_algorithm_at));
    comm->algorithm = algorithm;
    return QS_OK;
}

const char *qs_comm_algorithm(const qs_comm *comm) {
    return comm->algorithm->name;
}

bool qs_comm_by_devices(const char *algorithm) {
    const qs__algorithm *one = qs__algorithm_named(algorithm);
    return one && one->way == QS__DEVICES;
}

/* ---- For predictions ----------------------------------------------------------------------------------------------------------- */

qs_comm_facts qs_comm_all_reduce_facts(const char *algorithm, const char *wire, int ranks) {
    const qs__algorithm *one = qs__algorithm_named(algorithm);
    const qs__wire *compressed = one && one->way == QS__ROUNDS ? NULL : qs__wire_named(wire);
    qs_comm_facts facts = {
        .shared = one && one->way == QS__WINDOW, .by_host = one && one->way != QS__LIBRARY && one->way != QS__DEVICES, .alike = true};
    if (compressed) { /* by the library's messages of packed bytes (comm.h) */
        const double width = (double)compressed->bytes(QS__WIRE_BLOCK) / (QS__WIRE_BLOCK * sizeof(float));
        const bool gathers = qs__wire_gathers(compressed, ranks);
        facts.messages = gathers ? ranks - 1 : 2 * (ranks - 1);
        facts.share = gathers ? 1 / width : 2 * ranks / (width + 1);
    } else if (one && one->rounds == doubling_rounds) {
        facts.alike = false;
        facts.messages = doubling_rounds(ranks);
        facts.share = 1;
    } else {
        facts.messages = ring_rounds(ranks);
        facts.share = ranks;
    }
    return facts;
}

int qs_comm_all_reduce_peer(const char *algorithm, int ranks, int position, int round) {
    const qs__algorithm *one = qs__algorithm_named(algorithm);
    return one && one->at ? one->at(ranks, position, 1, round).send_to : (position + 1) % ranks;
}

/* Into the window 2; every rank's and the sum, or its part of that and then the parts of all; between hosts the result goes through the
 * window once more. */
double qs_comm_shared_accesses(int ranks, bool hosts) {
    const double sum = ranks <= QS__DIRECT_MOST ? ranks + 1 : (ranks + 1.0) / ranks + 2;
    return 2 + sum + (hosts ? 4 : 0);
}
