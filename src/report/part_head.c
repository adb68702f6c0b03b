/* The first screen: what was trained, how accurate its integer form is, how much smaller. */
#include "core/text/row_named.h"
#include "report/parts.h"

#include <math.h>

double dt__page_row_result(const dt__page_run *r, const char *row, const char *name)
{
    return dt__field_number(dt__field(r->summary.root, row), name);
}

static const char *const rows[] = { "float", "ptq", "qat", "converted" };
static const char *const texts[] = { "float weights", "rounded after training",
                                     "trained with quantization", "integers, from the file" };

void dt__part_begin(dt__chars *t, const char *id, const char *heading)
{
    dt__page(t, "<section id=\"%s\"><h2>%s</h2>\n", id, heading);
}

void dt__part_of_output(dt__chars *t, const dt__branch *root, const char *id, const char *heading)
{
    if (dt__field(root, "output") == NULL) dt__part_begin(t, id, heading);
    else
        dt__page(t, "<section id=\"%s-%s\"><h2>%s: %s</h2>\n", id, dt__field_text(root, "output"),
                 dt__field_text(root, "output"), heading);
}

static void put_fact(dt__chars *t, const char *text)
{
    if (*text != 0) dt__page(t, "<span>%s</span>", text);
}

static void put_time(dt__chars *t, double seconds)
{
    if (seconds < 60) dt__page(t, "<span>%g s</span>", seconds);
    else if (seconds < 7200) dt__page(t, "<span>%g minutes</span>", floor(seconds / 6) / 10);
    else dt__page(t, "<span>%g hours</span>", floor(seconds / 360) / 10);
}

static void put_facts(dt__chars *t, const dt__page_run *r)
{
    const dt__branch *machine = r->machine.root;
    const double parameters = dt__field_number(machine, "parameters");
    const double seconds = dt__field_number(machine, "seconds");
    dt__put_text(t, "<p class=\"facts\">");
    put_fact(t, dt__page_key_of(r, "model.family"));
    if (isfinite(parameters)) dt__page(t, "<span>%i parameters</span>", dt__whole(parameters));
    put_fact(t, dt__page_key_of(r, "qat.preset"));
    if (isfinite(r->last_step)) dt__page(t, "<span>%i updates</span>", dt__whole(r->last_step));
    if (isfinite(seconds)) put_time(t, seconds);
    put_fact(t, dt__field_text(machine, "date"));
    dt__put_text(t, "</p>\n");
}

static void put_points(dt__chars *t, const dt__page_metric *m, double points)
{
    dt__page_fixed(t, points, m->decimals);
    dt__put_text(t, m->scale > 1 ? " points" : *m->unit != 0 ? " dB" : "");
}

/* Writes a sentence about the loss from rounding and where QAT ends, if it is worth one. The float
 * weights are those at the end of the baseline, or at the update at which QAT began. */
static void put_regained(dt__chars *t, const dt__page_run *r, const dt__page_metric *m)
{
    const double sign = m->larger_is_better ? m->scale : -m->scale, start = dt__page_qat_step(r);
    const double whole = dt__page_row_result(r, "float", m->name);
    const double lost = sign * (whole - dt__page_row_result(r, "ptq", m->name));
    const double gap = sign * (dt__page_row_result(r, "qat", m->name) - whole);
    const double least = m->scale > 1 ? 0.05 : fabs(whole) * 0.002;
    if (!(lost > least) || !(gap > -lost)) return;
    const bool baseline = dt__page_series(r, "loss", NULL, DT__PAGE_BASELINE) != NULL;
    if (baseline) {
        dt__put_text(t, " Rounding the float baseline costs ");
    } else if (isfinite(start)) {
        dt__page(t, " Rounding the weights of update %i costs ", dt__whole(start));
    } else {
        dt__put_text(t, " Rounding the float weights costs ");
    }
    put_points(t, m, lost);
    dt__put_text(t, "; training with quantization ends ");
    put_points(t, m, fabs(gap));
    DT__PUT_ALL(t, gap < 0 ? " below " : " above ", baseline ? "it." : "them.");
}

static void put_verdict(dt__chars *t, const dt__page_run *r)
{
    const dt__page_metric m = dt__page_first_metric(r);
    const double value = dt__page_row_result(r, "converted", m.name),
                 bytes = dt__page_row_result(r, "converted", "bytes");
    if (!isfinite(value) || !isfinite(bytes)) return;
    dt__put_text(t, "<p class=\"verdict\">");
    if (m.scale > 1 || *m.unit != 0) {
        dt__page(t, "<strong>");
        dt__put_metric(t, &m, value);
        dt__page(t, " %s</strong>", m.title);
    } else {
        dt__page(t, "<strong>%s ", m.title);
        dt__put_metric(t, &m, value);
        dt__page(t, "</strong>");
    }
    dt__page(t, " in <strong>%b</strong> of integers", dt__whole(bytes));
    const double factor = dt__page_row_result(r, "float", "bytes") / bytes;
    if (isfinite(factor)) {
        dt__put_text(t, ", ");
        dt__page_fixed(t, factor, 1);
        dt__put_text(t, " times smaller than float");
    }
    dt__put_text(t, ".");
    put_regained(t, r, &m);
    dt__put_text(t, "</p>\n");
}

