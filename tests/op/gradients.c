// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Every operator with a gradient has a finite-difference case: its name stands in a test that calls check_gradients, and its case list has
 * an fp32 case of every gradient that one of its passes writes, which is what that goes by. Operators that are named beside ONNX Runtime's
 * 82 single-operator gradient tests are so covered by rule and not by count. */
#include "kit/kit.h"

#include <dirent.h>

#include "qsync/op.h"

/* All tests of this folder that take finite differences, one behind the other; the caller frees. */
static char *tests_read(void) {
    char folder[512], path[1024], *all = calloc(1, 1);
    size_t used = 0;
    const char *source = getenv("QS_SOURCE");
    if (!source) return all;
    snprintf(folder, sizeof folder, "%s/tests/op", source);
    DIR *opened = opendir(folder);
    for (struct dirent *entry; opened && (entry = readdir(opened)) != NULL;) {
        char *text = NULL;
        size_t bytes;
        const char *end = strrchr(entry->d_name, '.');
        if (!end || strcmp(end, ".c") != 0 || strcmp(entry->d_name, "gradients.c") == 0) continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        assert_ok(qs_file_read(path, 1 << 20, &text, &bytes));
        if (strstr(text, "check_gradient")) {
            all = realloc(all, used + bytes + 1);
            assert_non_null(all);
            memcpy(all + used, text, bytes);
            all[used += bytes] = '\0';
        }
        free(text);
    }
    if (opened) closedir(opened);
    return all;
}

static bool is_gradient(const qs_pass_operand *operand) {
    return (operand->source == QS_TO_INPUT_GRADIENT || operand->source == QS_TO_PARAMETER_GRADIENT);
}

/* Passes of codes hand gradients straight through rounding: they are no derivatives, by definition (qsync/op.h), and have tests of that. */
static bool differentiates(const qs_op *op) {
    if (op->norm && op->norm->quantized) return false;
    for (int p = 0; p < op->passes; p++)
        for (int i = 0; i < op->pass[p].operands; i++)
            if (is_gradient(&op->pass[p].operand[i])) return true;
    return false;
}

TEST(every_operator_has_a_test) {
    char *tests = tests_read(), name[80];
    int missing = 0, found = 0;
    const qs_op *op;
    if (*tests == '\0') {
        free(tests);
        skip();
    }
    for (size_t i = 0; (op = qs_op_at(i)) != NULL; i++) {
        if (!differentiates(op)) continue;
        snprintf(name, sizeof name, "\"%s\"", op->name);
        found++;
        if (strstr(tests, name)) continue;
        print_message("%s has a gradient and no test of tests/op that takes finite differences names it\n", op->name);
        missing++;
    }
    free(tests);
    assert_true(found >= 29); /* 29 operators before models could be imported */
    assert_int_equal(missing, 0);
}

/* An fp32 case that has this operand. */
static bool has_case(const qs_op *op, const qs_pass *pass, int operand) {
    for (int c = 0; op->cases[c]; c++) {
        qs_case one;
        assert_ok(qs_case_parse(op->cases[c], &one));
        bool fp32 = one.pass == pass && one.operand[operand].format;
        for (int i = 0; i < one.operands && fp32; i++) {
            const qs_format *format = one.operand[i].format;
            fp32 = !format || format == qs_format_of("fp32") || one.operand[i].role == QS_MASK;
        }
        if (fp32) return true;
    }
    return false;
}

TEST(every_gradient_has_a_case) {
    int missing = 0;
    const qs_op *op;
    for (size_t n = 0; (op = qs_op_at(n)) != NULL; n++) {
        for (int p = 0; p < op->passes && differentiates(op); p++)
            for (int i = 0; i < op->pass[p].operands; i++) {
                if (!is_gradient(&op->pass[p].operand[i]) || has_case(op, &op->pass[p], i)) continue;
                print_message("%s/%s: no case in fp32 writes %s\n", op->name, op->pass[p].name, qs_role_name(op->pass[p].operand[i].role));
                missing++;
            }
    }
    assert_int_equal(missing, 0);
}

TEST_MAIN(every_operator_has_a_test, every_gradient_has_a_case)
