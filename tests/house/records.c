// SPDX-License-Identifier: Apache-2.0
/* Writes the manual of records: standard input, with the tables of a record in place of each line "@fields RECORD". */
#include <stdio.h>
#include <string.h>

#include "qsync/record.h"

/* Fields come table by table; every table has its head. */
static void row(const qs_field_manual *field, void *context) {
    const char **table = context;
    const char *here = field->table ? field->table : "";
    if (!*table || strcmp(*table, here) != 0) {
        if (*table) printf("\n");
        if (*here) printf("### %s\n\n", here);
        printf("| field | unit, values | default | meaning |\n|---|---|---|---|\n");
    }
    *table = here;
    printf("| `%s` | %s |%s%s | %s%s |\n", field->name, field->values, field->standard[0] ? " " : "", field->standard, field->text,
           field->more);
}

int main(void) {
    static const char mark[] = "@fields ";
    char line[4096];
    while (fgets(line, sizeof line, stdin)) {
        if (strncmp(line, mark, sizeof mark - 1) != 0) {
            fputs(line, stdout);
            continue;
        }
        const char *table = NULL;
        line[strcspn(line, "\n")] = '\0';
        if (qs_record_describe(line + sizeof mark - 1, row, &table) == QS_OK) continue;
        fprintf(stderr, "%s\n", qs_message());
        return 1;
    }
    return ferror(stdin) || fflush(stdout) != 0;
}
