/* "quantization_config" of compressed-tensors:
 *
 *     { "quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": [...],
 *       "config_groups": { NAME: { "targets": [...], "weights": {...}, "input_activations": {...},
 *                                  "output_activations": null, "format": ... }, ... },
 *       "kv_cache_scheme": null, "sparsity_config": {}, ... }
 *
 * A setting that changes what the model computes is used or refused. */
#include "io/hf/hf_compressed.h"

#include <string.h>

#define MOST_GROUPS 256

typedef struct reading {
    dt__hf_groups *g;
    dt__json *j;
    const char *refused; /* a setting that is not supported */
} reading;

/* Calls `with` for every field of an object, except those that are null. */
static dt_status each_field(reading *r, void *to,
                            dt_status (*with)(reading *r, const char *key, void *to))
{
    dt__json *j = r->j;
    for (bool more = dt__json_open(j, '{'); more; more = dt__json_more(j, '}')) {
        const char *key;
        DT__TRY(dt__json_key(j, &key));
        if (!dt__json_null(j)) DT__TRY(with(r, key, to));
    }
    return j->status;
}

/* Skips a value that is null, or an empty list or map; refuses any other. */
static dt_status want_nothing(reading *r, const char *key)
{
    const char first = dt__json_peek(r->j);
    const unsigned char *at = r->j->at;
    DT__TRY(dt__json_skip(r->j));
    const bool empty = (first == '{' || first == '[') && r->j->at - at <= 3;
    if (!empty && r->refused == NULL) r->refused = key;
    return DT_OK;
}

static dt_status read_argument(reading *r, const char *key, void *to)
{
    dt__hf_arguments *a = to;
    dt__json *j = r->j;
    if (strcmp(key, "num_bits") == 0) return dt__json_integer(j, &a->bits);
    if (strcmp(key, "type") == 0) return dt__json_string(j, &a->type);
    if (strcmp(key, "strategy") == 0) return dt__json_string(j, &a->strategy);
    if (strcmp(key, "scale_dtype") == 0) return dt__json_string(j, &a->scale_dtype);
    if (strcmp(key, "symmetric") == 0) return dt__json_bool(j, &a->symmetric);
    if (strcmp(key, "group_size") == 0) return dt__json_signed(j, &a->group);
    if (strcmp(key, "dynamic") == 0) {
        if (dt__json_peek(j) != '"') return dt__json_bool(j, &a->dynamic);
        const char *word;
        DT__TRY(dt__json_string(j, &word));
        a->local = strcmp(word, "local") == 0;
        if (!a->local && r->refused == NULL) r->refused = "dynamic";
        return DT_OK;
    }
    if (strcmp(key, "actorder") == 0 || strcmp(key, "block_structure") == 0) {
        return want_nothing(r, key);
    }
    return dt__json_skip(j); /* such as observers and calibration settings */
}

static dt_status read_arguments(reading *r, dt__hf_arguments *a)
{
    *a = (dt__hf_arguments){ .given = true, .symmetric = true };
    DT__TRY(each_field(r, a, read_argument));
    if (a->group < 0) a->group = 0;
    return DT_OK;
}

static dt_status read_targets(reading *r, dt__hf_group *to)
{
    for (bool more = dt__json_open(r->j, '['); more; more = dt__json_more(r->j, ']')) {
        DT__TRY(DT__RESERVE(r->g->ctx, to->target, to->n, to->room));
        DT__TRY(dt__json_string(r->j, &to->target[to->n]));
        to->n++;
    }
    return r->j->status;
}

static dt_status read_setting(reading *r, const char *key, void *to)
{
    dt__hf_group *g = to;
    if (strcmp(key, "targets") == 0) return read_targets(r, g);
    if (strcmp(key, "weights") == 0) return read_arguments(r, &g->weight);
    if (strcmp(key, "input_activations") == 0) return read_arguments(r, &g->input);
    if (strcmp(key, "format") == 0) return dt__json_string(r->j, &g->format);
    return want_nothing(r, key);
}

