/* Family layers: a network as a list of layers (detent/layers.h). The list is built once; what runs
 * is a graph of modules (nn_graph.c). */
#include "core/block_list.h"
#include "nn/families/family.h"
#include "nn/lists/graph.h"
#include "nn/lists/layers_build.h"

#include <stdio.h>
#include <string.h>

/* ---- keys ----------------------------------------------------------------------------------- */

#define AT(field) .offset = offsetof(dt_repeat_layers, field)

static const dt_key repeat_keys[] = {
    { "repeat", DT_KEY_INT, AT(times), .least = 1, .most = 1024, .fallback = "!",
      .text = "how often the layers are repeated" },
    { "name", DT_KEY_STRING, AT(name), .fallback = "!",
      .text = "the repetitions are NAME.0, NAME.1, ..." },
    { "from", DT_KEY_STRINGS, AT(from), .fallback = "[]",
      .text = "layer or input that the first repetition reads; none: the layer before" },
    { "layers", DT_KEY_ITEMS, AT(layers), .kinds = dt_layer_kind_at, .own_kinds = true,
      .fallback = "!", .fewest = 1, .text = "the layers, in sequence" },
    { 0 },
};

const dt_item_kind dt__repeat_kind = {
    "repeat", "layers that are repeated, each repetition on the result of the one before",
    repeat_keys, sizeof(dt_repeat_layers)
};

#undef AT
#define AT(field) .offset = offsetof(dt_layers_options, field)

const dt_key dt_layers_keys[] = {
    { "input", DT_KEY_SHAPES, AT(input), .least = 1, .most = 1 << 24, .fallback = "!", .fewest = 1,
      .text = "shape of one example, or a map of names and shapes" },
    { "layers", DT_KEY_ITEMS, AT(layers), .kinds = dt_layer_kind_at, .own_kinds = true,
      .fallback = "!", .fewest = 1, .text = "the layers, in sequence" },
    { "output", DT_KEY_STRINGS, AT(output), .fallback = "[]",
      .text = "layers whose results are outputs; none: the last" },
    { 0 },
};

/* ---- building ------------------------------------------------------------------------------- */

static dt_status add_inputs(dt__layers_scope *s, const dt_shapes *shapes)
{
    if (shapes->n < 1 || shapes->n > DT_MAX_SHAPES) {
        return dt__layers_fault_at(s->b, "input", "it must have 1 to %d shapes", DT_MAX_SHAPES);
    }
    for (int i = 0; i < shapes->n; i++) {
        const dt_ints *dims = &shapes->shape[i];
        dt__layers_value value = { .name = shapes->name[i] == NULL ? "input" : shapes->name[i],
                                   .path = "input",
                                   .known = true,
                                   .number = s->n_in++ };
        if (dims->n < 1 || dims->n >= DT_MAX_RANK) {
            value.known = false;
            DT__TRY(dt__layers_fault_at(s->b, "input",
                                        "'%s' has %d dimensions; it can have 1 to %d", value.name,
                                        dims->n, DT_MAX_RANK - 1));
        }
        value.shape.rank = value.known ? dims->n : 0;
        memcpy(value.shape.dims, dims->v, (size_t)value.shape.rank * sizeof dims->v[0]);
        DT__TRY(dt__layers_add(s, &value, &s->last));
    }
    if (shapes->n > 1) s->last = NULL; /* ambiguous, so `from` must name one */
    return DT_OK;
}

static dt_status find_outputs(dt__layers_scope *s, const dt_strings *names,
                              dt__layers_value *out[DT_MAX_OUT], int *n)
{
    *n = 0;
    if (names->n == 0 && s->last != NULL) out[(*n)++] = s->last;
    if (names->n > DT_MAX_OUT) {
        return dt__layers_fault_at(s->b, "output", "it has %d names; it can have 1 to %d", names->n,
                                   DT_MAX_OUT);
    }
    for (int i = 0; i < names->n; i++) {
        const char *path = dt__layers_text(s->b, "output.%d", i);
        if (path == NULL) return DT_ERR_NOMEM;
        DT__TRY(dt__layers_find(s, names->v[i], path, &out[*n]));
        if (out[*n] != NULL) ++*n;
    }
    for (int i = 0; i < *n; i++) out[i]->read = true;
    return DT_OK;
}

/* The shapes of the outputs. */
typedef struct layers_result {
    int n;
    dt_shape shape[DT_MAX_OUT];
} layers_result;

static dt_status finish(dt__layers_scope *s, const dt_layers_options *o, layers_result *result)
{
    dt__layers_value *out[DT_MAX_OUT];
    int64_t number[DT_MAX_OUT];
    int n;
    DT__TRY(find_outputs(s, &o->output, out, &n));
    if (s->b->faults == 0) DT__TRY(dt__layers_check_read(s));
    if (s->b->faults > 0) return DT_OK;
    for (int i = 0; i < n; i++) number[i] = out[i]->number;
    DT__TRY(dt__graph_finish(s->m, s->n_in, number, n));
    dt__graph_sides sides;
    for (int i = 0; i < s->n_in; i++) {
        sides.in[i] = s->values[i]->shape;
        sides.in_name[i] = s->values[i]->name;
    }
    for (int i = 0; i < n; i++) {
        sides.out[i] = out[i]->shape;
        sides.out_name[i] = i < o->output.n ? o->output.v[i] : "";
    }
    DT__TRY(dt__graph_set_sides(s->m, &sides));
    if (result != NULL) *result = (layers_result){ .n = n };
    for (int i = 0; i < n && result != NULL; i++) result->shape[i] = sides.out[i];
    return DT_OK;
}

