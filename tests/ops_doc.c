/* Writes docs/ops.md from the table of ops. */
#include "ops_run.h"
#include "pages.h"

#include <stdio.h>

static const dt_op *const all[] = {
#define DT__OP(name) &dt__op_##name,
#include "ops/ops.inc"
#undef DT__OP
};

/* A cell may not hold a bar. */
static void say_cell(FILE *f, const char *words)
{
    for (; *words != '\0'; words++) fprintf(f, *words == '|' ? "\\|" : "%c", *words);
}

static const char *role_of(const dt_op *op, int i)
{
    static const char *const names[] = {
        [DT_READ] = "read", [DT_CODES] = "codes", [DT_WRITE] = "**write**", [DT_RAW] = "raw"
    };
    return names[op->role[i]];
}

static void say_op(FILE *f, const dt_op *op)
{
    fprintf(f, "| `%s` | ", op->name);
    const bool many = op->in_name[DT__CASE_IN] != NULL; /* concat: x0 ... x15 */
    for (int i = 0; i < (many ? 1 : DT_MAX_IN) && op->in_name[i] != NULL; i++) {
        fprintf(f, "%s%s %s", i == 0 ? "" : ", ", op->in_name[i], role_of(op, i));
        if (op->optional[i]) fprintf(f, " (optional)");
        if (op->undifferentiable[i] && op->backward != NULL) fprintf(f, " (no gradient)");
    }
    const char *result = op->out_name[0] != NULL ? op->out_name[0] : op->in_name[0];
    if (many) fprintf(f, ", %s, ...", op->in_name[1]);
    fprintf(f, " | %s | ", result);
    for (const dt_key *k = op->keys; k != NULL && k->name != NULL; k++) {
        fprintf(f, "%s`%s`", k == op->keys ? "" : ", ", k->name);
    }
    fprintf(f, " | ");
    say_cell(f, op->text);
    fprintf(f, " |\n");
}

static const char *type_of(const dt_key *k)
{
    static const char *const names[] = { [DT_KEY_BOOL] = "true or false",
                                         [DT_KEY_INT] = "integer",
                                         [DT_KEY_REAL] = "number",
                                         [DT_KEY_INTS] = "integers",
                                         [DT_KEY_PAIR] = "two integers" };
    return k->type < DT__COUNT_OF(names) && names[k->type] != NULL ? names[k->type] : "text";
}

static void say_options(FILE *f, const dt_op *op)
{
    for (const dt_key *k = op->keys; k != NULL && k->name != NULL; k++) {
        if (k == op->keys) fprintf(f, "| `%s` | `%s` | ", op->name, k->name);
        else fprintf(f, "| | `%s` | ", k->name);
        for (int i = 0; k->type == DT_KEY_CHOICE && k->choices[i] != NULL; i++) {
            fprintf(f, "%s%s", i == 0 ? "" : ", ", k->choices[i]);
        }
        if (k->type != DT_KEY_CHOICE) fprintf(f, "%s", type_of(k));
        const bool wanted = k->fallback != NULL && strcmp(k->fallback, "!") == 0;
        fprintf(f, " | %s | ",
                wanted                ? "must be given"
                : k->fallback != NULL ? k->fallback
                                      : "none");
        say_cell(f, k->text);
        fprintf(f, " |\n");
    }
}

/* What each operator promises about its bits on two instruction sets. */
static void say_sets(FILE *f, const dt_op *const *ops, int n)
{
    fputs(
        "\n## Bits on instruction sets\n\n"
        "How far results and gradients may differ between two instruction sets. `same`: not in one "
        "bit. A number is the\nlargest difference, in units of the largest value: oneDNN computes "
        "large convolutions of floats that record\ngradients. `detent-test ops` compares every "
        "case on each set of the machine, `detent-test-emulated ops` on all\nsets.\n\n"
        "| operator | f32 | f64 | codes |\n|---|---|---|---|\n",
        f);
    for (int i = 0; i < n; i++) {
        bool codes = false;
        for (int k = 0; k < DT_MAX_IN; k++) codes = codes || ops[i]->role[k] == DT_CODES;
        fprintf(f, "| `%s` |", ops[i]->name);
        for (int real = DT_F32; real <= DT_F64; real++) {
            const double bound = ops_set_bound(ops[i], (dt_dtype)real);
            if (bound == 0) fprintf(f, " same |");
            else fprintf(f, " %.0e |", bound);
        }
        const bool far = ops_set_bound(ops[i], DT_F32) != 0;
        fprintf(f, " %s |\n", !codes ? "" : far ? "same forward, gradients as f32" : "same");
    }
}

void pages_put_ops(FILE *f)
{
    const int n = DT__COUNT_OF(all);
    fputs("# Operators\n\n"
          "`DETENT_UPDATE=1 detent-test pages` writes this page from the table of operators; the "
          "test compares the two.\nPrototypes, shapes and errors are in "
          "`include/detent/ops.h`, those of `device_...` in `device.h` beside it.\n\n"
          "The word behind an operand says what the operator gets of it if it is a "
          "FakeQuantTensor, which computes with\ninteger codes of an fp32 master "
          "([architecture](architecture.md#how-a-call-travels)):\n\n"
          "- `read`: the dequantized value;\n"
          "- `codes`: the integer codes and their scales, where the product can use them, else the "
          "dequantized value;\n"
          "- `raw`: the master, to read; **write**: the master, which the operator changes.\n\n"
          "No gradient flows to an operand with *no gradient*. Names that end in `_` are operators "
          "that change their first\noperand in place. `device_...` compute with int8 codes alone; "
          "their `scale` and `zero_point` are those of the\nresult's codes.\n\n"
          "| operator | operands | result | options | what it does |\n|---|---|---|---|---|\n",
          f);
    for (int i = 0; i < n; i++) say_op(f, all[i]);
    fprintf(f, "\n## Options\n\n"
               "| operator | option | takes | default | meaning |\n|---|---|---|---|---|\n");
    for (int i = 0; i < n; i++) say_options(f, all[i]);
    say_sets(f, all, n);
}
