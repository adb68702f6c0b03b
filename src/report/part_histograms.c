/* Histograms of every layer: the master weight and its codes, at the first and the last update of
 * QAT. Bars show the last one, the line the first. */
#include "report/parts.h"

#include <math.h>
#include <string.h>

#define WIDTH 168.0
#define HEIGHT 56.0
#define BARS 64
#define OPEN 8 /* layers whose histograms are visible at first */

/* Fractions of all elements in at most BARS bars. */
typedef struct bars {
    double share[BARS];
    int n;
} bars;

static bars bars_of(const dt__branch *counts)
{
    bars b = { .n = 0 };
    double sum = 0;
    if (counts == NULL || counts->n == 0) return b;
    const int64_t each = (counts->n + BARS - 1) / BARS;
    int64_t i = 0;
    for (const dt__branch *v = counts->first; v != NULL; v = v->next, i++) {
        const double count = dt__number_of(v);
        if (!(count >= 0)) continue;
        b.share[i / each] += count;
        sum += count;
    }
    b.n = (int)((counts->n + each - 1) / each);
    for (int k = 0; k < b.n && sum > 0; k++) b.share[k] /= sum;
    return b;
}

static double largest(const bars *b)
{
    double most = 0;
    for (int i = 0; i < b->n; i++) most = fmax(most, b->share[i]);
    return most;
}

/* Writes the bars of the last update as one shape. */
static void put_bars(dt__chars *t, const bars *b, double most)
{
    const double width = WIDTH / b->n, gap = b->n <= 32 ? 1 : 0;
    dt__put_text(t, "<path class=\"bars\" d=\"");
    for (int i = 0; i < b->n; i++) {
        const double height = b->share[i] / most * HEIGHT;
        if (!(height > 0)) continue;
        dt__page(t, "M%f %fV%fH%fV%fZ", i * width, HEIGHT, HEIGHT - fmax(height, 0.6),
                 (i + 1) * width - gap, HEIGHT);
    }
    dt__put_text(t, "\"/>");
}

static void put_steps(dt__chars *t, const bars *b, double most)
{
    const double width = WIDTH / b->n;
    dt__page(t, "<path class=\"steps\" d=\"M0 %f", HEIGHT);
    for (int i = 0; i < b->n; i++) {
        dt__page(t, "V%fH%f", HEIGHT - b->share[i] / most * HEIGHT, (i + 1) * width);
    }
    dt__page(t, "V%f\"/>", HEIGHT);
}

static void put_histogram(dt__chars *t, const char *title, const dt__branch *begin,
                          const dt__branch *end)
{
    const bars before = bars_of(begin), after = bars_of(end);
    const double most = fmax(largest(&before), largest(&after));
    if (after.n == 0 || !(most > 0)) return;
    dt__page(t, "<svg viewBox=\"0 0 %f %f\" role=\"img\" aria-label=\"%r\">", WIDTH, HEIGHT + 1,
             title);
    put_bars(t, &after, most);
    if (before.n > 0) put_steps(t, &before, most);
    dt__put_text(t, "</svg>");
}

static const dt__branch *layer_named(const dt__branch *root, const char *path)
{
    const dt__branch *layer = dt__children(dt__field(root, "layers"));
    while (layer != NULL && strcmp(dt__field_text(layer, "path"), path) != 0) layer = layer->next;
    return layer;
}

static void put_layer(dt__chars *t, const dt__page_run *r, const dt__branch *end)
{
    const char *path = dt__field_text(end, "path");
    const dt__branch *after = dt__field(end, "weight");
    const dt__branch *before = dt__field(layer_named(r->layers_begin.root, path), "weight");
    const double bound = dt__field_number(after, "bound");
    if (after == NULL) return;
    dt__page(t, "<figure class=\"histogram\"><figcaption><code>%s</code></figcaption>", path);
    dt__put_text(t, "<div>");
    put_histogram(t, "master weights", dt__field(before, "bins"), dt__field(after, "bins"));
    dt__page(t, "<p><span>−%g</span><span>master</span><span>%g</span></p></div><div>", bound,
             bound);
    put_histogram(t, "codes", dt__field(before, "codes"), dt__field(after, "codes"));
    const double bits = dt__field_number(after, "bits");
    if (bits >= 2 && bits <= 8) {
        const int64_t half = (int64_t)1 << ((int)bits - 1);
        dt__page(t, "<p><span>−%d</span><span>codes</span><span>%d</span></p>", half, half - 1);
    }
    dt__put_text(t, "</div></figure>\n");
}

void dt__part_histograms(dt__chars *t, const dt__page_run *r)
{
    const dt__branch *layers = dt__field(r->layers_end.root, "layers");
    int i = 0;
    if (dt__children(layers) == NULL) return;
    dt__part_begin(t, "histograms", "Weights and codes");
    dt__put_text(t, "<p>Bars: at the end of training. Line: after the first update of "
                    "quantization-aware training. A master's histogram spans its own largest "
                    "magnitude.</p>\n<div class=\"histograms\">\n");
    for (const dt__branch *l = layers->first; l != NULL; l = l->next, i++) {
        if (i == OPEN) {
            dt__page(t,
                     "</div><details><summary>%i more layers</summary><div class=\"histograms\">",
                     layers->n - OPEN);
        }
        put_layer(t, r, l);
    }
    dt__put_text(t, i > OPEN ? "</div></details></section>\n" : "</div></section>\n");
}
