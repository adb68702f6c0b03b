/* A weight beside its codes and dequantized values, rows first. */
#include "qat/training/gap.h"

#include "autograd/codes.h"
#include "autograd/tape.h"

/* Sets g->w: the values that codes keep (where a layer computes the weight), or those of x. */
static dt_status values(dt__gap *g, const dt_tensor *x, const dt__codes *codes, const char *name)
{
    const dt__fq *fq = x->ext;
    const dt_tensor *home = fq->inner->storage != NULL ? fq->inner : x;
    const dt__storage *held = codes->values != NULL ? codes->values : home->storage;
    if (codes->version != held->version) {
        return dt_fail(g->ctx, DT_ERR_STATE, "%s was written since its codes were made", name);
    }
    if (codes->values == NULL) DT__TRY(dt__matrix_of(home, &g->map, &g->made[0]));
    g->w = codes->values != NULL ? (const float *)codes->values->data + codes->offset
                                 : dt__values(g->made[0] != NULL ? g->made[0] : home);
    return DT_OK;
}

static dt_status fill(dt__gap *g, dt_tensor *x, const dt__codes *codes)
{
    const int64_t blocks = codes->rows * codes->groups;
    const char *name = x->name != NULL ? x->name : "a weight";
    if (codes->panels == NULL) {
        return dt_fail(g->ctx, DT_ERR_UNSUPPORTED, "the codes of %s are not in panels", name);
    }
    DT__TRY(values(g, x, codes, name));
    DT__TRY(dt__dequantized(g->ctx, x, codes, &g->made[1]));
    DT__TRY(dt__matrix_of(g->made[1], &g->map, &g->made[2]));
    g->value = dt__values(g->made[2] != NULL ? g->made[2] : g->made[1]);
    g->code = dt__alloc_array(g->ctx, codes->rows, (size_t)codes->columns);
    g->scale = dt__alloc_array(g->ctx, blocks, sizeof(float));
    if (codes->zero != NULL) g->zero = dt__alloc_array(g->ctx, blocks, 1);
    const bool made =
        g->code != NULL && g->scale != NULL && (codes->zero == NULL || g->zero != NULL);
    if (!made) return DT_ERR_NOMEM;
    const dt_code_rows rows = { .codes = g->code, .scale = g->scale, .zero_point = g->zero };
    dt__codes_to_rows(codes, &rows);
    g->rows = codes->rows;
    g->columns = codes->columns;
    g->group = dt__max_i64(1, codes->group);
    g->groups = codes->groups;
    return DT_OK;
}

dt_status dt__gap_open(dt_tape *t, dt_tensor *x, dt__codes *codes, dt__gap *out)
{
    const dt__fq *fq = x->ext;
    *out = (dt__gap){ .ctx = x->ctx,
                      .map = fq->map,
                      .qmin = dt__qmin(&fq->quant),
                      .qmax = dt__qmax(&fq->quant),
                      .levels = dt__levels_of(&fq->quant) };
    if (codes != NULL) dt__codes_retain(codes);
    else DT__TRY(dt__fq_made(t, x, &codes));
    if (codes == NULL) return DT_OK;
    const dt_status s = fill(out, x, codes);
    dt__codes_release(codes);
    if (s != DT_OK) dt__gap_close(out);
    return s;
}

void dt__gap_close(dt__gap *g)
{
    dt__release(g->ctx, g->code);
    dt__release(g->ctx, g->scale);
    dt__release(g->ctx, g->zero);
    for (int i = 0; i < DT__COUNT_OF(g->made); i++) dt_tensor_free(g->made[i]);
    *g = (dt__gap){ .ctx = g->ctx };
}
