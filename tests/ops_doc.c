/* Writes docs/ops.md from the table of ops. */
#include "ops_run.h"
#include "pages.h"

#include <stdio.h>

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

static void say_op(FILE *f, const dt_op *op)
{
    fprintf(f, "- **`%s`** (", op->name);
    const bool many = op->in_name[DT__CASE_IN] != NULL; /* concat: x0 ... x15 */
    for (int i = 0; i < (many ? 1 : DT_MAX_IN) && op->in_name[i] != NULL; i++) {
        fprintf(f, "%s%s%s", i == 0 ? "" : ", ", op->in_name[i], role_of(op, i));
        if (op->optional[i]) fprintf(f, " optional");
        if (op->undifferentiable[i] && op->backward != NULL) fprintf(f, " *no gradient*");
    }
    const char *result = op->out_name[0] != NULL ? op->out_name[0] : op->in_name[0];
    if (many) fprintf(f, ", %s, ...", op->in_name[1]);
    fprintf(f, ")");
    if (strcmp(result, "y") != 0) fprintf(f, " → %s", result);
    fprintf(f, ": %s", op->text);
    for (const dt_key *k = op->keys; k != NULL && k->name != NULL; k++) {
        fprintf(f, "%s`%s`", k == op->keys ? "; options " : ", ", k->name);
    }
    fprintf(f, op->lower != NULL ? "; *lowers*\n" : "\n");
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

static bool is_same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

/* Whether the page says the same of both options. */
static bool is_same(const dt_key *a, const dt_key *b)
{
    return is_same_text(a->name, b->name) && a->type == b->type && a->choices == b->choices &&
           is_same_text(a->fallback, b->fallback) && is_same_text(a->text, b->text);
}

/* The option of an operator that is the same as k, or NULL. */
static const dt_key *same_option(const dt_op *op, const dt_key *k)
{
    const dt_key *other = op->keys;
    while (other != NULL && other->name != NULL && !is_same(other, k)) other++;
    return other != NULL && other->name != NULL ? other : NULL;
}

/* A line for option k of ops[at] and of the operators behind it that have the same, unless one in
 * front of it has. */
static void say_option(FILE *f, const dt_op *const *ops, int n, int at, const dt_key *k)
{
    for (int i = 0; i < at; i++) {
        if (same_option(ops[i], k) != NULL) return;
    }
    fprintf(f, "- `%s` of", k->name);
    for (int i = at; i < n; i++) {
        if (same_option(ops[i], k) != NULL) fprintf(f, "%s `%s`", i == at ? "" : ",", ops[i]->name);
    }
    fprintf(f, " (");
    for (int i = 0; k->type == DT_KEY_CHOICE && k->choices[i] != NULL; i++) {
        fprintf(f, "%s%s", i == 0 ? "" : ", ", k->choices[i]);
    }
    if (k->type != DT_KEY_CHOICE) fprintf(f, "%s", type_of(k));
    const bool required = k->fallback != NULL && strcmp(k->fallback, "!") == 0;
    fprintf(f, "; %s): %s\n",
            required              ? "required"
            : k->fallback != NULL ? k->fallback
                                  : "none",
            k->text);
}

/* What operators promise about their bits on two instruction sets: those that promise less. */
static void say_sets(FILE *f, const dt_op *const *ops, int n)
{
    fprintf(
        f,
        "\n## Bits on instruction sets\n\n"
        "Results and gradients do not differ in one bit between two instruction sets, but for "
        "the operators of this table,\nof whose f32 and f64 it has the largest difference in "
        "units of the largest value: oneDNN computes large\nconvolutions of floats that record "
        "gradients. Their products of codes have the same bits, gradients are as f32.\n"
        "`detent-test ops` compares every case on each set of the machine, `detent-test-emulated "
        "ops` on all sets.\n\n"
        "| operator | f32 | f64 |\n|---|---|---|\n");
    for (int i = 0; i < n; i++) {
        const double f32 = ops_set_bound(ops[i], DT_F32), f64 = ops_set_bound(ops[i], DT_F64);
        if (f32 == 0 && f64 == 0) continue;
        fprintf(f, "| `%s` |", ops[i]->name);
        for (int real = DT_F32; real <= DT_F64; real++) {
            const double bound = real == DT_F32 ? f32 : f64;
            if (bound == 0) fprintf(f, " same |");
            else fprintf(f, " %.0e |", bound);
        }
        fprintf(f, "\n");
    }
}

void pages_put_ops(FILE *f)
{
    const int n = DT__COUNT_OF(all);
    fprintf(
        f,
        "# Operators\n\n"
        "`DETENT_UPDATE=1 detent-test pages` writes this page from the table of operators; the "
        "test compares the two.\nPrototypes, shapes and errors are in "
        "`include/detent/ops.h` and `experimental/ops.h`, those of `device_...` in `device.h` "
        "beside it.\n\n"
        "The word behind an operand says what the operator gets of it if it is a "
        "FakeQuantTensor, which computes with\ninteger codes of an fp32 master "
        "([architecture](architecture.md#how-a-call-travels)):\n\n"
        "- none: the dequantized value;\n"
        "- `codes`: the integer codes and their scales, where the product can use them, else the "
        "dequantized value;\n"
        "- `raw`: the master, to read; **write**: the master, which the operator changes.\n\n"
        "No gradient flows to an operand with *no gradient*. Names that end in `_` are operators "
        "that change their first\noperand in place. `device_...` compute with int8 codes alone; "
        "their `scale` and `zero_point` are those of the\nresult's codes. What *lowers* is the "
        "meaning "
        "of calls of other operators,\nwith which `detent-test ops` compares it.\n\n");
    for (int i = 0; i < n; i++) say_op(f, all[i]);
    fprintf(f, "\n## Options\n\nIn parentheses: what the option takes; its default.\n\n");
    for (int i = 0; i < n; i++) {
        for (const dt_key *k = all[i]->keys; k != NULL && k->name != NULL; k++) {
            say_option(f, all, n, i, k);
        }
    }
    say_sets(f, all, n);
}