static bool is_size(const char *name)
{
    static const char *const sizes[] = { "bytes", "bits_per_weight", "samples_per_s",
                                         "tokens_per_s" };
    return DT__IS_ONE_OF(name, sizes);
}

/* The columns of the table: the metrics of the first row that exists. */
static const dt__branch *columns_of(const dt__page_run *r)
{
    for (int i = 0; i < DT__COUNT_OF(rows); i++) {
        const dt__branch *row = dt__field(r->summary.root, rows[i]);
        if (dt__children(row) != NULL) return dt__children(row);
    }
    return NULL;
}

static void put_row(dt__chars *t, const dt__page_run *r, int i, const dt__branch *columns)
{
    char name[DT__ROW_NAME];
    const dt__branch *row = dt__field(r->summary.root, rows[i]);
    if (dt__children(row) == NULL) return;
    dt__page_row_name(r, rows[i], name);
    dt__page(t, "<tr%r><th scope=\"row\">%s<small>%r</small></th>",
             i == 3 ? " class=\"final\"" : "", name, texts[i]);
    for (const dt__branch *c = columns; c != NULL && !is_size(c->name); c = c->next) {
        const dt__page_metric m = dt__page_metric_of(c->name);
        dt__put_text(t, "<td>");
        dt__put_metric(t, &m, dt__field_number(row, c->name));
        dt__put_text(t, "</td>");
    }
    const double bytes = dt__field_number(row, "bytes");
    dt__page(t, "<td>%b</td><td>", dt__whole(bytes));
    dt__page_fixed(t, dt__field_number(row, "bits_per_weight"), 2);
    dt__put_text(t, "</td></tr>\n");
}

static void put_table(dt__chars *t, const dt__page_run *r)
{
    const dt__branch *columns = columns_of(r);
    const char *data = dt__field_text(r->examples.root, "evaluated_on");
    if (columns == NULL) return;
    dt__put_text(t, "<div class=\"wide\" tabindex=\"0\" role=\"region\" "
                    "aria-label=\"Results\"><table class=\"results\"><thead><tr><th "
                    "scope=\"col\">");
    if (*data != 0) dt__page(t, "on %s data", data);
    dt__put_text(t, "</th>");
    for (const dt__branch *c = columns; c != NULL && !is_size(c->name); c = c->next) {
        dt__page(t, "<th scope=\"col\">%s</th>", dt__page_metric_of(c->name).title);
    }
    dt__put_text(t, "<th scope=\"col\">size</th><th scope=\"col\">bits/weight</th></tr></thead>"
                    "<tbody>\n");
    for (int i = 0; i < DT__COUNT_OF(rows); i++) put_row(t, r, i, columns);
    dt__put_text(t, "</tbody></table></div>\n");
}

static void put_bar(dt__chars *t, const char *name, double bytes, double most, const char *class)
{
    dt__page(t,
             "<div class=\"bar\"><span>%s</span><i class=\"%r\" style=\"width:%f%%\"></i><b>%b</b>"
             "</div>\n",
             name, class, 62 * bytes / most, dt__whole(bytes));
}

static void put_sizes(dt__chars *t, const dt__page_run *r)
{
    const double whole = dt__page_row_result(r, "float", "bytes"),
                 packed = dt__page_row_result(r, "converted", "bytes");
    const double bytes = isfinite(whole) ? whole : dt__page_row_result(r, "qat", "bytes");
    if (!(bytes > 0) || !(packed > 0)) return;
    dt__put_text(t, "<div class=\"sizes\">");
    put_bar(t, "float", bytes, fmax(bytes, packed), "grey");
    put_bar(t, "converted", packed, fmax(bytes, packed), "c0");
    const dt__branch *same = dt__field(dt__field(r->summary.root, "converted"), "same_bits_as_qat");
    if (dt__number_of(same) == 1) {
        dt__put_text(t, "<p class=\"same\">The converted file gives the trained model's outputs, "
                        "bit for bit.</p>");
    }
    dt__put_text(t, "</div>\n");
}

static void put_state(dt__chars *t, const dt__page_run *r)
{
    static const char *const phases[] = { "the float baseline", "float training",
                                          "quantization-aware training" };
    if (r->summary.root == NULL && r->lines > 0) {
        dt__page(t, "<p class=\"note\">This run has not ended: update %i, in %r.</p>\n",
                 dt__whole(r->last_step), phases[r->phase]);
    } else if (r->summary.root == NULL) {
        dt__put_text(t, "<p class=\"note\">This run has no figures yet.</p>\n");
    }
    if (r->summary.root != NULL && r->machine.root == NULL) {
        dt__put_text(t, "<p class=\"note\">Figures of layers, their costs and examples were not "
                        "written when this run ended: its recipe has run.report: false, or it is "
                        "older than reports.</p>\n");
    }
    if (*r->damaged != 0) {
        dt__page(t, "<p class=\"note\">Not readable, and left out: %s.</p>\n", r->damaged);
    }
}

void dt__part_head(dt__chars *t, const dt__page_run *r)
{
    dt__page(t, "<header><h1>%s</h1>\n", r->name);
    put_facts(t, r);
    put_verdict(t, r);
    put_state(t, r);
    dt__put_text(t, "</header>\n<div class=\"first\">");
    put_table(t, r);
    put_sizes(t, r);
    dt__put_text(t, "</div>\n");
}
