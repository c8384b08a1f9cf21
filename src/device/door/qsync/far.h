// SPDX-License-Identifier: Apache-2.0
/* far: the other side of the backend `far`, for the program qsync-far (src/far).
 *
 * The backend is a device with memory and time of its own, without a machine of its own: a child process opens another backend of this
 * build and owns all memory; nothing of it is mapped by the process that opened `far`. Commands, copies and events travel over a socket.
 * Kernels are in one queue, copies in another beside it. A copy to or from the host takes latency_us + bytes / bytes_per_second, slept by
 * the child where its own work took less. memory_bytes is all there is: what does not fit is refused.
 *
 * The child is the program qsync-far: the one that QSYNC_FAR names, else the one beside the running program. It is started without a fork
 * of this process's threads, ends when its socket closes and is killed when the thread that started it ends; a child that is gone fails
 * every call, with the reason. */
#ifndef QSYNC_FAR_H
#define QSYNC_FAR_H

#include "qsync/device.h"

/* Does what the other end of the socket asks until that closes it. The caller's thread runs the kernels; one more copies, and one more
 * reads the socket. Failures of what was asked are answered; QS_FAILED when the socket itself fails. */
QS_API qs_status qs_far_serve(int socket);

#endif
