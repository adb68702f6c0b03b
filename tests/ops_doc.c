/* Writes docs/ops.md from the table of ops. */
#include "ops_run.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct text {
    char *at;
    size_t used, room;
} text;

static void say(text *t, const char *format, ...) DT_PRINTF(2, 3);
static void say(text *t, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    t->used += (size_t)vsnprintf(t->at + t->used, t->room - t->used, format, arguments);
    va_end(arguments);
    ck_assert_msg(t->used < t->room, "the page is longer than %zu bytes", t->room);
}

/* A cell may not hold a bar. */
static void say_cell(text *t, const char *words)
{
    for (; *words != '\0'; words++) say(t, *words == '|' ? "\\|" : "%c", *words);
}

static const char *role_of(const dt_op *op, int i)
{
    static const char *const names[] = {
        [DT_READ] = "read", [DT_CODES] = "codes", [DT_WRITE] = "**write**", [DT_RAW] = "raw"
    };
    return names[op->role[i]];
}

static void say_op(text *t, const dt_op *op)
{
    say(t, "| `%s` | ", op->name);
    const bool many = op->in_name[DT__CASE_IN] != NULL; /* concat: x0 ... x15 */
    for (int i = 0; i < (many ? 1 : DT_MAX_IN) && op->in_name[i] != NULL; i++) {
        say(t, "%s%s %s", i == 0 ? "" : ", ", op->in_name[i], role_of(op, i));
        if (op->optional[i]) say(t, " (optional)");
        if (op->undifferentiable[i] && op->backward != NULL) say(t, " (no gradient)");
    }
    const char *result = op->out_name[0] != NULL ? op->out_name[0] : op->in_name[0];
    if (many) say(t, ", %s, ...", op->in_name[1]);
    say(t, " | %s | ", result);
    for (const dt_key *k = op->keys; k != NULL && k->name != NULL; k++) {
        say(t, "%s`%s`", k == op->keys ? "" : ", ", k->name);
    }
    say(t, " | ");
    say_cell(t, op->text);
    say(t, " |\n");
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

static void say_options(text *t, const dt_op *op)
{
    for (const dt_key *k = op->keys; k != NULL && k->name != NULL; k++) {
        if (k == op->keys) say(t, "| `%s` | `%s` | ", op->name, k->name);
        else say(t, "| | `%s` | ", k->name);
        for (int i = 0; k->type == DT_KEY_CHOICE && k->choices[i] != NULL; i++) {
            say(t, "%s%s", i == 0 ? "" : ", ", k->choices[i]);
        }
        if (k->type != DT_KEY_CHOICE) say(t, "%s", type_of(k));
        const bool wanted = k->fallback != NULL && strcmp(k->fallback, "!") == 0;
        say(t, " | %s | ", wanted ? "must be given" : k->fallback != NULL ? k->fallback : "none");
        say_cell(t, k->text);
        say(t, " |\n");
    }
}

/* What each operator promises about its bits on two instruction sets. */
static void say_sets(text *t, const dt_op *const *ops, int n)
{
    say(t,
        "\n## Bits on instruction sets\n\n"
        "How far results and gradients may differ between two instruction sets. `same`: not in one "
        "bit. A number is the\nlargest difference, in units of the largest value: oneDNN computes "
        "large convolutions of floats that record\ngradients. `detent-test ops` compares every "
        "case on each set of the machine, `detent-test-emulated ops` on all\nsets.\n\n"
        "| operator | f32 | f64 | codes |\n|---|---|---|---|\n");
    for (int i = 0; i < n; i++) {
        bool codes = false;
        for (int k = 0; k < DT_MAX_IN; k++) codes = codes || ops[i]->role[k] == DT_CODES;
        say(t, "| `%s` |", ops[i]->name);
        for (int real = DT_F32; real <= DT_F64; real++) {
            const double bound = ops_set_bound(ops[i], (dt_dtype)real);
            if (bound == 0) say(t, " same |");
            else say(t, " %.0e |", bound);
        }
        const bool far = ops_set_bound(ops[i], DT_F32) != 0;
        say(t, " %s |\n", !codes ? "" : far ? "same forward, gradients as f32" : "same");
    }
}

char *ops_markdown(const dt_op *const *ops, int n)
{
    text t = { .room = 1 << 16 };
    t.at = malloc(t.room);
    ck_assert_ptr_nonnull(t.at);
    say(&t,
        "# Operators\n\n"
        "`DETENT_UPDATE=1 detent-test ops` writes this page from the table of operators; the "
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
        "| operator | operands | result | options | what it does |\n|---|---|---|---|---|\n");
    for (int i = 0; i < n; i++) say_op(&t, ops[i]);
    say(&t, "\n## Options\n\n"
            "| operator | option | takes | default | meaning |\n|---|---|---|---|---|\n");
    for (int i = 0; i < n; i++) say_options(&t, ops[i]);
    say_sets(&t, ops, n);
    return t.at;
}
