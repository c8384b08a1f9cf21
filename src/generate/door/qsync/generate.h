// SPDX-License-Identifier: Apache-2.0
/* generate: sequences continued by a decoder, one id after the other.
 *
 * A *decoder* is a model whose next positions alone are computed (qs_graph_decoder): schedules lowered from its graph, run by the executor,
 * whose operators keep keys and values of the positions before, in memory of the device. It computes in fp32, as evaluation does. A step
 * costs one position: products with every weight once, and attention over what came before. Many positions at once (a prompt) go in blocks,
 * for which weights are read once. A *sampler* chooses an id by logits.
 *
 * What comes out depends on weights, ids, settings and seed, the processor's type, the number of threads, and nothing else. */
#ifndef QSYNC_GENERATE_H
#define QSYNC_GENERATE_H

#include "qsync/checkpoint.h"
#include "qsync/device.h"
#include "qsync/graph.h"

/* ---- Decoders ------------------------------------------------------------------------------------------------------------ */

typedef struct qs_decoder qs_decoder;
/* A decoder of `model` with weights of a file, read as qs_weights_start does (`choice` NULL: no patterns), for sequences of up to `context`
 * positions: caches for so many, and weights, are reserved on the device. The model is used in this call only, the device must outlive the
 * decoder. QS_UNSUPPORTED names the reason where a model cannot be continued so (encoders, images: qs_graph_decoder). */
QS_API qs_status qs_decoder_open(const qs_graph *model, const char *weights, const qs_weights_choice *choice, int64_t context,
                                 qs_device *device, qs_decoder **out);
/* NULL is fine. */
QS_API void qs_decoder_close(qs_decoder *decoder);
/* Ids are 0 .. vocabulary - 1. */
QS_API int64_t qs_decoder_vocabulary(const qs_decoder *decoder);
QS_API int64_t qs_decoder_context(const qs_decoder *decoder);
/* Positions that it holds. */
QS_API int64_t qs_decoder_place(const qs_decoder *decoder);
/* Bytes of the device's memory that it takes. */
QS_API size_t qs_decoder_bytes(const qs_decoder *decoder);
/* Appends `count` >= 1 ids; logits (vocabulary): of the id that follows the last of them. QS_USAGE, with nothing taken, for ids that the
 * model does not have, or more than the context has room for. */
QS_API qs_status qs_decoder_take(qs_decoder *decoder, int64_t count, const int32_t *id, float *logits);
/* Forgets all but the first `place` positions; as many as it holds at most. */
QS_API qs_status qs_decoder_rewind(qs_decoder *decoder, int64_t place);

/* ---- Sampling ------------------------------------------------------------------------------------------------------------- */

/* How an id is chosen by its logit l_i. temperature 0: the largest logit, of equal ones the first. Else by probabilities that go as
 * exp(l_i / temperature), among the fewest most probable ids that together have a probability of at least top_p (Holtzman et al. 2020); of
 * equally probable ones the first. */
typedef struct qs_sampling {
    double temperature; /* at least 0 */
    double top_p;       /* above 0, at most 1: among all */
    uint64_t seed;
} qs_sampling;

typedef struct qs_sampler qs_sampler;
/* A sampler of ids 0 .. count - 1. QS_USAGE: a setting is out of its range. */
QS_API qs_status qs_sampler_create(const qs_sampling *sampling, int64_t count, qs_sampler **out);
QS_API void qs_sampler_release(qs_sampler *sampler);
/* The id of draw number `draw`: the same logits, seed and number give the same id. QS_NUMERIC: a logit is not finite. */
QS_API qs_status qs_sampler_draw(qs_sampler *sampler, const float *logits, uint64_t draw, int32_t *id);

#endif
