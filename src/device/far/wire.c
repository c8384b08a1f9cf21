// SPDX-License-Identifier: Apache-2.0
/* Whole messages over a socket. */
#include "far/wire.h"

#include <errno.h>
#include <sys/socket.h>

bool qs__far_send(int socket, const void *data, size_t bytes) {
    const char *at = data;
    while (bytes > 0) {
        const ssize_t sent = send(socket, at, bytes, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        at += sent;
        bytes -= (size_t)sent;
    }
    return true;
}

bool qs__far_receive(int socket, void *data, size_t bytes) {
    char *at = data;
    while (bytes > 0) {
        const ssize_t got = recv(socket, at, bytes, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        at += got;
        bytes -= (size_t)got;
    }
    return true;
}
