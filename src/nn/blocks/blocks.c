/* Units of convolution, norm and activation for families, and sizes of images. */
#include "nn/lists/layer_type.h"
#include "nn/blocks/blocks.h"
#include "nn/fold.h"
#include "nn/blocks/transformer.h"

#include <stdio.h>

const char *const dt_norm_names[] = { "none", "batch", "group", NULL };

#define MOST_PIXELS ((int64_t)1 << 20) /* along a side */

dt_status dt__frame_of(dt_ctx *ctx, const char *family, const dt_ints *option, dt__frame *image)
{
    if (option->n != 3) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "%s: image requires channels, height and width, not %d numbers", family,
                       option->n);
    }
    for (int i = 0; i < 3; i++) {
        if (option->v[i] >= 1 && option->v[i] <= MOST_PIXELS) continue;
        return dt_fail(ctx, DT_ERR_ARG, "%s: %lld in image is outside 1...%lld", family,
                       (long long)option->v[i], (long long)MOST_PIXELS);
    }
    *image = (dt__frame){ option->v[0], option->v[1], option->v[2] };
    return DT_OK;
}

dt_status dt__frame_windows(dt_ctx *ctx, const char *what, const dt_conv_layer *layer,
                            dt__frame *image)
{
    int64_t *const side[2] = { &image->height, &image->width };
    for (int i = 0; i < 2; i++) {
        const int64_t room = *side[i] + 2 * layer->conv.padding[i] - layer->kernel[i];
        if (room < 0) {
            return dt_fail(ctx, DT_ERR_ARG,
                           "%s: a window of %lld pixels does not fit an image of %lld with %lld "
                           "more at each end",
                           what, (long long)layer->kernel[i], (long long)*side[i],
                           (long long)layer->conv.padding[i]);
        }
        *side[i] = room / layer->conv.stride[i] + 1;
    }
    image->channels = layer->out;
    return DT_OK;
}

dt_example dt__frame_example(const char *key, const dt_ints *image)
{
    return (dt_example){ key, -1, 3, { image->v[0], image->v[1], image->v[2] }, false };
}

dt_conv_layer dt__square_conv(int64_t in, int64_t out, int64_t kernel, int64_t stride,
                              int64_t padding)
{
    dt_conv_layer layer = { in, out, { kernel, kernel }, .conv = dt_conv_defaults() };
    for (int i = 0; i < 2; i++) {
        layer.conv.stride[i] = stride;
        layer.conv.padding[i] = padding;
    }
    return layer;
}

static dt_status create_norm(dt_ctx *ctx, const dt__unit_plan *plan, dt_module **out)
{
    const dt_norm_options *o = plan->norms;
    if (plan->kind == DT_NORM_GROUP) {
        return dt_group_norm_create(ctx, o->groups, plan->layer.out, o->eps, out);
    }
    return dt_batch_norm2d_create(ctx, plan->layer.out, o->momentum, o->eps, out);
}

dt_status dt__add_unit(dt_module *m, const dt__unit_plan *plan, dt__unit *u)
{
    dt_ctx *ctx = dt_module_ctx(m);
    dt_module *part = NULL;
    DT__TRY(dt__want_choice(ctx, "norm", "kind", plan->kind, dt_norm_names));
    dt_status made = dt_conv2d_create(ctx, &plan->layer, &part);
    DT__TRY(dt__add_made(m, plan->conv, made, part, &u->layer));
    if (plan->kind == DT_NORM_NONE) return DT_OK;
    made = create_norm(ctx, plan, &part);
    DT__TRY(dt__add_made(m, plan->norm, made, part, &u->norm));
    dt__set_norm(u->layer, u->norm);
    return DT_OK;
}

dt_status dt__add_activation(dt_module *m, int activation, dt_module **lent)
{
    dt_ctx *ctx = dt_module_ctx(m);
    dt_module *part = NULL;
    DT__TRY(dt__want_choice(ctx, "activation", "kind", activation, dt_activation_names));
    const dt_status made = dt_activation_create(ctx, dt_activation_names[activation], &part);
    return dt__add_made(m, "activation", made, part, lent);
}

DT__LAYER_FORWARD(dt__unit_forward(t, dt_module_state(m), x))

const dt_module_type dt__unit_type = { .name = "unit", .forward = forward };

dt_status dt__build_unit(dt_module *m, const dt__unit_plan *plan, int activation)
{
    dt__unit *u = dt_module_state(m);
    DT__TRY(dt__add_unit(m, plan, u));
    return activation < 0 ? DT_OK : dt__add_activation(m, activation, &u->activation);
}

dt_status dt__add_child(dt_module *m, const char *name, const dt_module_type *type,
                        size_t state_bytes, dt_module **lent)
{
    dt_module *part = NULL;
    const dt_status made = dt_module_create(dt_module_ctx(m), type, state_bytes, &part);
    return dt__add_made(m, name, made, part, lent);
}

dt_status dt__add_linear(dt_module *m, const char *name, const dt__linear_plan *plan,
                         dt_module **lent)
{
    dt_tensor *x;
    DT__TRY(dt__add_child(m, name, &dt__nn_linear, 0, lent));
    DT__TRY(dt__new_param(*lent, "weight", 2, (const int64_t[]){ plan->out, plan->in }, &x));
    DT__TRY(dt__draw_normal(x, DT__FOR_INIT, 0.0, plan->deviation));
    return plan->bias ? dt__new_param(*lent, "bias", 1, &plan->out, &x) : DT_OK;
}

dt_status dt__add_item(dt_module *list, const dt_module_type *type, size_t state_bytes,
                       dt_module **lent)
{
    char name[24];
    snprintf(name, sizeof name, "%lld", (long long)list->n_children);
    return dt__add_child(list, name, type, state_bytes, lent);
}

dt_status dt__want_choice(dt_ctx *ctx, const char *family, const char *what, int choice,
                          const char *const *names)
{
    int n = 0;
    while (names[n] != NULL) n++;
    if (choice >= 0 && choice < n) return DT_OK;
    return dt_fail(ctx, DT_ERR_ARG, "%s: %s %d is outside 0...%d", family, what, choice, n - 1);
}
