// SPDX-License-Identifier: Apache-2.0
/* The audit of a run (audit.json, written by train) as people read it. */
#ifndef QSYNC_CLI_AUDIT_H
#define QSYNC_CLI_AUDIT_H

#include "cli.h"

/* QS_BAD_FILE unless all that audit_print needs is there. */
qs_status audit_parse(const char *text, const char *source, json_t **out);
void audit_print(const json_t *audit);

#endif
