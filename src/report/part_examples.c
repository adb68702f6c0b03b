/* Examples, by the kind of targets: the worst mistakes, images and masks, texts, points, counts of
 * labels, anomaly errors. */
#include "report/page_picture.h"
#include "report/parts.h"

#include <math.h>
#include <string.h>

static void put_mistake(dt__chars *t, const dt__branch *m)
{
    dt__put_text(t, "<figure class=\"example\">");
    if (dt__children(dt__field(m, "picture")) != NULL) {
        dt__put_image(t, dt__field(m, "picture"), dt__field_text(m, "label"));
    }
    const char *found = dt__field_text(m, "found"), *label = dt__field_text(m, "label");
    if (strcmp(found, label) == 0) dt__page(t, "<figcaption>%s, right", label);
    else dt__page(t, "<figcaption><b>%s</b> for %s", found, label);
    dt__page(t, "<small>%p · example %d</small></figcaption></figure>\n",
             dt__field_number(m, "share"), dt__field_whole(m, "index"));
}

static void put_mistakes(dt__chars *t, const dt__branch *root)
{
    const dt__branch *m = dt__children(dt__field(root, "worst"));
    dt__part_of_output(t, root, "examples", "Worst mistakes");
    if (m == NULL) {
        dt__page(t, "<p>None: all %i %s examples get their label.</p></section>\n",
                 dt__field_whole(root, "examples"), dt__field_text(root, "evaluated_on"));
        return;
    }
    dt__page(t,
             "<p>%i of %i %s examples are taken for another class. Those of largest loss, with "
             "the probability that the model gives its own answer:</p>\n<div class=\"examples\">\n",
             dt__field_whole(root, "mistakes"), dt__field_whole(root, "examples"),
             dt__field_text(root, "evaluated_on"));
    for (; m != NULL; m = m->next) put_mistake(t, m);
    dt__put_text(t, "</div></section>\n");
}

static void put_error(dt__chars *t, const dt__branch *v, bool masks)
{
    const double error = dt__field_number(v, "error");
    if (masks) {
        dt__page(t, "%p of the pixels wrong", error);
        return;
    }
    dt__page_fixed(t, -10 * log10(error), 1);
    dt__put_text(t, " dB");
}

static void put_triple(dt__chars *t, const dt__branch *v, bool masks)
{
    static const char *const names[] = { "input", "output", "target" };
    dt__put_text(t, "<figure class=\"triple\"><div>");
    for (int i = 0; i < 3; i++) {
        if (dt__field(v, names[i]) == NULL) continue;
        dt__put_text(t, "<div>");
        dt__put_image(t, dt__field(v, names[i]), names[i]);
        dt__page(t, "<small>%r</small></div>", names[i]);
    }
    dt__put_text(t, "</div><figcaption>");
    put_error(t, v, masks);
    dt__page(t, "<small>example %d</small></figcaption></figure>\n", dt__field_whole(v, "index"));
}

static void put_images(dt__chars *t, const dt__branch *root)
{
    const dt__branch *v = dt__children(dt__field(root, "shown"));
    const bool masks = strcmp(dt__field_text(root, "kind"), "masks") == 0;
    dt__part_of_output(t, root, "examples", masks ? "Masks" : "Images");
    dt__page(t,
             "<p>The worst, some in the middle and the best of %i %s examples.</p>\n"
             "<div class=\"triples\">\n",
             dt__field_whole(root, "examples"), dt__field_text(root, "evaluated_on"));
    for (; v != NULL; v = v->next) put_triple(t, v, masks);
    dt__put_text(t, "</div></section>\n");
}

static void put_sample(dt__chars *t, const dt__branch *v)
{
    const char *made = dt__field_text(v, "made"), *wanted = dt__field_text(v, "wanted");
    const bool prompted = dt__field(v, "wanted") != NULL;
    dt__page(t, "<pre class=\"sample\"><span>%s</span>", dt__field_text(v, "prompt"));
    dt__page(t, prompted && strcmp(made, wanted) == 0 ? "<b class=\"good\">%s</b>" : "<b>%s</b>",
             made);
    if (prompted && strcmp(made, wanted) != 0) dt__page(t, "\n<i>expected: %s</i>", wanted);
    dt__put_text(t, "</pre>\n");
}

static void put_samples(dt__chars *t, const dt__branch *root)
{
    const dt__branch *v = dt__children(dt__field(root, "texts"));
    dt__part_of_output(t, root, "examples", "Texts");
    dt__page(t, "<p>How the model goes on after the beginnings of %s examples, at temperature %g.",
             dt__field_text(root, "evaluated_on"), dt__field_number(root, "temperature"));
    dt__put_text(t, " What it was given is grey.</p>\n<div class=\"samples\">\n");
    for (; v != NULL; v = v->next) put_sample(t, v);
    dt__put_text(t, "</div></section>\n");
}

static void put_values(dt__chars *t, const dt__branch *root)
{
    dt__part_of_output(t, root, "examples", "Outputs");
    dt__page(t, "<p>Up to 400 of %i %s examples; on the line, output and target are equal.</p>\n",
             dt__field_whole(root, "examples"), dt__field_text(root, "evaluated_on"));
    dt__put_scatter(t, root);
    dt__put_text(t, "</section>\n");
}

/* Writes a share as percent; a dash if the whole is 0. */
static void put_share(dt__chars *t, double part, double whole_of)
{
    if (whole_of > 0) dt__page(t, "<td>%p</td>", part / whole_of);
    else dt__put_text(t, "<td>–</td>");
}

