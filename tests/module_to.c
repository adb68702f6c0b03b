#include "module_to.h"
#include "testing.h"

#include "nn/module.h"

static void convert(const dt_tensor *from, dt_dtype dtype, void *to)
{
    const void *p = dt_data(from);
    for (int64_t k = 0; k < from->count; k++) {
        if (dtype == DT_F32) ((float *)to)[k] = (float)((const double *)p)[k];
        else ((double *)to)[k] = (double)((const float *)p)[k];
    }
}

dt_status module_to(dt_module *m, dt_dtype dtype)
{
    ck_assert(dt__is_float(dtype));
    DT__EACH_ENTRY(holder, e, m) {
        dt_tensor *x = e->x;
        if (x->dtype == dtype || !dt__is_float(x->dtype) || !dt__entry_is_first(m, e)) continue;
        TEST_EACH(x->kind == NULL && dt_is_contiguous(x), "%s is not a plain tensor", e->path);
        dt__storage *made = dt__storage_create(x->ctx, (uint64_t)x->count * dt_dtype_size(dtype));
        if (made == NULL) return DT_ERR_NOMEM;
        convert(x, dtype, made->data);
        made->version = x->storage->version + 1;
        dt__drop_storage(x);
        dt_grad_clear(x);
        x->storage = made;
        x->dtype = dtype;
        x->offset = 0;
    }
    return DT_OK;
}
