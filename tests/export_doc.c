/* Writes the table of docs/export.md: what becomes of each op in formats that export a trace. */
#include "pages.h"

#include "ops/ops_list.h"

#include <detent/experimental/export.h>

#include <stdio.h>

static const dt_op *const all[] = {
#define DT__OP(name) &dt__op_##name,
#include "ops/ops.inc"
#undef DT__OP
};

/* Ops of training alone: losses, updates, what draws numbers. */
static bool is_of_training(const dt_op *op)
{
    static const char *const losses[] = { "cross_entropy", "linear_cross_entropy", "distill", "mse",
                                          "bce_with_logits" };
    const size_t n = strlen(op->name);
    bool is =
        op->random || op->name[n - 1] == '_' || (n > 5 && strcmp(op->name + n - 5, "_loss") == 0);
    for (int i = 0; i < DT__COUNT_OF(losses); i++) is = is || strcmp(op->name, losses[i]) == 0;
    return is;
}

/* The number of formats. */
static int say_head(FILE *f)
{
    int formats = 0;
    const dt_exporter *e;
    fprintf(f, "| op |");
    for (int k = 0; (e = dt_exporter_at(k)) != NULL; k++) {
        if (e->traced) fprintf(f, " `%s` |", e->name);
        formats += e->traced;
    }
    fprintf(f, "\n|---|");
    for (int k = 0; k < formats; k++) fprintf(f, "---|");
    fprintf(f, "\n");
    return formats;
}

/* Adds one to count[format] for each that has the op. */
static void say_op(FILE *f, const dt_op *op, int *count)
{
    const dt_exporter *e;
    fprintf(f, "| `%s` |", op->name);
    for (int k = 0; (e = dt_exporter_at(k)) != NULL; k++) {
        if (!e->traced) continue;
        const char *to = e->becomes(op->name);
        if (to == NULL && op->lower != NULL) to = "its calls";
        fprintf(f, " %s |", to == NULL ? "-" : to);
        *count++ += to != NULL;
    }
    fprintf(f, "\n");
}

void pages_put_exports(FILE *f)
{
    int count[32] = { 0 }, ops = 0;
    ck_assert_int_le(say_head(f), DT__COUNT_OF(count));
    for (int i = 0; i < DT__COUNT_OF(all); i++) {
        if (is_of_training(all[i])) continue;
        ops++;
        say_op(f, all[i], count);
    }
    const dt_exporter *e;
    for (int k = 0, n = 0; (e = dt_exporter_at(k)) != NULL; k++) {
        if (e->traced) fprintf(f, "\n`%s` has %d of %d ops.\n", e->name, count[n++], ops);
    }
}
