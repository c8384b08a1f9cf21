#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# slow-network.py DELAY_MS MBIT_PER_S TAP...: a switch between tap devices. What a port sends leaves it at that rate, in order, and arrives
# DELAY_MS after its last byte has left; nothing is lost. In user space because many kernels lack tc's netem. Runs until it is killed.
import fcntl
import heapq
import os
import select
import struct
import sys
import time

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000


def tap(name):
    port = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(port, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return port


def receive(port):
    try:
        return os.read(port, 65536)
    except OSError:  # nothing more, or the device is down
        return None


def send(port, frame):
    try:
        os.write(port, frame)
    except OSError:  # the device is down
        pass


def main():
    delay, per_byte = float(sys.argv[1]) * 1e-3, 8 / (float(sys.argv[2]) * 1e6)
    ports = [tap(name) for name in sys.argv[3:]]
    print("ready", flush=True)
    free_at = [0.0] * len(ports)
    owner, under_way, frames = {}, [], 0
    while True:
        wait = max(under_way[0][0] - time.monotonic(), 0) if under_way else None
        for port in select.select(ports, [], [], wait)[0]:
            here = ports.index(port)
            while (frame := receive(port)) is not None:
                owner[frame[6:12]] = here
                there = owner.get(frame[0:6])
                targets = [there] if there is not None else [i for i in range(len(ports)) if i != here]
                free_at[here] = max(free_at[here], time.monotonic()) + len(frame) * per_byte
                frames += 1
                heapq.heappush(under_way, (free_at[here] + delay, frames, targets, frame))
        while under_way and under_way[0][0] <= time.monotonic():
            for target in under_way[0][2]:
                send(ports[target], under_way[0][3])
            heapq.heappop(under_way)


try:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))  # on time although ranks keep every core busy
except OSError:
    pass
main()