static dt_status refuse(const reading *r, const char *name, const char *what)
{
    char shown[DT__SHOWN];
    return dt_fail(r->g->ctx, DT_ERR_UNSUPPORTED, "%s: quantization_config: %s: %s", r->g->path,
                   dt__shown(name, shown), what);
}

static bool is(const char *text, const char *word)
{
    return text != NULL && strcmp(text, word) == 0;
}

/* Schemes of weights of type float, and the names of their formats. */
static const struct {
    int64_t bits, group;
    const char *strategy, *scale_dtype, *format;
    int scheme;
} floats[] = {
    { 4, 16, "tensor_group", "torch.float8_e4m3fn", "nvfp4-pack-quantized", DT_SCHEME_NVFP4 },
    { 4, 32, "group", "torch.uint8", "mxfp4-pack-quantized", DT_SCHEME_MXFP4 },
    { 6, 32, "group", "torch.uint8", "mxfp6-pack-quantized", DT_SCHEME_MXFP6 },
    { 8, 32, "group", "torch.uint8", "mxfp8-quantized", DT_SCHEME_MXFP8 },
};

/* Whether this format belongs to another scheme than `scheme`. */
static bool is_of_others(const char *format, int scheme)
{
    for (int i = 0; i < DT__COUNT_OF(floats); i++) {
        if (is(format, floats[i].format)) return floats[i].scheme != scheme;
    }
    return false;
}

int dt__hf_float_scheme(const dt__hf_arguments *w)
{
    for (int i = 0; is(w->type, "float") && i < DT__COUNT_OF(floats); i++) {
        /* Scales of FP4 have fixed dtypes */
        const bool scales =
            w->scale_dtype == NULL ? w->bits == 4 : is(w->scale_dtype, floats[i].scale_dtype);
        const bool same = w->bits == floats[i].bits && w->group == floats[i].group;
        if (same && scales && is(w->strategy, floats[i].strategy)) return floats[i].scheme;
    }
    return -1;
}

int dt__hf_input_scheme(const dt__hf_arguments *x)
{
    const int scheme = dt__hf_float_scheme(x);
    return scheme == DT_SCHEME_MXFP4   ? DT_SCHEME_MXFP4_NEAR
           : scheme == DT_SCHEME_MXFP8 ? DT_SCHEME_MXFP8_NEAR
                                       : scheme;
}

static const char *fault_of_input(const dt__hf_arguments *x)
{
    const int scheme = dt__hf_input_scheme(x);
    if (!x->given) return NULL;
    if (scheme >= 0 && !x->symmetric) return "input_activations of type float must be symmetric";
    if (scheme == DT_SCHEME_NVFP4 && x->local) return NULL;
    if (scheme == DT_SCHEME_NVFP4) return "input_activations of NVFP4 that are local are supported";
    if (x->local) return "dynamic \"local\" is for input_activations of NVFP4 only";
    if (scheme == DT_SCHEME_MXFP6) return "input_activations of MXFP6 are not supported";
    if (scheme >= 0) return x->dynamic ? NULL : "input_activations in blocks must be dynamic";
    if ((x->type != NULL && !is(x->type, "int")) || x->bits != 8) {
        return "input_activations of type int with 8 bits, and of type float those of NVFP4, MXFP4 "
               "and MXFP8, are supported";
    }
    if (x->dynamic && is(x->strategy, "token")) return NULL;
    return "input_activations of strategy token that are dynamic are supported";
}

static const char *fault_of(const dt__hf_group *g)
{
    const dt__hf_arguments *w = &g->weight;
    const bool real = dt__hf_float_scheme(w) >= 0, grouped = real || is(w->strategy, "group");
    if (!w->given) return "it has no weights";
    if (w->type != NULL && !is(w->type, "int") && !real) {
        return "weights of type int, and of type float those of NVFP4, MXFP4, MXFP6 and MXFP8, "
               "are supported";
    }
    if (real && !w->symmetric) return "weights of type float must be symmetric";
    if (w->bits < 2 || w->bits > 8) return "weights of 2 to 8 bits are supported";
    if (!grouped && !is(w->strategy, "channel") && !is(w->strategy, "tensor")) {
        return "weights of strategy group, channel and tensor are supported";
    }
    if (grouped != (w->group > 0)) return "group_size is for strategy group, which requires one";
    if (w->local) return "weights that are local are not supported";
    if (is_of_others(g->format, dt__hf_float_scheme(w)))
        return "its format is not that of its weights";
    return fault_of_input(&g->input);
}

