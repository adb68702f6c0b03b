/* The layers at the end of QAT: bits, bytes, noise of weight and input, clipped and dead codes. */
#include "report/parts.h"

#include <math.h>

/* Writes decibels with a bar, which is full at 60. */
static void put_noise(dt__chars *t, const dt__branch *side)
{
    const double snr = dt__field_number(side, "snr");
    if (side == NULL) {
        dt__put_text(t, "<td class=\"none\">float</td>");
        return;
    }
    if (!isfinite(snr)) {
        dt__put_text(t, "<td>exact</td>");
        return;
    }
    dt__put_text(t, "<td>");
    dt__page_fixed(t, snr, 1);
    dt__page(t, " dB<i class=\"meter\"><i style=\"width:%f%%\"></i></i></td>",
             fmin(fmax(snr / 60, 0), 1) * 100);
}

static void put_shares(dt__chars *t, const dt__branch *side)
{
    if (side == NULL) {
        dt__put_text(t, "<td>–</td><td>–</td>");
        return;
    }
    dt__page(t, "<td>%p</td><td>%p</td>", dt__field_number(side, "clipped"),
             dt__field_number(side, "dead"));
}

static void put_scales(dt__chars *t, const dt__branch *side)
{
    const dt__branch *low = dt__children(dt__field(side, "scales"));
    if (low == NULL) {
        dt__put_text(t, "<td>–</td>");
        return;
    }
    dt__page(t, "<td>%g … %g</td>", dt__number_of(low), dt__number_of(low->next));
}

static void put_layer(dt__chars *t, const dt__branch *layer)
{
    const dt__branch *weight = dt__field(layer, "weight"), *input = dt__field(layer, "input");
    dt__page(t, "<tr><th scope=\"row\"><code>%s</code><small>%s · %s",
             dt__field_text(layer, "path"), dt__field_text(layer, "type"),
             dt__field_text(weight, "scheme"));
    if (input != NULL) dt__page(t, "<br>input %s", dt__field_text(input, "scheme"));
    dt__page(t, "</small></th><td>%g / %g</td><td>%b</td>", dt__field_number(weight, "bits"),
             dt__field_number(input, "bits"), dt__field_whole(layer, "bytes"));
    put_noise(t, weight);
    put_shares(t, weight);
    put_scales(t, weight);
    put_noise(t, input);
    put_shares(t, input);
    dt__put_text(t, "</tr>\n");
}

void dt__part_layers(dt__chars *t, const dt__page_run *r)
{
    const dt__branch *root = r->layers_end.root != NULL ? r->layers_end.root : r->layers_begin.root;
    const dt__branch *layer = dt__children(dt__field(root, "layers"));
    if (layer == NULL) return;
    dt__part_begin(t, "layers", "Layers");
    dt__page(t,
             "<p>Signal to noise compares a tensor with its dequantized codes: 6 dB are one bit. "
             "Clipped are values beyond the range of the codes, dead are code values that occur "
             "nowhere. Measured at update %i on %i training examples.</p>\n",
             dt__field_whole(root, "step"), dt__field_whole(root, "examples"));
    dt__put_text(t, "<div class=\"wide\" tabindex=\"0\" role=\"region\" "
                    "aria-label=\"Layers\"><table class=\"layers\"><thead><tr><th scope=\"col\" "
                    "rowspan=\"2\">layer"
                    "</th><th scope=\"col\" rowspan=\"2\">bits w / x</th><th scope=\"col\" "
                    "rowspan=\"2\">size</th>"
                    "<th scope=\"colgroup\" colspan=\"4\" class=\"group\">weight</th><th "
                    "scope=\"colgroup\" colspan=\"3\" class=\"group\">"
                    "input</th></tr>\n<tr><th scope=\"col\">signal/noise</th><th "
                    "scope=\"col\">clipped</th><th scope=\"col\">dead</th>"
                    "<th scope=\"col\">scales</th><th scope=\"col\">signal/noise</th><th "
                    "scope=\"col\">clipped</th><th scope=\"col\">dead</th></tr></thead>"
                    "<tbody>\n");
    for (; layer != NULL; layer = layer->next) put_layer(t, layer);
    dt__put_text(t, "</tbody></table></div></section>\n");
}
