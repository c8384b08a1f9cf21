// SPDX-License-Identifier: Apache-2.0
/* Which ranks of a cluster share a host, as its links say. */
#include "record_internal.h"

#include <string.h>

bool qs__link_is_network(const qs_link *link) {
    return strcmp(link->kind, "shared-memory") != 0;
}

const char *qs_cluster_network(const qs_cluster *cluster) {
    for (int i = 0; i < cluster->links; i++) {
        if (qs__link_is_network(&cluster->link[i])) return cluster->link[i].kind;
    }
    return "network";
}

/* The network between two classes, or between the ranks of one; NULL when nothing says that they are apart. */
static const qs_link *network_between(const qs_cluster *cluster, int a, int b) {
    const char *left = cluster->class_[a].name, *right = cluster->class_[b].name;
    for (int i = 0; i < cluster->links; i++) {
        const qs_link *link = &cluster->link[i];
        const bool straight = strcmp(link->between[0], left) == 0 && strcmp(link->between[1], right) == 0;
        const bool turned = strcmp(link->between[0], right) == 0 && strcmp(link->between[1], left) == 0;
        if ((straight || turned) && qs__link_is_network(link)) return link;
    }
    return NULL;
}

static int ranks_per_host(const qs_cluster *cluster, int index) {
    const qs_link *own = network_between(cluster, index, index);
    return own ? own->ranks_per_host : cluster->class_[index].count;
}

static int hosts_of(const qs_cluster *cluster, int index) {
    return (cluster->class_[index].count - 1) / ranks_per_host(cluster, index) + 1;
}

static int first_rank(const qs_cluster *cluster, int index) {
    int rank = 0;
    for (int c = 0; c < index; c++)
        rank += cluster->class_[c].count;
    return rank;
}

/* True when a class is on the hosts of an earlier one: nothing separates it from those who are there, and there are hosts enough. */
static bool joins(const qs_cluster *cluster, const int *host, int index, int earlier) {
    const int place = host[first_rank(cluster, earlier)];
    for (int c = 0; c < index; c++) {
        if (host[first_rank(cluster, c)] == place && network_between(cluster, c, index)) return false;
    }
    return hosts_of(cluster, index) <= hosts_of(cluster, earlier);
}

void qs_cluster_hosts(const qs_cluster *cluster, int *host, int *hosts) {
    *hosts = 0;
    for (int c = 0; c < cluster->classes; c++) {
        int earlier = 0;
        while (earlier < c && !joins(cluster, host, c, earlier))
            earlier++;
        const int first = earlier < c ? host[first_rank(cluster, earlier)] : *hosts;
        if (earlier == c) *hosts += hosts_of(cluster, c);
        for (int i = 0; i < cluster->class_[c].count; i++)
            host[first_rank(cluster, c) + i] = first + i / ranks_per_host(cluster, c);
    }
}
