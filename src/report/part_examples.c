/* Examples, by the kind of targets: the worst mistakes, images and masks, texts, points. */
#include "report/page_picture.h"
#include "report/parts.h"

#include <math.h>
#include <string.h>

static int64_t whole(const dt__branch *v, const char *name)
{
    const double n = dt__field_number(v, name);
    return dt__whole(n);
}

/* ---- mistakes ------------------------------------------------------------------------------- */

static void put_mistake(dt__chars *t, const dt__branch *m)
{
    dt__put_text(t, "<figure class=\"example\">");
    if (dt__children(dt__field(m, "picture")) != NULL) {
        dt__put_image(t, dt__field(m, "picture"), dt__field_text(m, "label"));
    }
    dt__page(t,
             "<figcaption><b>%s</b> for %s<small>%p · example %d</small></figcaption></figure>\n",
             dt__field_text(m, "found"), dt__field_text(m, "label"), dt__field_number(m, "share"),
             whole(m, "index"));
}

static void put_mistakes(dt__chars *t, const dt__branch *root)
{
    const dt__branch *m = dt__children(dt__field(root, "worst"));
    dt__part_begin(t, "examples", "Worst mistakes");
    if (m == NULL) {
        dt__page(t, "<p>None: all %i %s examples get their label.</p></section>\n",
                 whole(root, "examples"), dt__field_text(root, "evaluated_on"));
        return;
    }
    dt__page(t,
             "<p>%i of %i %s examples are taken for another class. Those of largest loss, with "
             "the probability that the model gives its own answer:</p>\n<div class=\"examples\">\n",
             whole(root, "mistakes"), whole(root, "examples"),
             dt__field_text(root, "evaluated_on"));
    for (; m != NULL; m = m->next) put_mistake(t, m);
    dt__put_text(t, "</div></section>\n");
}

/* ---- images --------------------------------------------------------------------------------- */

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
        dt__put_text(t, "<div>");
        dt__put_image(t, dt__field(v, names[i]), names[i]);
        dt__page(t, "<small>%r</small></div>", names[i]);
    }
    dt__put_text(t, "</div><figcaption>");
    put_error(t, v, masks);
    dt__page(t, "<small>example %d</small></figcaption></figure>\n", whole(v, "index"));
}

static void put_images(dt__chars *t, const dt__branch *root)
{
    const dt__branch *v = dt__children(dt__field(root, "shown"));
    const bool masks = strcmp(dt__field_text(root, "kind"), "masks") == 0;
    dt__part_begin(t, "examples", masks ? "Masks" : "Images");
    dt__page(t,
             "<p>The worst, some in the middle and the best of %i %s examples.</p>\n"
             "<div class=\"triples\">\n",
             whole(root, "examples"), dt__field_text(root, "evaluated_on"));
    for (; v != NULL; v = v->next) put_triple(t, v, masks);
    dt__put_text(t, "</div></section>\n");
}

/* ---- texts ---------------------------------------------------------------------------------- */

static void put_sample(dt__chars *t, const dt__branch *v)
{
    const char *made = dt__field_text(v, "made"), *wanted = dt__field_text(v, "wanted");
    const bool prompted = dt__field(v, "wanted") != NULL;
    dt__page(t, "<pre class=\"sample\"><span>%s</span>", dt__field_text(v, "prompt"));
    dt__page(t, prompted && strcmp(made, wanted) == 0 ? "<b class=\"good\">%s</b>" : "<b>%s</b>",
             made);
    if (prompted && strcmp(made, wanted) != 0) dt__page(t, "\n<i>wanted: %s</i>", wanted);
    dt__put_text(t, "</pre>\n");
}

static void put_samples(dt__chars *t, const dt__branch *root)
{
    const dt__branch *v = dt__children(dt__field(root, "texts"));
    dt__part_begin(t, "examples", "Texts");
    dt__page(t, "<p>How the model goes on after the beginnings of %s examples, at temperature %g.",
             dt__field_text(root, "evaluated_on"), dt__field_number(root, "temperature"));
    dt__put_text(t, " What it was given is grey.</p>\n<div class=\"samples\">\n");
    for (; v != NULL; v = v->next) put_sample(t, v);
    dt__put_text(t, "</div></section>\n");
}

/* ---- points --------------------------------------------------------------------------------- */

static void put_values(dt__chars *t, const dt__branch *root)
{
    dt__part_begin(t, "examples", "Outputs");
    dt__page(t, "<p>Up to 400 of %i %s examples; on the line, output and target are equal.</p>\n",
             whole(root, "examples"), dt__field_text(root, "evaluated_on"));
    dt__put_scatter(t, root);
    dt__put_text(t, "</section>\n");
}

void dt__part_examples(dt__chars *t, const dt__page_run *r)
{
    static const struct {
        const char *kind;
        void (*put)(dt__chars *t, const dt__branch *root);
    } kinds[] = { { "classes", put_mistakes },
                  { "images", put_images },
                  { "masks", put_images },
                  { "tokens", put_samples },
                  { "values", put_values } };
    for (int i = 0; i < DT__COUNT_OF(kinds); i++) {
        if (strcmp(dt__field_text(r->examples.root, "kind"), kinds[i].kind) == 0) {
            kinds[i].put(t, r->examples.root);
        }
    }
}
