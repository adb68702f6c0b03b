/* Writes the table of docs/export.md: what becomes of each op in formats that export a trace. */
#include "pages.h"

#include "ops/ops_list.h"

#include <detent/experimental/export.h>

#include <ctype.h>
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

/* What becomes of the op in format k, of formats that export a trace; NULL: it has none. */
static const char *becomes(int k, const dt_op *op)
{
    const char *to = dt_exporter_at(k)->becomes(op->name);
    return to == NULL && op->lower != NULL ? "its calls" : to;
}

/* Format c has a text of its own for nearly every op, so a sentence says which it lacks. */
static bool has_column(int k)
{
    const dt_exporter *e = dt_exporter_at(k);
    return e->traced && strcmp(e->name, "c") != 0;
}

static bool are_alike(const dt_op *a, const dt_op *b)
{
    for (int k = 0; dt_exporter_at(k) != NULL; k++) {
        if (!has_column(k)) continue;
        const char *x = becomes(k, a), *y = becomes(k, b);
        if ((x == NULL) != (y == NULL) || (x != NULL && strcmp(x, y) != 0)) return false;
    }
    return true;
}

/* Whether two names have the same letters and digits, as leaky_relu and LeakyRelu. */
static bool is_name(const char *a, const char *b)
{
    for (;; a++, b++) {
        a += strspn(a, "_");
        b += strspn(b, "_");
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b)) return false;
        if (*a == '\0') return true;
    }
}

/* Whether the op is an operator of its own name in each format with a column. */
static bool keeps_name(const dt_op *op)
{
    for (int k = 0; dt_exporter_at(k) != NULL; k++) {
        const char *to = has_column(k) ? becomes(k, op) : op->name;
        if (to == NULL || !is_name(to, op->name)) return false;
    }
    return true;
}

static void say_head(FILE *f)
{
    int columns = 0;
    fprintf(f, "| op |");
    for (int k = 0; dt_exporter_at(k) != NULL; k++) {
        if (!has_column(k)) continue;
        fprintf(f, " `%s` |", dt_exporter_at(k)->name);
        columns++;
    }
    fprintf(f, "\n|---|");
    while (columns-- > 0) fprintf(f, "---|");
    fprintf(f, "\n");
}

/* Words of a paragraph, in lines of at most 100 columns. */
static void say_word(FILE *f, int *column, const char *before, const char *word)
{
    const int n = (int)(strlen(before) + strlen(word)) + 3; /* with a blank and two backticks */
    fprintf(f, "%s%s`%s`", before, *column + n > 99 ? "\n" : " ", word);
    *column = *column + n > 99 ? n : *column + n;
}

/* A sentence about the ops that keep their names, which are marked as said. */
static void say_names(FILE *f, bool *said)
{
    int column = fprintf(f, "Operators of the same name in `onnx` and `tflite`:");
    const char *before = "";
    for (int i = 0; i < DT__COUNT_OF(all); i++) {
        if (is_of_training(all[i]) || !keeps_name(all[i])) continue;
        say_word(f, &column, before, all[i]->name);
        before = ",";
        said[i] = true;
    }
    fprintf(f, ".\n\n");
}

/* A row of op i and all later ones that become the same, which are marked as said. */
static void say_ops(FILE *f, int i, bool *said)
{
    fprintf(f, "| `%s`", all[i]->name);
    for (int j = i + 1; j < DT__COUNT_OF(all); j++) {
        if (said[j] || is_of_training(all[j]) || !are_alike(all[i], all[j])) continue;
        fprintf(f, ", `%s`", all[j]->name);
        said[j] = true;
    }
    fprintf(f, " |");
    for (int k = 0; dt_exporter_at(k) != NULL; k++) {
        const char *to = has_column(k) ? becomes(k, all[i]) : NULL;
        if (has_column(k)) fprintf(f, " %s |", to == NULL ? "-" : to);
    }
    fprintf(f, "\n");
}

/* How many of the ops the format has; where it has no column, which it lacks. */
static void say_count(FILE *f, int k)
{
    int ops = 0, has = 0;
    for (int i = 0; i < DT__COUNT_OF(all); i++) {
        ops += !is_of_training(all[i]);
        has += !is_of_training(all[i]) && becomes(k, all[i]) != NULL;
    }
    fprintf(f, "\n`%s` has %d of %d ops", dt_exporter_at(k)->name, has, ops);
    const char *before = ", all but";
    for (int i = 0; i < DT__COUNT_OF(all) && !has_column(k); i++) {
        if (is_of_training(all[i]) || becomes(k, all[i]) != NULL) continue;
        fprintf(f, "%s `%s`", before, all[i]->name);
        before = ",";
    }
    fprintf(f, ".\n");
}

void pages_put_exports(FILE *f)
{
    bool said[DT__COUNT_OF(all)] = { false };
    say_names(f, said);
    say_head(f);
    for (int i = 0; i < DT__COUNT_OF(all); i++) {
        if (!said[i] && !is_of_training(all[i])) say_ops(f, i, said);
    }
    for (int k = 0; dt_exporter_at(k) != NULL; k++) {
        if (dt_exporter_at(k)->traced) say_count(f, k);
    }
}
