/* Writes docs/ops.md from the table of ops. */
#include "ops_run.h"
#include "pages.h"

#include <stdio.h>
#include <stdlib.h>

static const dt_op *const all[] = {
#define DT__OP(name) &dt__op_##name,
#include "ops/ops.inc"
#undef DT__OP
};

static const char *role_of(const dt_op *op, int i)
{
    static const char *const names[] = {
        [DT_READ] = "", [DT_CODES] = " codes", [DT_WRITE] = " **write**", [DT_RAW] = " raw"
    };
    return names[op->role[i]];
}

static void say_operands(FILE *f, const dt_op *op)
{
    const bool many = op->in_name[DT__CASE_IN] != NULL; /* concat: x0 ... x15 */
    for (int i = 0; i < (many ? 1 : DT_MAX_IN) && op->in_name[i] != NULL; i++) {
        fprintf(f, "%s%s%s%s", i == 0 ? "" : ", ", op->in_name[i], op->optional[i] ? "?" : "",
                role_of(op, i));
        if (op->undifferentiable[i] && op->backward != NULL) fprintf(f, " *const*");
    }
    const char *result = op->out_name[0] != NULL ? op->out_name[0] : op->in_name[0];
    if (many) fprintf(f, ", %s, ...", op->in_name[1]);
    fprintf(f, ")");
    if (strcmp(result, "y") != 0) fprintf(f, " → %s", result);
}

/* What the page says of an operator behind its name; free it. */
static char *said_of(const dt_op *op)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    ck_assert_ptr_nonnull(f);
    say_operands(f, op);
    fprintf(f, ": %s", op->text);
    ck_assert_int_eq(fclose(f), 0);
    return text;
}

/* A line for operator `at` and later operators with the same description; none if an earlier
 * operator has it. */
static void say_op(FILE *f, const dt_op *const *ops, int n, int at)
{
    bool is_first = true;
    char *text = said_of(ops[at]);
    for (int i = 0; i < n; i++) {
        char *other = said_of(ops[i]);
        const bool same = strcmp(text, other) == 0;
        free(other);
        if (!same) continue;
        if (i < at) break;
        fprintf(f, "%s**`%s`**%s", is_first ? "- " : ", ", ops[i]->name,
                ops[i]->lower != NULL ? "\\*" : "");
        is_first = false;
    }
    if (!is_first) fprintf(f, " (%s\n", text);
    free(text);
}

/* Lists the operators that promise less than the same bits on two instruction sets. */
static void say_sets(FILE *f, const dt_op *const *ops, int n)
{
    fprintf(f,
            "\n## Bits on instruction sets\n\n"
            "Results and gradients have the same bits on all instruction sets (`detent-test ops` "
            "and `detent-test-emulated\nops` compare), except where oneDNN computes large "
            "convolutions of floats that record gradients. The largest\ndifference, as a share "
            "of the largest value:\n\n");
    for (int i = 0; i < n; i++) {
        const double bounds[] = { ops_set_bound(ops[i], DT_F32), ops_set_bound(ops[i], DT_F64) };
        for (int k = 0; k < 2; k++) {
            if (bounds[k] == 0) continue;
            fprintf(f, "- `%s`, %s: %.0e\n", ops[i]->name, k == 0 ? "f32" : "f64", bounds[k]);
        }
    }
}

void pages_put_ops(FILE *f)
{
    const dt_op *ops[DT__COUNT_OF(all)];
    int n = 0;
    for (int i = 0; i < DT__COUNT_OF(all); i++) {
        if (strncmp(all[i]->name, "device_", 7) != 0) ops[n++] = all[i];
    }
    fprintf(
        f,
        "# Operators\n\n"
        "`DETENT_UPDATE=1 detent-test pages` writes this page. Prototypes, options, shapes and "
        "errors are in\n`include/detent/ops.h` and `experimental/ops.h`; "
        "`experimental/device.h` describes `device_...`, which compute with\nint8 codes alone.\n\n"
        "A line has the operands and the meaning. The word after an operand says what the "
        "operator gets of it\nif it is a FakeQuantTensor, which computes with integer codes of "
        "an fp32 master\n([architecture](architecture.md#how-a-call-travels)):\n\n"
        "- none: the dequantized value;\n"
        "- `codes`: the integer codes and their scales, where the product can use them, else "
        "the dequantized\n  value;\n"
        "- `raw`: the master, to read; **write**: the master, which the operator changes.\n\n"
        "An operand with a question mark may be absent; no gradient flows to one with *const*. "
        "Operators whose\nnames end in `_` change their first operand in place. "
        "`detent-test ops` compares an operator with \\* with\nthe other operators that compute "
        "the same.\n\n");
    for (int i = 0; i < n; i++) say_op(f, ops, n, i);
    say_sets(f, ops, n);
}
