/* Copies of a model's buffers, such as the running statistics of batch norm: a forward pass writes
 * them, so an update that is given up must put them back. */
#include "core/tensor.h"
#include "nn/module.h"
#include "train/run.h"

#include <string.h>

struct dt__kept {
    dt_tensor *x; /* the model's */
    dt_tensor *copy;
};

static dt_status count(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    (void)path;
    (void)x;
    *(int64_t *)user += kind == DT_BUFFER;
    return DT_OK;
}

static dt_status add(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    dt__run *r = user;
    (void)path;
    if (kind != DT_BUFFER) return DT_OK;
    struct dt__kept *k = &r->kept[r->n_kept++];
    *k = (struct dt__kept){ .x = x };
    return dt_tensor_create(r->ctx, x->dtype, x->rank, x->dims, &k->copy);
}

dt_status dt__run_open_buffers(dt__run *r)
{
    int64_t n = 0;
    if (r->o->train.nonfinite != DT_NONFINITE_SKIP) return DT_OK;
    r->kept_of = dt__module_changes(r->model);
    DT__TRY(dt_module_visit(r->model, count, &n));
    if (n == 0) return DT_OK;
    r->kept = dt__alloc_array(r->ctx, n, sizeof *r->kept);
    return r->kept == NULL ? DT_ERR_NOMEM : dt_module_visit(r->model, add, r);
}

void dt__run_close_buffers(dt__run *r)
{
    for (int64_t i = 0; i < r->n_kept; i++) dt_tensor_free(r->kept[i].copy);
    dt__release(r->ctx, r->kept);
    r->kept = NULL;
    r->n_kept = 0;
}

/* Prepare, and a checkpoint that was taken after it, bring buffers with them. */
static dt_status follow(dt__run *r)
{
    if (r->kept_of == dt__module_changes(r->model)) return DT_OK;
    dt__run_close_buffers(r);
    return dt__run_open_buffers(r);
}

dt_status dt__run_buffers(dt__run *r, dt__way way)
{
    if (way == DT__KEEP) DT__TRY(follow(r));
    for (int64_t i = 0; i < r->n_kept; i++) {
        const struct dt__kept *k = &r->kept[i];
        const void *from = dt_data(way == DT__KEEP ? k->x : k->copy);
        void *to = dt_data_mut(way == DT__KEEP ? k->copy : k->x);
        if (from == NULL || to == NULL) return dt_error_status(r->ctx);
        memcpy(to, from, (size_t)k->x->count * dt_dtype_size(k->x->dtype));
    }
    return DT_OK;
}