static dt_status read_group(reading *r, const char *key, void *to)
{
    (void)to;
    char shown[DT__SHOWN];
    dt__hf_groups *g = r->g;
    if (g->n == MOST_GROUPS) return dt__json_fail(r->j, "more than %d config_groups", MOST_GROUPS);
    DT__TRY(DT__RESERVE(g->ctx, g->at, g->n, g->room));
    g->at[g->n] = (dt__hf_group){ .n = 0 };
    dt__hf_group *group = &g->at[g->n++];
    const char *const before = r->refused;
    r->refused = NULL;
    DT__TRY(each_field(r, group, read_setting));
    if (r->refused != NULL) {
        return dt_fail(g->ctx, DT_ERR_UNSUPPORTED,
                       "%s: quantization_config: %s: its %s is not supported", g->path,
                       dt__shown(key, shown), r->refused);
    }
    r->refused = before;
    const char *fault = fault_of(group);
    return fault == NULL ? DT_OK : refuse(r, key, fault);
}

static dt_status read_quantization(reading *r, const char *key, void *to)
{
    if (strcmp(key, "quant_method") == 0) return dt__json_string(r->j, &r->g->method);
    if (strcmp(key, "format") == 0) return dt__json_string(r->j, &r->g->format);
    if (strcmp(key, "config_groups") == 0) return each_field(r, to, read_group);
    if (strcmp(key, "kv_cache_scheme") == 0 || strcmp(key, "sparsity_config") == 0 ||
        strcmp(key, "transform_config") == 0) {
        return want_nothing(r, key);
    }
    return dt__json_skip(r->j); /* `ignore` is not needed: ignored layers have tensors of floats */
}

/* Reads quant_method before the other settings, whose meaning depends on it. */
static dt_status read_method(reading *r, const char *key, void *to)
{
    (void)to;
    if (strcmp(key, "quant_method") == 0) return dt__json_string(r->j, &r->g->method);
    return dt__json_skip(r->j);
}

static dt_status read_config(reading *r, const char *key, void *to)
{
    dt__json begin = *r->j;
    const bool named = strcmp(key, "quantization_config") == 0;
    if (!named && strcmp(key, "compression_config") != 0) return dt__json_skip(r->j);
    if (r->g->n > 0) return dt__json_fail(r->j, "'%s' occurs twice", key);
    DT__TRY(each_field(r, to, read_method));
    if (!is(r->g->method, "compressed-tensors")) return DT_OK;
    begin.strings = r->j->strings;
    *r->j = begin;
    DT__TRY(each_field(r, to, read_quantization));
    if (r->refused == NULL) return DT_OK;
    return refuse(r, r->refused, "it is not supported");
}

dt_status dt__hf_groups_read(dt_ctx *ctx, const dt__hf_text *config, dt__hf_groups *out)
{
    dt__json j;
    *out = (dt__hf_groups){ .ctx = ctx, .path = config->path };
    DT__TRY(dt__hf_scan(ctx, config, &j, &out->strings));
    reading r = { .g = out, .j = &j };
    /* a second scan fills the strings again */
    dt__release(ctx, out->strings);
    out->strings = j.strings = dt__alloc_array(ctx, 2, config->bytes + 1);
    dt_status s = out->strings == NULL ? DT_ERR_NOMEM : each_field(&r, NULL, read_config);
    if (s == DT_OK && is(out->method, "compressed-tensors") && out->n == 0) {
        s = refuse(&r, "config_groups", "it has none");
    }
    if (s != DT_OK) dt__hf_groups_free(out);
    return s;
}

void dt__hf_groups_free(dt__hf_groups *g)
{
    for (int64_t i = 0; i < g->n; i++) dt__release(g->ctx, (void *)g->at[i].target);
    DT__RELEASE(g->ctx, g->at, g->strings);
    *g = (dt__hf_groups){ .ctx = g->ctx };
}
