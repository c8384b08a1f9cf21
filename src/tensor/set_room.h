// SPDX-License-Identifier: Apache-2.0
/* What writing and reading of tensor sets share: the dtype names, the schema, the hash. */
#ifndef QSYNC_TENSOR_SET_ROOM_H
#define QSYNC_TENSOR_SET_ROOM_H

#include "qsync/tensor.h"

#include <jansson.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tensor sets are written from memory: a big-endian machine needs a byte swap here"
#endif

#define QS__SET_SCHEMA "qsync/weights/1"
#define QS__SET_METADATA "__metadata__"
/* Data start at a multiple of this in files, so that a mapped file has aligned tensors. */
enum { QS__SET_ALIGN = 64, QS__SET_PREFIX = 8 };

/* safetensors dtype of a format and back; NULL when there is none. */
const char *qs__dtype_of(const qs_format *format);
const qs_format *qs__format_of_dtype(const char *dtype);
/* Hash over the header (an object whose metadata lack "hash") as compact JSON, and the data: "xxh64:%016x" into text[32]. */
qs_status qs__set_hash(const json_t *header, const void *data, size_t bytes, char *text);

#endif