static void put_labels(dt__chars *t, const dt__branch *root)
{
    const dt__branch *v = dt__children(dt__field(root, "labels"));
    dt__part_of_output(t, root, "examples", "Labels");
    dt__page(t,
             "<p>Of %i %s examples: a label is found where its probability is above one half. "
             "Precision is the share of those found that have it, recall the share of those that "
             "have it that are found.</p>\n",
             dt__field_whole(root, "examples"), dt__field_text(root, "evaluated_on"));
    dt__put_text(
        t,
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" "
        "aria-label=\"Labels\"><table class=\"sensitivity\"><thead><tr><th scope=\"col\">label</th>"
        "<th scope=\"col\">examples</th><th scope=\"col\">found</th><th "
        "scope=\"col\">precision</th><th scope=\"col\">recall</th></tr></thead>"
        "<tbody>\n");
    for (; v != NULL; v = v->next) {
        const double both = dt__field_number(v, "both");
        dt__page(t, "<tr><td>%s</td><td>%i</td><td>%i</td>", dt__field_text(v, "name"),
                 dt__field_whole(v, "wanted"), dt__field_whole(v, "found"));
        put_share(t, both, dt__field_number(v, "found"));
        put_share(t, both, dt__field_number(v, "wanted"));
        dt__put_text(t, "</tr>\n");
    }
    dt__put_text(t, "</tbody></table></div></section>\n");
}

static void put_errors(dt__chars *t, const dt__branch *root)
{
    const dt__branch *v = dt__children(dt__field(root, "errors"));
    dt__part_of_output(t, root, "examples", "Errors");
    dt__page(t,
             "<p>Errors of the reconstruction of %i %s examples. A limit above 99 %% of the normal "
             "ones finds %p of the anomalous ones.</p>\n",
             dt__field_whole(root, "examples"), dt__field_text(root, "evaluated_on"),
             dt__field_number(root, "found"));
    dt__put_text(t,
                 "<div class=\"wide\" tabindex=\"0\" role=\"region\" "
                 "aria-label=\"Errors by kind\"><table class=\"sensitivity\"><thead><tr><th></th>"
                 "<th scope=\"col\">examples</th><th scope=\"col\">least</th><th scope=\"col\">10 "
                 "%</th><th scope=\"col\">median</th><th scope=\"col\">90 %</th>"
                 "<th scope=\"col\">99 %</th><th scope=\"col\">most</th></tr></thead><tbody>\n");
    for (; v != NULL; v = v->next) {
        const dt__branch *q = dt__children(dt__field(v, "quantiles"));
        dt__page(t, "<tr><td>%s</td><td>%i</td>", dt__field_text(v, "label"),
                 dt__field_whole(v, "count"));
        for (; q != NULL; q = q->next) dt__page(t, "<td>%g</td>", dt__number_of(q));
        dt__put_text(t, "</tr>\n");
    }
    dt__put_text(t, "</tbody></table></div></section>\n");
}

static void put_kind(dt__chars *t, const dt__branch *root)
{
    static const struct {
        const char *kind;
        void (*put)(dt__chars *t, const dt__branch *root);
    } kinds[] = { { "classes", put_mistakes }, { "images", put_images }, { "masks", put_images },
                  { "tokens", put_samples },   { "values", put_values }, { "bits", put_labels },
                  { "anomaly", put_errors } };
    for (int i = 0; i < DT__COUNT_OF(kinds); i++) {
        if (strcmp(dt__field_text(root, "kind"), kinds[i].kind) == 0) kinds[i].put(t, root);
    }
}

void dt__part_examples(dt__chars *t, const dt__page_run *r)
{
    const dt__branch *root = r->examples.root;
    const dt__branch *output = dt__children(dt__field(root, "outputs"));
    if (strcmp(dt__field_text(root, "kind"), "several") != 0) put_kind(t, root);
    else
        for (; output != NULL; output = output->next) put_kind(t, output);
}

/* ---- samples while it trained --------------------------------------------------------------- */

#define MOST_SHOWN 12 /* evaluations that are shown */

static void put_sampled(dt__chars *t, const dt__branch *samples)
{
    const char *kind = dt__field_text(samples, "kind");
    const dt__branch *text = dt__children(dt__field(samples, "texts"));
    const dt__branch *shown = dt__children(dt__field(samples, "shown"));
    const bool classes = strcmp(kind, "classes") == 0;
    dt__put_text(t, text != NULL ? "<div class=\"samples\">\n"
                    : classes    ? "<div class=\"examples\">\n"
                                 : "<div class=\"triples\">\n");
    for (; text != NULL; text = text->next) put_sample(t, text);
    for (; shown != NULL; shown = shown->next) {
        if (classes) put_mistake(t, shown);
        else put_triple(t, shown, strcmp(kind, "masks") == 0);
    }
    dt__put_text(t, "</div>\n");
}

void dt__part_samples(dt__chars *t, const dt__page_run *r)
{
    const int64_t n = r->n_samples, shown = n < MOST_SHOWN ? n : MOST_SHOWN;
    if (n == 0) return;
    dt__part_begin(t, "samples", "While it trained");
    dt__page(t,
             "<p>What the model made of the same validation examples at %i of %i evaluations, "
             "the latest first.</p>\n",
             shown, n);
    for (int64_t i = 0; i < shown; i++) {
        const dt__branch *line =
            r->samples[n - 1 - (shown > 1 ? i * (n - 1) / (shown - 1) : 0)].root;
        dt__page(t, "<details%r><summary>after update %i (%s)</summary>\n", i == 0 ? " open" : "",
                 dt__field_whole(line, "step"), dt__field_text(line, "phase"));
        put_sampled(t, dt__field(line, "samples"));
        dt__put_text(t, "</details>\n");
    }
    dt__put_text(t, "</section>\n");
}
