/* Metadata about an imported model's inputs and outputs, for dt_model_info.data: from the caller's
 * options, else from the metadata of the file:
 *
 *     detent.data                 detent's own exports: the whole text
 *     Image.NominalPixelRange     of ONNX (docs/MetadataProps.md): the numbers of black and white
 *     mean_values, scale_values   of OpenVINO: of bytes
 *     mean, std                   of numbers as they are, and of pixels from 0 to 1
 *     names, class_names, classes, labels    "a,b", "['a', 'b']" or "{0: 'a', 1: 'b'}"
 *
 * A message names metadata that cannot be used. */
#include "core/block_list.h"
#include "core/text/json.h"
#include "core/text/utf8.h"
#include "io/onnx/onnx.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The metadata found so far. */
typedef struct known {
    dt__onnx *g;
    const dt_ints *input; /* shape of the only input; NULL: there are several */
    const dt__onnx_layer *output;
    int64_t classes; /* length of the only output, if it is a vector; else 0 */
    dt_reals mean, deviation;
    bool scaled; /* mean and deviation are known */
    const char *const *name;
    int64_t n_names;
} known;

static const char *property(const dt__onnx *g, const char *key)
{
    const DtOnnx__Model *m = g->file->model;
    for (size_t i = 0; i < m->n_metadata_props; i++) {
        if (strcmp(m->metadata_props[i]->key, key) == 0) return m->metadata_props[i]->value;
    }
    return NULL;
}

