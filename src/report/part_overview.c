/* Several runs: a row for each, and where their recipes differ. */
#include "report/parts.h"

#include <math.h>

static void put_value(dt__chars *t, const dt__page_run *r, const char *row)
{
    const dt__page_metric m = dt__page_first_metric(r);
    dt__put_text(t, "<td>");
    dt__put_metric(t, &m, dt__page_row_result(r, row, m.name));
    dt__put_text(t, "</td>");
}

static void put_run(dt__chars *t, const dt__page_run *r, int i)
{
    const char letter[] = { (char)('A' + i), 0 };
    const double bytes = dt__page_row_result(r, "converted", "bytes");
    const double seconds = dt__field_number(r->machine.root, "seconds");
    dt__page(t, "<tr><th scope=\"row\"><span class=\"key c%d\">%r</span> %s</th><td>%s</td>",
             (int64_t)(i % 8), letter, r->name, dt__page_first_metric(r).title);
    put_value(t, r, "float");
    put_value(t, r, "ptq");
    put_value(t, r, "converted");
    dt__put_text(t, "<td>");
    if (isfinite(bytes)) dt__page(t, "%b", dt__whole(bytes));
    else dt__put_text(t, "–");
    dt__page(t, "</td><td>%g%r</td></tr>\n", seconds, isfinite(seconds) ? " s" : "");
}

static void put_difference(dt__chars *t, const dt__page_run *runs, int n, const char *path)
{
    dt__page(t, "<tr><th scope=\"row\"><code>%s</code></th>", path);
    for (int i = 0; i < n; i++) {
        const char *value = dt__page_key_of(&runs[i], path);
        dt__page(t, "<td>%s</td>", *value != 0 ? value : "–");
    }
    dt__put_text(t, "</tr>\n");
}

static void put_differences(dt__chars *t, const dt__page_run *runs, int n)
{
    dt__put_text(t, "<details open><summary>What differs in their recipes</summary>"
                    "<div class=\"wide\" tabindex=\"0\" role=\"region\" "
                    "aria-label=\"Keys that differ\"><table><thead><tr><th></th>");
    for (int i = 0; i < n; i++) {
        const char letter[] = { (char)('A' + i), 0 };
        dt__page(t, "<th scope=\"col\"><span class=\"key c%d\">%r</span></th>", (int64_t)(i % 8),
                 letter);
    }
    dt__put_text(t, "</tr></thead><tbody>\n");
    for (int i = 0; i < n; i++) {
        for (int64_t k = 0; k < runs[i].n_keys; k++) {
            const char *path = runs[i].key[k].path;
            if (!dt__page_key_is_new(runs, i, path)) continue;
            if (dt__page_key_differs(runs, n, path)) put_difference(t, runs, n, path);
        }
    }
    dt__put_text(t, "</tbody></table></div></details>\n");
}

void dt__part_overview(dt__chars *t, const dt__page_run *runs, int n)
{
    dt__put_text(
        t, "<section id=\"overview\"><div class=\"wide\" tabindex=\"0\" role=\"region\" "
           "aria-label=\"Runs\">"
           "<table class=\"results\"><thead><tr><th></th><th scope=\"col\">metric</th>"
           "<th scope=\"col\">float</th><th scope=\"col\">ptq</th><th scope=\"col\">converted"
           "</th><th scope=\"col\">size</th><th scope=\"col\">time</th></tr></thead><tbody>\n");
    for (int i = 0; i < n; i++) put_run(t, &runs[i], i);
    dt__put_text(t, "</tbody></table></div></section>\n");
}

void dt__part_differences(dt__chars *t, const dt__page_run *runs, int n)
{
    dt__part_begin(t, "differences", "Recipes");
    put_differences(t, runs, n);
    dt__put_text(t, "</section>\n");
}
