/* Copies of a model's buffers, such as the running statistics of batch norm. A forward pass changes
 * them, so they are restored after a skipped update, and after evaluating the averaged model. */
#include "core/tensor.h"
#include "nn/module.h"
#include "train/run/run.h"

#include <string.h>

struct dt__saved_buffer {
    dt_tensor *x; /* the model's buffer */
    dt_tensor *copy;
};

dt_status dt__run_open_buffers(dt__run *r)
{
    int64_t n = 0;
    const dt_train_options *o = &r->o->train;
    const bool skips = o->nonfinite == DT_NONFINITE_SKIP || o->spikes.policy == DT_SPIKES_SKIP;
    if (!skips && o->average.name == DT_AVERAGE_NONE) return DT_OK;
    r->stage.saved_at = dt__module_changes(r->stage.model);
    DT__EACH_ENTRY(m, e, r->stage.model) n += e->kind == DT_BUFFER;
    if (n == 0) return DT_OK;
    r->stage.saved = dt__alloc_array(r->ctx, n, sizeof *r->stage.saved);
    if (r->stage.saved == NULL) return DT_ERR_NOMEM;
    DT__EACH_ENTRY(m, e, r->stage.model) {
        if (e->kind != DT_BUFFER) continue;
        struct dt__saved_buffer *b = &r->stage.saved[r->stage.n_saved++];
        *b = (struct dt__saved_buffer){ .x = e->x };
        DT__TRY(dt_tensor_create(r->ctx, e->x->dtype, e->x->rank, e->x->dims, &b->copy));
    }
    return DT_OK;
}

void dt__run_close_buffers(dt__run *r)
{
    for (int64_t i = 0; i < r->stage.n_saved; i++) dt_tensor_free(r->stage.saved[i].copy);
    dt__release(r->ctx, r->stage.saved);
    r->stage.saved = NULL;
    r->stage.n_saved = 0;
}

/* Allocates the copies again if the model's tensors changed: dt_prepare and loading a prepared
 * checkpoint add buffers. */
static dt_status update_list(dt__run *r)
{
    if (r->stage.saved_at == dt__module_changes(r->stage.model)) return DT_OK;
    dt__run_close_buffers(r);
    return dt__run_open_buffers(r);
}

dt_status dt__run_buffers(dt__run *r, dt__buffers_task task)
{
    if (task == DT__BUFFERS_SAVE) DT__TRY(update_list(r));
    for (int64_t i = 0; i < r->stage.n_saved; i++) {
        const struct dt__saved_buffer *b = &r->stage.saved[i];
        const void *from = dt_data(task == DT__BUFFERS_SAVE ? b->x : b->copy);
        void *to = dt_data_mut(task == DT__BUFFERS_SAVE ? b->copy : b->x);
        if (from == NULL || to == NULL) return dt_error_status(r->ctx);
        memcpy(to, from, dt__bytes_of(b->x));
    }
    return DT_OK;
}