static void say_left_out(const known *k, const char *key, const char *why)
{
    dt__say(k->g->ctx, "%s: its metadata '%s' are not used: %s", k->g->file->path, key, why);
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Parses "[0.5, 0.25]" or "123.7 116.3". False: not such a list. */
static bool parse_reals(const char *text, double factor, dt_reals *out)
{
    out->n = 0;
    while (*(text += strspn(text, " ,[]()")) != 0) {
        char *end;
        const double v = strtod(text, &end) * factor;
        if (end == text || !isfinite(v) || out->n == DT_MAX_REALS) return false;
        out->v[out->n++] = v;
        text = end;
    }
    return out->n > 0;
}

static int64_t channels_of(const known *k) { return k->input == NULL ? 0 : k->input->v[0]; }

/* Whether the model has one input, and each list has one number, or one per channel. */
static bool counts_fit(const known *k, const dt_reals *mean, const dt_reals *deviation)
{
    const int most = mean->n > deviation->n ? mean->n : deviation->n;
    if (k->input == NULL) return false;
    return (mean->n <= 1 || mean->n == channels_of(k)) &&
           (deviation->n <= 1 || deviation->n == channels_of(k)) && most > 0;
}

/* Whether (v - mean) / deviation can be computed in f32. If not, *bad is the first unusable number;
 * result 1: it is a deviation. */
static int find_bad(const dt_reals *mean, const dt_reals *deviation, double *bad)
{
    for (int i = 0; i < mean->n; i++) {
        *bad = mean->v[i];
        if (!isfinite((float)*bad)) return 0;
    }
    for (int i = 0; i < deviation->n; i++) {
        *bad = deviation->v[i];
        if (!(*bad > 0) || !isfinite((float)*bad) || !isfinite((float)(1 / *bad))) return 1;
    }
    return -1;
}

/* Fills both lists up to one length. */
static void scale(known *k, const dt_reals *mean, const dt_reals *deviation)
{
    const int n = mean->n > deviation->n ? mean->n : deviation->n;
    for (int i = 0; i < n; i++) {
        k->mean.v[i] = mean->n == 0 ? 0 : mean->v[mean->n == 1 ? 0 : i];
        k->deviation.v[i] = deviation->n == 0 ? 1 : deviation->v[deviation->n == 1 ? 0 : i];
    }
    k->mean.n = k->deviation.n = n;
    k->scaled = n > 0;
}

static bool is_image(const known *k)
{
    return k->input != NULL && k->input->n == 3 && (channels_of(k) == 1 || channels_of(k) == 3);
}

/* Reads one program's keys; `factor` converts its pixels to 0...1. */
static void take_scale(known *k, const char *mean_key, const char *deviation_key, double factor)
{
    const char *text[] = { property(k->g, mean_key), property(k->g, deviation_key) };
    dt_reals list[2] = { { .n = 0 }, { .n = 0 } };
    if (k->scaled || (text[0] == NULL && text[1] == NULL)) return;
    bool good = true;
    double bad;
    for (int i = 0; i < 2; i++) good &= text[i] == NULL || parse_reals(text[i], factor, &list[i]);
    for (int c = 0; c < list[0].n && is_image(k); c++) good &= list[0].v[c] <= 1;
    const char *key = text[0] != NULL ? mean_key : deviation_key;
    good = good && counts_fit(k, &list[0], &list[1]) && find_bad(&list[0], &list[1], &bad) < 0;
    if (good) scale(k, &list[0], &list[1]);
    else say_left_out(k, key, "expected numbers for each channel, of pixels from 0 to 1");
}

/* Reads ONNX's own key: the values of black and white. */
static void take_range(known *k)
{
    static const struct {
        const char *name;
        double black, white;
    } ranges[] = { { "NominalRange_0_255", 0, 255 },
                   { "Normalized_0_1", 0, 1 },
                   { "Normalized_1_1", -1, 1 },
                   { "NominalRange_16_235", 16, 235 } };
    const char *text = property(k->g, "Image.NominalPixelRange");
    if (text == NULL || k->scaled || !is_image(k)) return;
    for (int i = 0; i < DT__COUNT_OF(ranges); i++) {
        if (strcmp(text, ranges[i].name) != 0) continue;
        const double deviation = 1 / (ranges[i].white - ranges[i].black);
        const dt_reals mean = { 1, { -ranges[i].black * deviation } }, one = { 1, { deviation } };
        scale(k, &mean, &one);
        return;
    }
    say_left_out(k, "Image.NominalPixelRange", "it is not a range that ONNX names");
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Adds a name of n bytes. */
static dt_status add_name(known *k, const char **names, const char *text, size_t n)
{
    if (k->n_names == k->classes) {
        k->n_names++; /* too many; checked later */
        return DT_OK;
    }
    char *copy = dt__block_list_add(k->g->ctx, k->g->arena, n + 1);
    if (copy == NULL) return DT_ERR_NOMEM;
    memcpy(copy, text, n);
    copy[n] = 0;
    names[k->n_names++] = copy;
    return DT_OK;
}

/* Splits names: those in quotes, except the ones that a colon follows; without quotes, the parts
 * between commas. */
static dt_status split_names(known *k, const char **names, const char *text)
{
    const bool quoted = *text == '[' || *text == '{';
    while (!quoted && *text != 0 && k->n_names <= k->classes) {
        const size_t blanks = strspn(text, " "), n = strcspn(text + blanks, ",");
        DT__TRY(add_name(k, names, text + blanks, n));
        text += blanks + n + (text[blanks + n] == ',');
    }
    while (quoted && *(text += strcspn(text, "'\"")) != 0 && k->n_names <= k->classes) {
        const char quote[] = { *text, 0 };
        const size_t n = strcspn(text + 1, quote);
        const char *end = text + 1 + n + (text[1 + n] != 0);
        const bool is_key = end[strspn(end, " ")] == ':';
        if (!is_key) DT__TRY(add_name(k, names, text + 1, n));
        text = end;
    }
    return DT_OK;
}

static dt_status take_names(known *k)
{
    static const char *const keys[] = { "names", "class_names", "classes", "labels" };
    for (int i = 0; i < DT__COUNT_OF(keys) && k->n_names == 0; i++) {
        const char *text = property(k->g, keys[i]);
        if (text == NULL) continue;
        const char **names =
            dt__block_list_add(k->g->ctx, k->g->arena, (size_t)(k->classes + 1) * sizeof *names);
        if (names == NULL) return DT_ERR_NOMEM;
        if (k->classes > 0) DT__TRY(split_names(k, names, text));
        k->name = names;
        if (k->classes > 0 && k->n_names == k->classes) return DT_OK;
        k->n_names = 0;
        say_left_out(k, keys[i], "expected a name for each number of the one output");
    }
    return DT_OK;
}

/* ---- options --------------------------------------------------------------------------------- */

static dt_status bad_option(const known *k, const char *format, ...) DT_PRINTF(2, 3);

static dt_status bad_option(const known *k, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const dt_status s = dt__fail_v(k->g->ctx, DT_ERR_ARG, format, arguments);
    va_end(arguments);
    return s;
}

/* Numbers in the options must be finite in f32, and names UTF-8. */
static dt_status check_numbers(const known *k)
{
    static const char *const name[] = { "mean", "deviation" };
    const dt_onnx_options *o = k->g->options;
    double bad;
    const int which = find_bad(&o->mean, &o->deviation, &bad);
    if (which >= 0) {
        return bad_option(k, "%s is %g; it must be %s", name[which], bad,
                          which == 0 ? "finite in f32"
                                     : "above 0, and it and 1 / deviation finite in f32");
    }
    for (int64_t i = 0; i < o->n_names; i++) {
        char shown[DT__SHOWN];
        if (dt__is_utf8(o->names[i])) continue;
        return bad_option(k, "classes: name %lld, '%s', is not valid UTF-8", (long long)i + 1,
                          dt__shown(o->names[i], shown));
    }
    return DT_OK;
}

static dt_status take_options(known *k)
{
    const dt_onnx_options *o = k->g->options;
    const int numbers = o->mean.n + o->deviation.n;
    bool turned = false;
    for (int64_t i = 0; i < k->g->n_layers && k->g->layer[i]->node == NULL; i++) {
        turned |= k->g->layer[i]->shape.rank == 3;
    }
    if (o->channels_last && !turned) {
        return bad_option(k, "layout nhwc: no input has three dimensions besides the batch");
    }
    if (numbers > 0 && !counts_fit(k, &o->mean, &o->deviation)) {
        return bad_option(k,
                          "mean and deviation: %d and %d numbers; expected one, or one for each "
                          "of %lld channels, of a model with one input",
                          o->mean.n, o->deviation.n, (long long)channels_of(k));
    }
    DT__TRY(check_numbers(k));
    if (o->n_names > 0 && o->n_names != k->classes) {
        return bad_option(k,
                          "classes: %lld names; the model has %lld numbers in its one output, "
                          "[batch, classes]",
                          (long long)o->n_names, (long long)k->classes);
    }
    if (numbers > 0) scale(k, &o->mean, &o->deviation);
    for (int c = 0; c < k->mean.n && is_image(k); c++) {
        if (k->mean.v[c] >= 0 && k->mean.v[c] <= 1) continue;
        dt__say(k->g->ctx,
                "the mean is %g, but pixels are given as v = p/255, from 0 to 1: means "
                "and deviations of bytes are to be divided by 255",
                k->mean.v[c]);
        break;
    }
    k->name = o->names;
    k->n_names = o->n_names;
    return DT_OK;
}

/* ---- the text -------------------------------------------------------------------------------- */

static void put_reals(dt__chars *t, const char *name, const dt_reals *v)
{
    dt__put_text(t, name);
    for (int i = 0; dt__put_each(t, i, v->n); i++) dt__put_real(t, v->v[i]);
    dt__put_text(t, "]");
}

static void put_dims(dt__chars *t, const char *name, int n, const int64_t *dims)
{
    dt__put_text(t, name);
    for (int i = 0; dt__put_each(t, i, n); i++) dt__put_integer(t, dims[i]);
    dt__put_text(t, "]");
}

static void put(dt__chars *t, const known *k)
{
    const dt_shape *y = &k->output->shape;
    dt__put_text(t, k->n_names > 0 ? "{\"target\": \"classes\"" : "{\"target\": \"values\"");
    put_dims(t, ", \"input\": [", k->input->n, k->input->v);
    if (k->scaled) {
        dt__put_text(t, ", \"axis\": 0");
        put_reals(t, ", \"mean\": [", &k->mean);
        put_reals(t, ", \"deviation\": [", &k->deviation);
        if (is_image(k)) dt__put_text(t, ", \"pixels\": true");
    }
    put_dims(t, ", \"output\": [", y->rank, y->dims);
    dt__put_text(t, k->n_names == 0                     ? ", \"meaning\": \"values\"}"
                    : dt__onnx_is(k->output, "softmax") ? ", \"meaning\": \"probabilities\""
                                                        : ", \"meaning\": \"logits\"");
    if (k->n_names == 0) return;
    dt__put_text(t, ", \"names\": [");
    for (int64_t i = 0; dt__put_each(t, i, k->n_names); i++) dt__put_quoted(t, k->name[i]);
    dt__put_text(t, "]}");
}

/* *out: the text of a file that detent wrote, if it fits this model; else NULL. */
static dt_status take_own(const known *k, const char *text, const char **out)
{
    dt_model_data data;
    const char *label = k->g->file->path;
    const dt_status s = dt_model_data_parse(k->g->ctx, text, label, &data);
    if (s == DT_ERR_NOMEM) return s;
    const bool fits =
        s == DT_OK &&
        (k->input == NULL ||
         (data.input.n == k->input->n &&
          memcmp(data.input.v, k->input->v, (size_t)data.input.n * sizeof *data.input.v) == 0));
    if (s == DT_OK) dt_model_data_free(k->g->ctx, &data);
    if (!fits) {
        say_left_out(k, "detent.data", "they do not fit the model");
        return DT_OK;
    }
    *out = dt__block_list_text(k->g->ctx, k->g->arena, "%s", text);
    return *out == NULL ? DT_ERR_NOMEM : DT_OK;
}

dt_status dt__onnx_describe(dt__onnx *g, const dt_layers_options *o, dt__onnx_layer *const *outputs,
                            const char **out)
{
    const size_t n_out = g->graph->n_output;
    known k = { .g = g, .output = outputs[0] };
    const char *own = property(g, "detent.data");
    const char *pixels = property(g, "Image.BitmapPixelFormat");
    k.input = o->input.n == 1 ? &o->input.shape[0] : NULL;
    k.classes = n_out == 1 && k.output->shape.rank == 1 ? k.output->shape.dims[0] : 0;
    *out = NULL;
    DT__TRY(take_options(&k));
    if (own != NULL && !k.scaled && k.n_names == 0) DT__TRY(take_own(&k, own, out));
    else if (own != NULL) say_left_out(&k, "detent.data", "the options are used in their place");
    if (*out != NULL) return DT_OK;
    take_scale(&k, "mean_values", "scale_values", 1.0 / 255);
    take_scale(&k, "mean", "std", 1);
    take_range(&k);
    DT__TRY(take_names(&k));
    if (pixels != NULL && strncmp(pixels, "Bgr", 3) == 0) {
        say_left_out(&k, "Image.BitmapPixelFormat",
                     "the model reads blue, green, red, and images are red, green, blue");
    }
    if (k.input == NULL || n_out != 1 || (!k.scaled && k.n_names == 0)) return DT_OK;
    dt__chars t = { .ctx = g->ctx };
    put(&t, &k);
    const char *text = dt__chars_text(&t);
    if (text != NULL) *out = dt__block_list_text(g->ctx, g->arena, "%s", text);
    dt__release(g->ctx, t.bytes);
    return *out == NULL ? DT_ERR_NOMEM : DT_OK;
}
