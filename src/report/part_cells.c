/* Many runs as cells: a row for each recipe with mean and deviation, then notes on what is left
 * out. */
#include "report/run_cells.h"

/* The result is next to the name, so that narrow screens show it. */
static void put_heads(dt__chars *t, const dt__cells *c)
{
    dt__page(t, "<thead><tr><th scope=\"col\">run</th><th scope=\"col\">%s</th>", c->metric.title);
    for (int64_t k = 0; k < c->n_keys; k++) {
        dt__page(t, "<th scope=\"col\" title=\"%s\"><code>%s</code></th>", c->key[k],
                 dt__cells_heading(c, k));
    }
    dt__put_text(t, "<th scope=\"col\">runs</th><th scope=\"col\">size</th>"
                    "<th scope=\"col\">float</th><th scope=\"col\">ptq</th></tr></thead>\n");
}

static void put_result(dt__chars *t, const dt__cells *c, dt_spread s)
{
    dt__put_text(t, "<td>");
    if (s.n == 0) dt__put_text(t, "–");
    else dt__put_spread(t, &c->metric, s);
    dt__put_text(t, "</td>");
}

static void put_row(dt__chars *t, const dt__cells *c, int64_t i)
{
    const dt__cell *cell = &c->cell[i];
    const bool best = i == c->best && c->n > 1;
    dt__page(t, "<tr%r><th scope=\"row\">%s%r</th>", best ? " class=\"final\"" : "", cell->name,
             best ? "<small>best</small>" : "");
    put_result(t, c, cell->result[DT__CELL_FINAL]);
    for (int64_t k = 0; k < c->n_keys; k++) {
        dt__page(t, "<td>%s</td>", dt__cells_value(cell, c->key[k]));
    }
    dt__page(t, "<td>%d</td>", cell->result[DT__CELL_FINAL].n);
    if (cell->bytes > 0) dt__page(t, "<td>%b</td>", cell->bytes);
    else dt__put_text(t, "<td>–</td>");
    put_result(t, c, cell->result[DT__CELL_FLOAT]);
    put_result(t, c, cell->result[DT__CELL_PTQ]);
    dt__put_text(t, "</tr>\n");
}

void dt__part_cells(dt__chars *t, const dt__cells *c)
{
    int64_t most = 0;
    for (int64_t i = 0; i < c->n; i++) most = dt__max_i64(most, c->cell[i].runs);
    dt__page(t, "<header><h1>%i runs of %i recipes</h1></header>\n<section id=\"cells\">",
             c->list->n, c->n);
    if (most > 1) {
        dt__put_text(t, "<p>Mean ± standard deviation of the sample, over seeds or folds.</p>");
    }
    dt__put_text(t, "<div class=\"wide\" tabindex=\"0\" role=\"region\" "
                    "aria-label=\"Results of recipes\"><table class=\"results\">");
    put_heads(t, c);
    dt__put_text(t, "<tbody>\n");
    for (int64_t i = 0; i < c->n; i++) put_row(t, c, i);
    dt__put_text(t, "</tbody></table></div>\n<ul class=\"left-out\">\n");
    char note[DT__CELLS_NOTE];
    for (int64_t i = 0; dt__cells_note(c, i, note); i++) dt__page(t, "<li>%s</li>\n", note);
    dt__put_text(t, "</ul></section>\n");
    dt__cells_put_plots(t, c);
}