/* Builds the module. If the status is OK, *out is the module even if there are faults; *result,
 * unless result is NULL, gets the outputs' shapes. */
static dt_status build(dt__layers_build *b, const dt_layers_options *o, dt_module **out,
                       layers_result *result)
{
    dt__layers_scope s = { .b = b, .path = "layers" };
    DT__TRY(dt__graph_create(b->ctx, &dt__nn_graph, &s.m));
    dt_status status = dt_tape_create(b->ctx, &b->tape);
    if (status == DT_OK) {
        b->tape->no_grad = b->tape->shapes_only = true;
        status = add_inputs(&s, &o->input);
        if (status == DT_OK) status = dt__layers_build_list(&s, &o->layers);
        if (status == DT_OK) status = finish(&s, o, result);
    }
    dt_tape_free(b->tape);
    dt__release(b->ctx, s.values);
    dt__names_free(b->ctx, &s.names);
    dt__block_list_free(b->ctx, &b->blocks);
    return dt__layer_done(status, s.m, out);
}

/* A dt_option_fault that keeps the first fault. */
typedef struct first_fault {
    char text[DT__MESSAGE_SIZE];
} first_fault;

static void keep_first(void *user, const char *path, const char *text)
{
    first_fault *f = user;
    if (f->text[0] == 0) snprintf(f->text, sizeof f->text, "%s: %s", path, text);
}

dt_status dt_layers_create(dt_ctx *ctx, const dt_layers_options *options, dt_module **out)
{
    DT__NEED2(ctx, ctx, out);
    first_fault fault = { .text = "" };
    dt__layers_build b = { .ctx = ctx, .fault = keep_first, .user = &fault };
    *out = NULL;
    if (options == NULL) return dt_fail(ctx, DT_ERR_ARG, "layers: the options are NULL");
    DT__TRY(build(&b, options, out, NULL));
    if (b.faults == 0) return DT_OK;
    dt_module_free(*out);
    *out = NULL;
    return dt_fail(ctx, DT_ERR_ARG, "%s", fault.text);
}

/* Weights are not drawn, and the random streams stay as they are. */
static dt_status in_blank(dt_ctx *ctx, dt__layers_build *b, const dt_layers_options *o,
                          layers_result *result)
{
    dt_module *m = NULL;
    const bool before = ctx->blank;
    dt__stream streams[DT__PURPOSES];
    memcpy(streams, ctx->stream, sizeof streams);
    ctx->blank = true;
    const dt_status s = build(b, o, &m, result);
    ctx->blank = before;
    memcpy(ctx->stream, streams, sizeof streams);
    dt_module_free(m);
    return s;
}

dt_status dt_layers_check(dt_ctx *ctx, const dt_layers_options *options, dt_option_fault fault,
                          void *user)
{
    DT__NEED3(ctx, ctx, options, fault);
    dt__layers_build b = { .ctx = ctx, .fault = fault, .user = user };
    return in_blank(ctx, &b, options, NULL);
}

/* ---- in recipes ----------------------------------------------------------------------------- */

static dt_status create(dt_ctx *ctx, const void *options, dt_module **out)
{
    return dt_layers_create(ctx, options, out);
}

static dt_status check(dt_ctx *ctx, const void *options, dt_option_fault fault, void *user)
{
    return dt_layers_check(ctx, options, fault, user);
}

static dt_example example(const char *key, const dt_shape *shape)
{
    dt_example e = { .key = key, .item = -1, .rank = shape->rank, .exact = true };
    memcpy(e.dims, shape->dims, (size_t)shape->rank * sizeof e.dims[0]);
    return e;
}

static dt_status sides(dt_ctx *ctx, const void *options, dt_model_sides *out)
{
    const dt_layers_options *o = options;
    first_fault fault = { .text = "" };
    dt__layers_build b = { .ctx = ctx, .fault = keep_first, .user = &fault };
    layers_result result = { .n = 0 };
    DT__TRY(in_blank(ctx, &b, o, &result));
    *out = (dt_model_sides){ .n_in = o->input.n, .n_out = result.n };
    for (int i = 0; i < out->n_in; i++) {
        dt_shape input = { .rank = o->input.shape[i].n };
        memcpy(input.dims, o->input.shape[i].v, (size_t)input.rank * sizeof input.dims[0]);
        out->in[i] = example("input", &input);
        out->in_name[i] = o->input.name[i];
    }
    for (int i = 0; i < out->n_out; i++) {
        out->out[i] = example("layers", &result.shape[i]);
        out->out_name[i] = i < o->output.n ? o->output.v[i] : NULL;
    }
    return DT_OK;
}

static dt_status shapes(dt_ctx *ctx, const void *options, dt_example *in, dt_example *out)
{
    dt_model_sides all;
    DT__TRY(sides(ctx, options, &all));
    *in = all.in[0];
    *out = all.out[0];
    return DT_OK;
}

const dt_family dt__family_layers = {
    .name = "layers",
    .text = "a network as a list of layers",
    .keys = dt_layers_keys,
    .options_size = sizeof(dt_layers_options),
    .create = create,
    .shapes = shapes,
    .sides = sides,
    .check = check,
};
