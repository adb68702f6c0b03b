/* Networks of lists of layers, as a recipe has them. */
#include "list_nets.h"

#include "nn/lists/graph.h"
#include "testing.h"

#include <detent/experimental/train.h>

#include <stdio.h>

dt_module *list_net_create(dt_ctx *ctx, const char *model)
{
    char text[4096];
    dt_recipe *r = NULL;
    dt_module *m;
    const int n = snprintf(text, sizeof text,
                           "run: {dir: r}\nmodel:\n  family: layers\n%s"
                           "data: {format: digits}\ntrain: {epochs: 1}\n",
                           model);
    ck_assert_int_lt(n, (int)sizeof text);
    const dt_recipe_source source = {
        .path = "net.yaml", .text = text, .bytes = (size_t)n, .leave_files = true
    };
    const dt_status s = dt_recipe_read(ctx, &source, &r);
    ck_assert_msg(s == DT_OK, "%s\n%s", dt_error(ctx), text);
    const dt_model_options *o = &dt_recipe_get(r)->model;
    TEST_OK(ctx, o->family->create(ctx, o->options, &m));
    dt_recipe_free(r);
    return m;
}

dt_tensor *list_net_input(const dt_module *m, int i, int64_t batch, double scale)
{
    const dt_shape *shapes;
    dt_tensor *x;
    int64_t dims[DT_MAX_RANK] = { batch };
    ck_assert_int_gt(dt__graph_inputs(m, &shapes), i);
    for (int d = 0; d < shapes[i].rank; d++) dims[1 + d] = shapes[i].dims[d];
    TEST_OK(m->ctx, dt_tensor_create(m->ctx, DT_F32, 1 + shapes[i].rank, dims, &x));
    TEST_OK(m->ctx, dt_fill_uniform(x, -scale, scale));
    return x;
}

dt_status list_net_quantize(dt_module *m, int preset, dt_tensor *const *x, int n_in, int n_out)
{
    dt_qat_options o = dt_qat_defaults();
    dt_tensor *y[DT_MAX_OUT];
    dt_tape *t;
    o.preset = preset;
    if (preset < 0) return DT_OK;
    DT__TRY(dt_prepare(m, &o));
    DT__TRY(dt_tape_create(m->ctx, &t));
    dt_train(m, true);
    dt_status s = dt_forward_n(t, m, x, n_in, y, n_out);
    dt_tape_free(t);
    dt_train(m, false);
    return s == DT_OK ? dt_convert(m, NULL, NULL) : s;
}
