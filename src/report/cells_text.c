/* The table of cells as text: for a terminal, as CSV, LaTeX or Markdown (run_cells.h). */
#include "core/text/utf8.h"
#include "report/run_cells.h"

#include <math.h>
#include <string.h>

#define GAP 2
#define LEAST 6 /* least width of a key's value */

/* Columns after the name and the keys. */
enum { RUNS, FLOAT, PTQ, FINAL, BYTES, FIXED };

typedef struct table {
    dt__chars *t;
    const dt__cells *c;
    int64_t columns; /* name, keys, and the fixed columns */
    int form;
    bool *shown;
    int *width;
} table;

static const char *model_title(int column)
{
    return column == FLOAT ? "float" : column == PTQ ? "ptq" : "";
}

static int model_of(int column)
{
    return column == FLOAT ? DT__CELL_FLOAT : column == PTQ ? DT__CELL_PTQ : DT__CELL_FINAL;
}

/* ---- cells ---------------------------------------------------------------------------------- */

static void put_fixed_head(const table *a, dt__chars *t, int column)
{
    if (column == RUNS) dt__put_text(t, "runs");
    else if (column == BYTES) dt__put_text(t, "bytes");
    else if (column == FINAL) dt__put_text(t, a->c->metric.title);
    else dt__put_text(t, model_title(column));
}

static void put_fixed(const table *a, dt__chars *t, const dt__cell *cell, int column)
{
    const char *none = a->form == DT__CELLS_LATEX ? "--" : "-";
    if (column == RUNS) {
        dt__put_integer(t, cell->result[DT__CELL_FINAL].n);
    } else if (column == BYTES) {
        if (cell->bytes > 0) dt__put_integer(t, cell->bytes);
        else dt__put_text(t, none);
    } else if (cell->result[model_of(column)].n == 0) {
        dt__put_text(t, none);
    } else {
        dt__put_spread(t, &a->c->metric, cell->result[model_of(column)]);
    }
}

/* Writes cell `row` (from 0; -1: the heading) of a column. */
static void put_text(const table *a, dt__chars *t, int64_t row, int64_t column)
{
    const int64_t key = column - 1, fixed = key - a->c->n_keys;
    const dt__cell *cell = row < 0 ? NULL : &a->c->cell[row];
    if (column == 0) dt__put_text(t, cell == NULL ? "run" : cell->name);
    else if (fixed >= 0 && cell == NULL) put_fixed_head(a, t, (int)fixed);
    else if (fixed >= 0) put_fixed(a, t, cell, (int)fixed);
    else if (cell == NULL) dt__put_text(t, dt__cells_heading(a->c, key));
    else dt__put_text(t, dt__cells_value(cell, a->c->key[key]));
}

static bool is_value(const table *a, int64_t column) { return column > a->c->n_keys; }

/* Whether no cell has a value in the column `float` or `ptq`. */
static bool is_empty(const table *a, int fixed)
{
    for (int64_t i = 0; i < a->c->n; i++) {
        if (a->c->cell[i].result[model_of(fixed)].n > 0) return false;
    }
    return fixed == FLOAT || fixed == PTQ;
}

/* ---- what the table does not have ----------------------------------------------------------- */

/* Writes each note on a line that starts with `begin`. */
static void put_notes(dt__chars *t, const dt__cells *c, const char *begin)
{
    char text[DT__CELLS_NOTE];
    for (int64_t i = 0; dt__cells_note(c, i, text); i++) {
        dt_text_clean(text);
        dt__put_text(t, begin);
        dt__put_text(t, text);
        dt__put_text(t, "\n");
    }
}

/* ---- a terminal ----------------------------------------------------------------------------- */

