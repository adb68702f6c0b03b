/* Networks of part `step` with depthwise convolutions, as lists of layers: those of the recipes
 * sounds-dscnn [Zhang et al. 2017] and digits-mobilenet [Sandler et al. 2018]. */
#include "bench/nets.h"

#include <detent/experimental/layers.h>
#include <string.h>

/* A convolution with batch norm. */
typedef struct unit {
    const char *name;
    int64_t out, kernel[2], stride, padding[2], groups;
    bool active;     /* an activation follows */
    const char *add; /* name of an earlier result that layer sum0 or sum1 adds; or NULL */
} unit;

#define DEPTHWISE(name, n, stride)                                                                 \
    {                                                                                              \
        name, n, { 3, 3 }, stride, { 1, 1 }, n, true, NULL                                         \
    }
#define POINTWISE(name, n, active, add)                                                            \
    {                                                                                              \
        name, n, { 1, 1 }, 1, { 0, 0 }, 1, active, add                                             \
    }

static const unit dscnn[] = {
    { "stem", 32, { 10, 4 }, 2, { 5, 1 }, 1, true, NULL },
    DEPTHWISE("dw0", 32, 1),
    POINTWISE("pw0", 32, true, NULL),
    DEPTHWISE("dw1", 32, 1),
    POINTWISE("pw1", 32, true, NULL),
    DEPTHWISE("dw2", 32, 1),
    POINTWISE("pw2", 32, true, NULL),
};

static const unit mobilenet[] = {
    { "stem", 16, { 3, 3 }, 2, { 1, 1 }, 1, true, NULL },
    POINTWISE("up0", 48, true, NULL),
    DEPTHWISE("dw0", 48, 1),
    POINTWISE("down0", 16, false, "stem"),
    POINTWISE("up1", 48, true, NULL),
    DEPTHWISE("dw1", 48, 1),
    POINTWISE("down1", 16, false, "sum0"),
    POINTWISE("wide.up", 64, true, NULL),
    DEPTHWISE("wide.dw", 64, 2),
    POINTWISE("wide.down", 24, false, NULL),
};

#define MOST_UNITS 10
#define MOST_ITEMS (2 * MOST_UNITS + 3)

static int64_t size_after(int64_t size, const unit *u, int axis)
{
    return (size + 2 * u->padding[axis] - u->kernel[axis]) / u->stride + 1;
}

static int list(const unit *units, int n, const int64_t image[3], dt__conv *convs)
{
    int64_t in = image[0], rows = image[1], columns = image[2];
    for (int i = 0; i < n; i++) {
        const unit *u = &units[i];
        convs[i] = (dt__conv){ .batch = 1,
                               .in = in,
                               .out = u->out,
                               .groups = u->groups,
                               .x_size = { rows, columns },
                               .y_size = { size_after(rows, u, 0), size_after(columns, u, 1) },
                               .kernel = { u->kernel[0], u->kernel[1] },
                               .stride = { u->stride, u->stride },
                               .padding = { u->padding[0], u->padding[1] },
                               .dilation = { 1, 1 } };
        in = u->out;
        rows = convs[i].y_size[0];
        columns = convs[i].y_size[1];
    }
    return n;
}

/* ---- the network ---------------------------------------------------------------------------- */

/* A list of layers under construction. */
typedef struct making {
    dt_ctx *ctx;
    dt_list_item item[MOST_ITEMS];
    union {
        dt_conv_item conv;
        dt_plain_layer plain;
        dt_linear_layer linear;
    } options[MOST_ITEMS];
    int64_t n;
} making;

static dt_status add(making *m, const char *kind, const char *name, void **options)
{
    dt_list_item *item = &m->item[m->n];
    *options = &m->options[m->n];
    *item = (dt_list_item){ dt_layer_kind(kind), *options };
    DT__TRY(dt_layer_defaults(m->ctx, item->kind, *options));
    ((dt_layer_head *)*options)->name = name;
    m->n++;
    return DT_OK;
}

static int place_of(const char *const *names, const char *name)
{
    int i = 0;
    while (names[i] != NULL && strcmp(names[i], name) != 0) i++;
    return i;
}

static dt_status add_unit(making *m, const unit *u, const char *activation)
{
    static const char *const sums[] = { "sum0", "sum1" };
    void *options;
    DT__TRY(add(m, "conv2d", u->name, &options));
    dt_conv_item *o = options;
    o->out = u->out;
    o->groups = u->groups;
    for (int k = 0; k < 2; k++) {
        o->kernel[k] = u->kernel[k];
        o->stride[k] = u->stride;
        o->padding[k] = u->padding[k];
    }
    o->after.norm = place_of(dt_layer_norm_names, "batch");
    if (u->active) o->after.activation = place_of(dt_activation_names, activation);
    if (u->add == NULL) return DT_OK;
    DT__TRY(add(m, "add", sums[strcmp(u->add, sums[0]) == 0], &options));
    ((dt_layer_head *)options)->from = (dt_strings){ 2, { u->name, u->add } };
    return DT_OK;
}

static dt_status create(dt_ctx *ctx, const dt__net *net, const unit *units, int n,
                        const char *activation, dt_module **out)
{
    making m = { .ctx = ctx };
    void *options;
    for (int i = 0; i < n; i++) DT__TRY(add_unit(&m, &units[i], activation));
    DT__TRY(add(&m, "global_avg_pool2d", NULL, &options));
    DT__TRY(add(&m, "flatten", NULL, &options));
    DT__TRY(add(&m, "linear", "head", &options));
    ((dt_linear_layer *)options)->out = net->classes;
    dt_layers_options o = { .input = { .n = 1 }, .layers = { m.n, m.item } };
    o.input.shape[0].n = 3;
    memcpy(o.input.shape[0].v, net->image, sizeof net->image);
    return dt_layers_create(ctx, &o, out);
}

static dt_status create_dscnn(dt_ctx *ctx, dt_module **out)
{
    return create(ctx, &dt__net_dscnn, dscnn, DT__COUNT_OF(dscnn), "relu", out);
}

static dt_status create_mobilenet(dt_ctx *ctx, dt_module **out)
{
    return create(ctx, &dt__net_mobilenet, mobilenet, DT__COUNT_OF(mobilenet), "relu6", out);
}

static int list_dscnn(dt__conv *convs)
{
    return list(dscnn, DT__COUNT_OF(dscnn), dt__net_dscnn.image, convs);
}

static int list_mobilenet(dt__conv *convs)
{
    return list(mobilenet, DT__COUNT_OF(mobilenet), dt__net_mobilenet.image, convs);
}

const dt__net dt__net_dscnn = { "dscnn", { 1, 49, 10 }, 12, 32, create_dscnn, list_dscnn };
const dt__net dt__net_mobilenet = { "mobilenet", { 1, 28, 28 },    10,
                                    24,          create_mobilenet, list_mobilenet };
