/* The typed columns of a table: what each becomes, and how missing fields are treated; and how
 * windows of its rows were made. */
#include "report/parts.h"

static void put_value(dt__chars *t, const dt__branch *v)
{
    const bool list = v->type == DT__BRANCH_LIST;
    for (const dt__branch *c = list ? dt__children(v) : v; c != NULL; c = list ? c->next : NULL) {
        if (c->type == DT__BRANCH_TEXT) dt__page(t, "%s", c->text);
        else if (c->type == DT__BRANCH_NUMBER) dt__page(t, "%g", c->number);
        if (list && c->next != NULL) dt__put_text(t, ", ");
    }
}

/* Writes the columns that identify series, the rate, the interpolation, and the longest gap. */
static void put_series(dt__chars *t, const dt__page_run *r)
{
    const dt__branch *v = dt__children(dt__field(r->columns.root, "series"));
    if (v == NULL) return;
    dt__part_begin(t, "series", "Series");
    dt__put_text(t, "<table><tbody>\n");
    for (; v != NULL; v = v->next) {
        if (v->type == DT__BRANCH_TEXT && v->text[0] == '\0') continue; /* not given */
        dt__page(t, "<tr><th scope=\"row\">%s</th><td>", v->name);
        put_value(t, v);
        dt__put_text(t, "</td></tr>\n");
    }
    dt__page(t, "<tr><th scope=\"row\">stride</th><td>%d</td></tr>\n",
             dt__whole(dt__field_number(r->columns.root, "stride")));
    dt__put_text(t, "</tbody></table></section>\n");
}

static void put_columns(dt__chars *t, const dt__page_run *r)
{
    const dt__branch *c = dt__children(dt__field(r->columns.root, "columns"));
    if (c == NULL) return;
    dt__part_begin(t, "columns", "Columns");
    dt__put_text(
        t, "<div class=\"wide\" tabindex=\"0\" role=\"region\" "
           "aria-label=\"Columns\"><table><thead><tr><th scope=\"col\">column</th><th "
           "scope=\"col\">type</th>"
           "<th scope=\"col\">becomes</th><th scope=\"col\">missing</th></tr></thead><tbody>\n");
    for (; c != NULL; c = c->next) {
        dt__page(t, "<tr><td>%s</td><td>%s</td><td>%s</td><td>%s</td></tr>\n",
                 dt__field_text(c, "name"), dt__field_text(c, "type"), dt__field_text(c, "becomes"),
                 dt__field_text(c, "missing"));
    }
    dt__put_text(t, "</tbody></table></div></section>\n");
}

void dt__part_columns(dt__chars *t, const dt__page_run *r)
{
    put_columns(t, r);
    put_series(t, r);
}