static int columns_of(const char *text)
{
    int n = 0;
    for (; *text != 0; text++) n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

/* Writes a text cut to a width and padded; control characters become '?'. A name keeps its end,
 * where names differ, a value its beginning. */
static void put_padded(dt__chars *t, const char *text, int width, bool is_name)
{
    char out[DT_TEXT_JSON];
    bool hidden;
    const int length = columns_of(text), spaces = length < width ? width - length : 0;
    const int most = length > width ? width - 1 : width, first = is_name ? length - most : 0;
    const char *const end = text + strlen(text);
    for (int i = 0; !is_name && i < spaces; i++) dt__put_text(t, " ");
    if (length > width && is_name) dt__put_text(t, "…");
    for (int i = 0; text < end && i < first + most; i++) {
        text += dt__visible(text, (size_t)(end - text), out, &hidden);
        if (i >= first) dt__put_text(t, hidden ? "?" : out);
    }
    if (length > width && !is_name) dt__put_text(t, "…");
    for (int i = 0; is_name && i < spaces; i++) dt__put_text(t, " ");
}

static int total(const table *a)
{
    int sum = -GAP;
    for (int64_t i = 0; i < a->columns; i++) sum += a->shown[i] ? a->width[i] + GAP : 0;
    return sum;
}

/* Fits the table to the width: hides the least important columns, then cuts values of keys, the
 * widest first. Results are never cut. */
static void fit(table *a, int columns)
{
    static const int order[] = { PTQ, FLOAT, BYTES, RUNS };
    for (int i = 0; i < DT__COUNT_OF(order) && total(a) > columns; i++) {
        a->shown[1 + a->c->n_keys + order[i]] = false;
    }
    while (total(a) > columns) {
        int64_t widest = 0;
        for (int64_t i = 0; i <= a->c->n_keys; i++) {
            if (a->width[i] > a->width[widest]) widest = i;
        }
        if (a->width[widest] <= LEAST) return;
        a->width[widest]--;
    }
}

/* Calls `put` with the text of a cell. */
static void with_text(const table *a, int64_t row, int64_t column,
                      void (*put)(const table *a, int64_t column, const char *text))
{
    dt__chars text = { .ctx = a->t->ctx };
    put_text(a, &text, row, column);
    const char *read = dt__chars_text(&text);
    if (read == NULL) a->t->failed = true;
    else put(a, column, read);
    dt__release(a->t->ctx, text.bytes);
}

static void widen(const table *a, int64_t column, const char *text)
{
    const int n = columns_of(text);
    if (n > a->width[column]) a->width[column] = n;
}

static void put_cell(const table *a, int64_t column, const char *text)
{
    put_padded(a->t, text, a->width[column], column == 0);
}

static void put_plain_row(const table *a, int64_t row)
{
    bool first = true;
    for (int64_t k = 0; k < a->columns; k++) {
        if (!a->shown[k]) continue;
        if (!first) dt__put_text(a->t, "  ");
        with_text(a, row, k, put_cell);
        first = false;
    }
    dt__put_text(a->t, "\n");
}

static void put_terminal(table *a, int columns)
{
    bool spread = false;
    for (int64_t row = -1; row < a->c->n; row++) {
        for (int64_t k = 0; k < a->columns; k++) with_text(a, row, k, widen);
        if (row >= 0) spread = spread || a->c->cell[row].result[DT__CELL_FINAL].n > 1;
    }
    fit(a, columns);
    for (int64_t row = -1; row < a->c->n; row++) put_plain_row(a, row);
    if (spread)
        dt__put_text(a->t, "mean ± standard deviation of the sample, over seeds or folds\n");
    put_notes(a->t, a->c, "");
}

/* ---- Markdown, LaTeX ------------------------------------------------------------------------ */

static void put_markdown_cell(const table *a, int64_t column, const char *text)
{
    dt__put_text(a->t, column == 0 ? "| " : " | ");
    for (; *text != 0; text++) {
        if (strchr("|*_`<\\", *text) != NULL) dt__put_text(a->t, "\\");
        dt__put(a->t, text, 1);
    }
}

static void put_markdown(const table *a)
{
    for (int64_t row = -1; row < a->c->n; row++) {
        for (int64_t k = 0; k < a->columns; k++) {
            if (a->shown[k]) with_text(a, row, k, put_markdown_cell);
        }
        dt__put_text(a->t, " |\n");
        for (int64_t k = 0; k < a->columns && row < 0; k++) {
            if (a->shown[k]) dt__put_text(a->t, is_value(a, k) ? "|---:" : "|---");
        }
        if (row < 0) dt__put_text(a->t, "|\n");
    }
    dt__put_text(a->t, "\n");
    put_notes(a->t, a->c, "- ");
}

/* Escapes a text for LaTeX, without packages. */
static void put_latex_text(dt__chars *t, const char *text)
{
    static const struct {
        const char *from, *to;
    } forms[] = { { "±", "$\\pm$" }, { "²", "$^2$" }, { "–", "--" },  { "\\", "\\textbackslash{}" },
                  { "{", "\\{" },    { "}", "\\}" },  { "_", "\\_" }, { "%", "\\%" },
                  { "&", "\\&" },    { "#", "\\#" },  { "$", "\\$" }, { "~", "\\textasciitilde{}" },
                  { "^", "\\^{}" } };
    while (*text != 0) {
        int i = 0;
        while (i < DT__COUNT_OF(forms) &&
               strncmp(text, forms[i].from, strlen(forms[i].from)) != 0) {
            i++;
        }
        if (i < DT__COUNT_OF(forms)) dt__put_text(t, forms[i].to);
        else dt__put(t, text, 1);
        text += i < DT__COUNT_OF(forms) ? strlen(forms[i].from) : 1;
    }
}

static void put_latex_cell(const table *a, int64_t column, const char *text)
{
    if (column > 0) dt__put_text(a->t, " & ");
    put_latex_text(a->t, text);
}

static void put_latex_best(const table *a, int64_t column, const char *text)
{
    (void)column;
    dt__put_text(a->t, " & \\textbf{");
    put_latex_text(a->t, text);
    dt__put_text(a->t, "}");
}

/* Writes a table for booktabs; the best cell is bold. */
static void put_latex(const table *a)
{
    dt__put_text(a->t, "% \\usepackage{booktabs}\n\\begin{tabular}{");
    for (int64_t k = 0; k < a->columns; k++) {
        if (a->shown[k]) dt__put_text(a->t, is_value(a, k) ? "r" : "l");
    }
    dt__put_text(a->t, "}\n\\toprule\n");
    for (int64_t row = -1; row < a->c->n; row++) {
        for (int64_t k = 0; k < a->columns; k++) {
            const bool best = row >= 0 && row == a->c->best && k == 1 + a->c->n_keys + FINAL;
            if (a->shown[k]) with_text(a, row, k, best ? put_latex_best : put_latex_cell);
        }
        dt__put_text(a->t, row < 0 ? " \\\\\n\\midrule\n" : " \\\\\n");
    }
    dt__put_text(a->t, "\\bottomrule\n\\end{tabular}\n");
    put_notes(a->t, a->c, "% ");
}

/* ---- CSV ------------------------------------------------------------------------------------ */

static void put_quoted(dt__chars *t, const char *text)
{
    const bool plain = strpbrk(text, ",\"\n\r") == NULL;
    if (!plain) dt__put_text(t, "\"");
    for (; *text != 0; text++) {
        if (*text == '"') dt__put_text(t, "\"");
        dt__put(t, text, 1);
    }
    if (!plain) dt__put_text(t, "\"");
}

static void put_number(dt__chars *t, double value)
{
    dt__put_text(t, ",");
    if (isfinite(value)) dt__put_real(t, value);
}

/* Writes numbers as in summary.json: without units, neither rounded nor scaled. */
static void put_csv(const table *a)
{
    static const char *const models[] = { "float_", "ptq_", "" };
    const dt__cells *c = a->c;
    dt__put_text(a->t, "run");
    for (int64_t k = 0; k < c->n_keys; k++) {
        dt__put_text(a->t, ",");
        put_quoted(a->t, c->key[k]);
    }
    dt__put_text(a->t, ",runs");
    for (int m = 0; m < DT__CELL_MODELS; m++) {
        dt__page(a->t, ",%r%r_mean,%r%r_deviation", models[m], c->metric.name, models[m],
                 c->metric.name);
    }
    dt__put_text(a->t, ",bytes\n");
    for (int64_t i = 0; i < c->n; i++) {
        const dt__cell *cell = &c->cell[i];
        put_quoted(a->t, cell->name);
        for (int64_t k = 0; k < c->n_keys; k++) {
            dt__put_text(a->t, ",");
            put_quoted(a->t, dt__page_key_of(cell->run, c->key[k]));
        }
        dt__page(a->t, ",%d", cell->result[DT__CELL_FINAL].n);
        for (int m = 0; m < DT__CELL_MODELS; m++) {
            put_number(a->t, cell->result[m].mean);
            put_number(a->t, cell->result[m].deviation);
        }
        if (cell->bytes > 0) dt__page(a->t, ",%d\n", cell->bytes);
        else dt__put_text(a->t, ",\n");
    }
}

/* ---- all ------------------------------------------------------------------------------------ */

void dt__cells_put_text(dt__chars *t, const dt__cells *c, int form, int columns)
{
    table a = { .t = t, .c = c, .columns = 1 + c->n_keys + FIXED, .form = form };
    a.shown = dt__alloc_zero(t->ctx, (size_t)a.columns * sizeof *a.shown);
    a.width = dt__alloc_zero(t->ctx, (size_t)a.columns * sizeof *a.width);
    if (a.shown == NULL || a.width == NULL) {
        t->failed = true;
    } else {
        for (int64_t k = 0; k < a.columns; k++) {
            const int64_t fixed = k - 1 - c->n_keys;
            a.shown[k] = fixed < 0 || !is_empty(&a, (int)fixed);
        }
        if (form == DT__CELLS_TERMINAL) put_terminal(&a, columns);
        else if (form == DT__CELLS_CSV) put_csv(&a);
        else if (form == DT__CELLS_LATEX) put_latex(&a);
        else put_markdown(&a);
    }
    DT__RELEASE(t->ctx, a.shown, a.width);
}
