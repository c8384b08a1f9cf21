// SPDX-License-Identifier: Apache-2.0
/* What LDTILECFG reads (Intel 64 and IA-32 manual, volume 1, 18.3): which part of each tile register is used. */
#ifndef QSYNC_DEVICE_CPU_TILES_AMX_H
#define QSYNC_DEVICE_CPU_TILES_AMX_H

#include <immintrin.h>
#include <stdint.h>

typedef struct qs__tile_registers {
    uint8_t palette, start, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} qs__tile_registers;

/* Compilers do not know how much of it is read. */
#define QS__TILES_CONFIGURE(registers)                    \
    do {                                                  \
        __asm__ volatile("" ::"r"(registers) : "memory"); \
        _tile_loadconfig(registers);                      \
    } while (0)

#endif
