/* Writes the list of docs/export.md: the ops that formats which export a trace have and lack. */
#include "pages.h"

#include "ops/ops_list.h"

#include <detent/experimental/export.h>

#include <stdio.h>

static const dt_op *const all[] = {
#define DT__OP(name) &dt__op_##name,
#include "ops/ops.inc"
#undef DT__OP
};

/* Ops for training only: losses, updates, random numbers. */
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

/* Whether format k has the op, or all ops that its `lower` calls. */
static bool has(int k, const dt_op *op)
{
    return dt_exporter_at(k)->becomes(op->name) != NULL || op->lower != NULL;
}

/* Words of a paragraph, in lines of at most 100 columns. */
static void say_word(FILE *f, int *column, const char *before, const char *word)
{
    const int n = (int)(strlen(before) + strlen(word)) + 3; /* with a blank and two backticks */
    fprintf(f, "%s%s`%s`", before, *column + n > 99 ? "\n  " : " ", word);
    *column = *column + n > 99 ? n + 2 : *column + n;
}

/* How many of the ops format k has, and which it lacks. */
static void say_format(FILE *f, int k)
{
    int ops = 0, found = 0;
    for (int i = 0; i < DT__COUNT_OF(all); i++) {
        ops += !is_of_training(all[i]);
        found += !is_of_training(all[i]) && has(k, all[i]);
    }
    int column = fprintf(f, "- `%s` has %d of %d", dt_exporter_at(k)->name, found, ops);
    const char *before = ", all but";
    for (int i = 0; i < DT__COUNT_OF(all); i++) {
        if (is_of_training(all[i]) || has(k, all[i])) continue;
        say_word(f, &column, before, all[i]->name);
        before = ",";
    }
    fprintf(f, ".\n");
}

void pages_put_exports(FILE *f)
{
    for (int k = 0; dt_exporter_at(k) != NULL; k++) {
        if (dt_exporter_at(k)->traced) say_format(f, k);
    }
}
