/* A block of a transformer, the norms first [Xiong et al. 2020].
 *     x += dropout(attention(norm1(x)))      x += dropout(mlp(norm2(x))) */
#include "nn/transformer.h"

typedef struct block {
    dt_module *norm1, *attention, *norm2, *mlp; /* children */
    double dropout;
} block;

/* x + dropout(y), in place of y. */
static dt_tensor *join(dt_tape *t, dt_module *m, dt_tensor *x, dt_tensor *y)
{
    const block *s = dt_module_state(m);
    if (dt_is_training(m) && s->dropout > 0.0) y = dt__then(t, y, dt_dropout(t, y, s->dropout));
    return dt__then(t, y, dt_add(t, x, y));
}

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    const block *s = dt_module_state(m);
    dt_tensor *normal[2] = { dt_forward(t, s->norm1, in[0]), n_in > 1 ? in[1] : NULL }, *y;
    dt_forward_n(t, s->attention, normal, n_in, &y, 1);
    dt_tensor *x = join(t, m, in[0], dt__then(t, normal[0], y));
    y = dt_forward(t, s->norm2, x);
    dt_forward_n(t, s->mlp, &y, 1, out, n_out);
    y = join(t, m, x, dt__then(t, y, out[0]));
    out[0] = dt__then(t, x, y);
}

const dt_module_type dt__block_type = { .name = "block", .forward = forward, .block = true };

static dt_status add_norm(dt_module *m, const dt__block_plan *p, const char *name, dt_module **lent)
{
    dt_module *norm = NULL;
    const dt_status made = p->create_norm(dt_module_ctx(m), p->attend.width, p->eps, &norm);
    return dt__add_made(m, name, made, norm, lent);
}

static dt_status build(dt_module *m, const dt__block_plan *p)
{
    block *s = dt_module_state(m);
    dt_ctx *ctx = dt_module_ctx(m);
    dt_module *part = NULL;
    s->dropout = p->dropout;
    DT__TRY(add_norm(m, p, p->norm1, &s->norm1));
    dt_status made = dt__attention_create(ctx, &p->attend, &part);
    DT__TRY(dt__add_made(m, p->attention, made, part, &s->attention));
    DT__TRY(add_norm(m, p, p->norm2, &s->norm2));
    made = p->create_mlp(ctx, &p->feed, &part);
    return dt__add_made(m, p->mlp, made, part, &s->mlp);
}

dt_status dt__block_create(dt_ctx *ctx, const dt__block_plan *plan, dt_module **out)
{
    dt_module *m;
    *out = NULL;
    DT__TRY(dt_module_create(ctx, &dt__block_type, sizeof(block), &m));
    return dt__layer_done(build(m, plan), m, out);
}
