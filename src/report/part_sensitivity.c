/* The loss that the quantization of each layer costs, largest first, and the lines of a recipe that
 * give the most expensive layers 8 bits. */
#include "report/parts.h"

#include <math.h>
#include <stdlib.h>

#define SUGGESTED 3

static double gain_of(const dt__branch *layer) { return dt__field_number(layer, "gain"); }

static int compare(const void *a, const void *b)
{
    const double p = gain_of(*(const dt__branch *const *)a),
                 q = gain_of(*(const dt__branch *const *)b);
    return p < q ? 1 : p > q ? -1 : 0;
}

static const dt__branch **sorted(dt__chars *t, const dt__branch *layers)
{
    const dt__branch **all = dt__alloc_array(t->ctx, layers->n, sizeof *all);
    if (all == NULL) {
        t->failed = true;
        return NULL;
    }
    int64_t n = 0;
    for (const dt__branch *l = layers->first; l != NULL; l = l->next) all[n++] = l;
    qsort(all, (size_t)n, sizeof *all, compare);
    return all;
}

/* Additional bytes of codes with 8 bits. */
static double more_bytes(const dt__branch *layer)
{
    const double bits = dt__field_number(layer, "bits");
    const double stored = bits <= 2 ? 2 : bits <= 4 ? 4 : 8;
    return dt__field_number(layer, "elements") * (8 - stored) / 8;
}

static void put_signed(dt__chars *t, double gain)
{
    if (gain > 0) dt__put_text(t, "+");
    dt__page(t, "%g", gain);
}

/* Whether any layer has fewer than 8 bits. */
static bool is_below_8(const dt__branch *layers)
{
    for (const dt__branch *l = layers->first; l != NULL; l = l->next) {
        if (more_bytes(l) > 0) return true;
    }
    return false;
}

static void put_layer(dt__chars *t, const dt__branch *layer, double most, bool bytes)
{
    const double gain = gain_of(layer), more = more_bytes(layer);
    const double width = most > 0 && gain > 0 ? gain / most * 100 : 0;
    const double input = dt__field_number(layer, "input_bits"); /* 32: float */
    dt__page(t, "<tr><th scope=\"row\"><code>%s</code></th><td>%g / %g</td><td>",
             dt__field_text(layer, "path"), dt__field_number(layer, "bits"),
             input <= 8 ? input : (double)NAN);
    put_signed(t, gain);
    dt__page(t, "<i class=\"meter\"><i style=\"width:%f%%\"></i></i></td><td>", width);
    put_signed(t, dt__field_number(layer, "weight_gain"));
    if (more > 0) dt__page(t, "</td><td>+%b", dt__whole(more));
    else if (bytes) dt__put_text(t, "</td><td>–");
    dt__put_text(t, "</td></tr>\n");
}

/* Whether most of a layer's loss comes from the weight, not the input. */
static bool is_weight(const dt__branch *layer)
{
    return dt__field_number(layer, "weight_gain") >= gain_of(layer) / 2;
}

static bool is_worth(const dt__branch *layer)
{
    const char *bits = is_weight(layer) ? "bits" : "input_bits";
    return gain_of(layer) > 0 && dt__field_number(layer, bits) < 8;
}

static void put_lines(dt__chars *t, const dt__branch *const *layer, int64_t n)
{
    int64_t shown = 0;
    for (int64_t i = 0; i < n && shown < SUGGESTED; i++) {
        if (!is_worth(layer[i])) continue;
        if (shown++ == 0) {
            dt__put_text(t, "<p>Eight bits would help most here. To paste into the recipe:</p>\n"
                            "<pre class=\"paste\">qat:\n  rules:\n");
        }
        dt__page(t, "    - {match: &quot;%s&quot;, %r: {bits: 8}}\n",
                 dt__field_text(layer[i], "path"), is_weight(layer[i]) ? "weight" : "activation");
    }
    if (shown > 0) dt__put_text(t, "</pre>\n");
    else dt__put_text(t, "<p>No layer below 8 bits costs anything measurable here.</p>\n");
}

void dt__part_sensitivity(dt__chars *t, const dt__page_run *r)
{
    const dt__branch *root = r->sensitivity.root, *layers = dt__field(root, "layers");
    const double examples = dt__field_number(root, "examples");
    if (dt__children(layers) == NULL) return;
    const dt__branch **layer = sorted(t, layers);
    if (layer == NULL) return;
    dt__part_begin(t, "sensitivity", "What each layer costs");
    dt__page(t,
             "<p>The loss falls by this much when one layer alone is put back into float, its "
             "weight and its input or its weight alone. Loss with all layers quantized: %g, on "
             "%i %s examples. Small differences are noise.</p>\n",
             dt__field_number(root, "loss"), dt__whole(examples),
             dt__field_text(root, "evaluated_on"));
    dt__put_text(t, "<div class=\"wide\" tabindex=\"0\" role=\"region\" "
                    "aria-label=\"What each layer costs\"><table "
                    "class=\"sensitivity\"><thead><tr><th scope=\"col\">layer</th>"
                    "<th scope=\"col\">bits w / x</th><th scope=\"col\">cost</th><th "
                    "scope=\"col\">of the weight alone</th>");
    const bool bytes = is_below_8(layers);
    dt__put_text(t, bytes ? "<th scope=\"col\">8-bit weight</th></tr></thead><tbody>\n"
                          : "</tr></thead><tbody>\n");
    for (int64_t i = 0; i < layers->n; i++) put_layer(t, layer[i], gain_of(layer[0]), bytes);
    dt__put_text(t, "</tbody></table></div>\n");
    put_lines(t, layer, layers->n);
    dt__put_text(t, "</section>\n");
    dt__release(t->ctx, layer);
}
