/* The typed columns of a table: what each becomes, and what a missing field does. */
#include "report/parts.h"

static const char *word(const dt__branch *column, const char *name)
{
    const dt__branch *v = dt__field(column, name);
    return v != NULL && v->type == DT__BRANCH_TEXT ? v->text : "";
}

void dt__part_columns(dt__chars *t, const dt__page_run *r)
{
    const dt__branch *c = dt__children(dt__field(r->columns.root, "columns"));
    if (c == NULL) return;
    dt__part_begin(t, "columns", "Columns");
    dt__put_text(t,
                 "<div class=\"wide\" tabindex=\"0\"><table><thead><tr><th>column</th><th>type</th>"
                 "<th>becomes</th><th>missing</th></tr></thead><tbody>\n");
    for (; c != NULL; c = c->next) {
        dt__page(t, "<tr><td>%s</td><td>%s</td><td>%s</td><td>%s</td></tr>\n", word(c, "name"),
                 word(c, "type"), word(c, "becomes"), word(c, "missing"));
    }
    dt__put_text(t, "</tbody></table></div></section>\n");
}
