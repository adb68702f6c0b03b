/* The confusion matrix: a table of counts for few classes, a picture of shares for many; and the
 * pairs that are confused most. */
#include "report/parts.h"

#include <math.h>

#define FEW 16
#define PAIRS 10

typedef struct matrix {
    int64_t n;
    const dt__branch **name; /* [n] */
    double *count;           /* [n][n] */
} matrix;

static bool read_matrix(dt__chars *t, const dt__branch *root, matrix *m)
{
    const dt__branch *classes = dt__field(root, "classes"), *rows = dt__field(root, "matrix");
    if (dt__children(classes) == NULL || rows == NULL || rows->n != classes->n) return false;
    m->n = classes->n;
    m->name = dt__alloc_array(t->ctx, m->n, sizeof *m->name);
    m->count = dt__alloc_array(t->ctx, m->n, (size_t)m->n * sizeof *m->count);
    if (m->name == NULL || m->count == NULL) t->failed = true;
    if (t->failed) return false;
    int64_t i = 0;
    for (const dt__branch *c = classes->first; c != NULL; c = c->next) m->name[i++] = c;
    i = 0;
    for (const dt__branch *row = rows->first; row != NULL; row = row->next, i++) {
        const dt__branch *v = dt__children(row);
        for (int64_t k = 0; k < m->n; k++) {
            const double count = dt__number_of(v);
            m->count[i * m->n + k] = count >= 0 ? count : 0;
            v = v == NULL ? NULL : v->next;
        }
    }
    return true;
}

static void put_name(dt__chars *t, const matrix *m, int64_t k)
{
    const dt__branch *v = m->name[k];
    if (v->type == DT__BRANCH_TEXT) dt__page(t, "%s", v->text);
    else dt__page(t, "%g", dt__number_of(v));
}

/* The sum of row i; 0 for a class without examples, whose shares are NaN and printed as dashes. */
static double row_sum(const matrix *m, int64_t i)
{
    double sum = 0;
    for (int64_t k = 0; k < m->n; k++) sum += m->count[i * m->n + k];
    return sum;
}

static double column_sum(const matrix *m, int64_t k)
{
    double sum = 0;
    for (int64_t i = 0; i < m->n; i++) sum += m->count[i * m->n + k];
    return sum;
}

/* Shades from 0 to 9, by the root of the share, so that few mistakes are visible. */
static int64_t shade(double share) { return dt__whole(fmin(9, ceil(sqrt(share) * 9))); }

static void put_cell(dt__chars *t, const matrix *m, int64_t i, int64_t k, double sum)
{
    const double count = m->count[i * m->n + k];
    if (count == 0) dt__put_text(t, "<td></td>");
    else
        dt__page(t, "<td class=\"%rs%d\">%i</td>", i == k ? "right " : "wrong ", shade(count / sum),
                 dt__whole(count));
}

static void put_table(dt__chars *t, const matrix *m)
{
    dt__put_text(t, "<div class=\"wide\" tabindex=\"0\" role=\"region\" "
                    "aria-label=\"Confusion matrix\"><table "
                    "class=\"confusion\"><thead><tr><th scope=\"col\">label \\ found"
                    "</th>");
    for (int64_t k = 0; k < m->n; k++) {
        dt__put_text(t, "<th scope=\"col\">");
        put_name(t, m, k);
        dt__put_text(t, "</th>");
    }
    dt__put_text(
        t, "<th scope=\"col\">recall</th><th scope=\"col\">precision</th></tr></thead><tbody>\n");
    for (int64_t i = 0; i < m->n; i++) {
        const double sum = row_sum(m, i);
        dt__put_text(t, "<tr><th scope=\"row\">");
        put_name(t, m, i);
        dt__put_text(t, "</th>");
        for (int64_t k = 0; k < m->n; k++) put_cell(t, m, i, k, sum);
        const double right = m->count[i * m->n + i];
        dt__page(t, "<td>%p</td><td>%p</td></tr>\n", right / sum, right / column_sum(m, i));
    }
    dt__put_text(t, "</tbody></table></div>\n");
}

/* Writes a square for each pair that occurs. */
static void put_map(dt__chars *t, const matrix *m)
{
    dt__page(t,
             "<svg class=\"map\" viewBox=\"0 0 %d %d\" role=\"img\" "
             "aria-label=\"confusion matrix\">",
             m->n, m->n);
    for (int64_t i = 0; i < m->n; i++) {
        const double sum = row_sum(m, i);
        for (int64_t k = 0; k < m->n; k++) {
            const double share = m->count[i * m->n + k] / sum;
            if (share > 0) {
                dt__page(t, "<rect class=\"%rs%d\" x=\"%d\" y=\"%d\" width=\"1\" height=\"1\"/>",
                         i == k ? "right " : "wrong ", shade(share), k, i);
            }
        }
    }
    dt__put_text(t, "</svg>\n");
}

static void put_pairs(dt__chars *t, const matrix *m)
{
    int64_t place[PAIRS], n = 0;
    for (int64_t i = 0; i < m->n * m->n; i++) {
        if (i / m->n == i % m->n || m->count[i] == 0) continue;
        if (n == PAIRS && m->count[place[n - 1]] >= m->count[i]) continue;
        int64_t at = n < PAIRS ? n++ : n - 1;
        for (; at > 0 && m->count[place[at - 1]] < m->count[i]; at--) place[at] = place[at - 1];
        place[at] = i;
    }
    if (n == 0) return;
    dt__put_text(t, "<p class=\"pairs\">Most confused: ");
    for (int64_t i = 0; i < n; i++) {
        dt__put_text(t, i > 0 ? ", <span>" : "<span>");
        put_name(t, m, place[i] / m->n);
        dt__put_text(t, " for ");
        put_name(t, m, place[i] % m->n);
        dt__page(t, " (%i)</span>", dt__whole(m->count[place[i]]));
    }
    dt__put_text(t, ".</p>\n");
}

static void put_matrix(dt__chars *t, const dt__branch *root, const char *evaluated_on)
{
    matrix m = { 0 };
    if (read_matrix(t, root, &m)) {
        dt__part_of_output(t, root, "confusion", "Confusion matrix");
        dt__page(t, "<p>Rows are labels, columns what the model found, on %s data.</p>\n",
                 evaluated_on);
        (m.n <= FEW ? put_table : put_map)(t, &m);
        put_pairs(t, &m);
        dt__put_text(t, "</section>\n");
    }
    DT__RELEASE(t->ctx, m.name, m.count);
}

void dt__part_confusion(dt__chars *t, const dt__page_run *r)
{
    const dt__branch *root = r->confusion.root;
    if (root == NULL) return;
    const dt__branch *output = dt__children(dt__field(root, "outputs"));
    const char *on = dt__field_text(root, "evaluated_on");
    if (output == NULL) put_matrix(t, root, on);
    for (; output != NULL; output = output->next) put_matrix(t, output, on);
}
