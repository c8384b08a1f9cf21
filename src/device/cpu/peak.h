// SPDX-License-Identifier: Apache-2.0
/* The backend's side of qs_device_peak (peak.c). */
#ifndef QSYNC_DEVICE_CPU_PEAK_H
#define QSYNC_DEVICE_CPU_PEAK_H

#include "cpu/cpu.h"

double qs__peak(void *state, const qs_format *format);

#endif
