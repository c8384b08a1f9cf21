// SPDX-License-Identifier: Apache-2.0
/* Which model weights are of, for those who are given the weights alone. */
#ifndef QSYNC_CLI_GENERATE_MODEL_H
#define QSYNC_CLI_GENERATE_MODEL_H

#include "cli.h"

/* What opens the model of a weights file, into source[QS_MODEL]: what was `said` (NULL: nothing), the graph.json beside the file, what the
 * file says, or what Hugging Face's config.json beside it says. QS_USAGE where none of these is there; QS_UNSUPPORTED where such a
 * config.json is of a model that is not built here. */
qs_status generate_model(const char *weights, const char *said, char *source);

#endif
