/* The step of Adam and AdamW, which differ in how weight decay is applied (Kingma and Ba 2015;
 * Loshchilov and Hutter 2019); the checks of all steps, and their parallel loop over a
 * parameter. */
#include "ops/update/step.h"

#include "core/threads.h"

#include <math.h>

dt_status dt__step_shape(const dt_call *c, int least, int most)
{
    DT__TRY(dt__want_operands(c, least, most));
    for (int i = 0; i < c->n_in; i++) {
        DT__TRY(dt__want_float(c, i));
        DT__TRY(dt__want_dims(c, i, c->in[0]->rank, c->in[0]->dims));
    }
    return DT_OK;
}

dt_status dt__step_betas(const dt_call *c, double beta1, double beta2)
{
    if (beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1) return DT_OK;
    return dt_refuse(c, DT_ERR_ARG, "beta1 %g and beta2 %g must be in 0...1, 1 excluded", beta1,
                     beta2);
}

#define AT(field) .offset = offsetof(dt_adam_step_options, field)

const dt_key dt__adam_keys[] = {
    { "lr", DT_KEY_REAL, AT(lr), .most = DT_NO_LIMIT, .fallback = "1e-3" },
    { "beta1", DT_KEY_REAL, AT(beta1), .most = DT__BELOW_ONE, .fallback = "0.9" },
    { "beta2", DT_KEY_REAL, AT(beta2), .most = DT__BELOW_ONE, .fallback = "0.999" },
    { "eps", DT_KEY_REAL, AT(eps), .most = 1, .fallback = "1e-8" },
    { "weight_decay", DT_KEY_REAL, AT(weight_decay), .most = DT_NO_LIMIT, .fallback = "0" },
    { "step", DT_KEY_INT, AT(step), .least = 1, .most = DT_NO_LIMIT, .fallback = "1" },
    { "grad_factor", DT_KEY_REAL, AT(grad_factor), .most = DT_NO_LIMIT, .fallback = "1" },
    { 0 },
};

const dt_adam_step_options dt__adam_defaults = {
    .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .step = 1, .grad_factor = 1
};

dt_status dt__adam_shape(dt_call *c)
{
    const dt_adam_step_options *o = c->options;
    DT__TRY(dt__step_shape(c, 4, 4));
    if (o->step < 1) return dt_refuse(c, DT_ERR_ARG, "step is %lld, below 1", (long long)o->step);
    return dt__step_betas(c, o->beta1, o->beta2);
}

static void adam_part(const dt_call *c, const void *step, const dt__part *part)
{
    dt__adam a = *(const dt__adam *)step;
    a.n = part->n;
    a.p = dt__part_of(c, 0, part);
    a.g = dt__part_of(c, 1, part);
    a.m = dt__part_of(c, 2, part);
    a.v = dt__part_of(c, 3, part);
    c->kernels->adam(&a);
}

void dt__adam_run(const dt_call *c, bool decoupled)
{
    const dt_adam_step_options *o = c->options;
    const double n = (double)o->step, root = sqrt(1 - pow(o->beta2, n));
    const dt__adam step = { .factor = dt__step_factor(o->grad_factor),
                            .beta1 = o->beta1,
                            .beta2 = o->beta2,
                            .eps = o->eps * root,
                            .decay = decoupled ? 0 : o->weight_decay,
                            .shrink = decoupled ? 1 - o->lr * o->weight_decay : 1,
                            .rate = o->lr * root / (1 - pow(o->beta1, n)) };
    dt__step_run(c, adam_part, &step);
}

void *dt__part_of(const dt_call *c, int i, const dt__part *part)
{
    const size_t size = dt_dtype_size(c->arg[i]->dtype);
    return (char *)dt__data_mut(c->arg[i]) + (size_t)part->first * size;
}

/* Runs blocks first ... end-1. A block is one element or, with a layout, the rows of a panel. */
static dt__part part_of(const dt__panel_layout *l, int64_t first, int64_t end)
{
    if (l == NULL) return (dt__part){ first, end - first };
    const int64_t row = dt__panel_row(l, first);
    return (dt__part){ row * l->columns, (dt__panel_row(l, end) - row) * l->columns };
}

DT__EACH(step_run, i, const dt_call *c; dt__step_part *const run; const void *step;
         const dt__panel_layout *l; int64_t blocks, step_blocks;)
{
    const int64_t first = i * a.step_blocks, end = dt__min_i64(first + a.step_blocks, a.blocks);
    const dt__part part = part_of(a.l, first, end);
    a.run(a.c, a.step, &part);
    if (a.l != NULL) dt__written(a.c, 0, first, end);
}

/* A part is a chunk of elements, or, if dt__write_begin returns a layout, the rows of some
 * panels. */
void dt__step_run(const dt_call *c, dt__step_part *run, const void *step)
{
    const int64_t count = c->arg[0]->count;
    const dt__panel_layout *l = count == 0 ? NULL : dt__write_begin(c, 0);
    const int64_t blocks = l == NULL ? count : l->panels;
    const int64_t some = DT__CHUNK / (l == NULL ? 1 : DT__LANES * l->columns);
    const int64_t step_blocks = dt__max_i64(1, some);
    const int64_t parts = dt__ceil_div(blocks, step_blocks);
    dt__parallel(parts, step_blocks * (l == NULL ? 1 : DT__LANES * l->columns), step_run_share,
                 &(step_run_args){ c, run, step, l, blocks, step_blocks });
}
