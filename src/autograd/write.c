/* Writing a tensor in place: whether it is allowed, and writes outside of a tape. */
#include "autograd/write.h"

#include "autograd/tape.h"
#include "core/threads.h"

#include <stdio.h>

/* The name of the op on t that reads the storage in backward; NULL: none (the reader is on another
 * tape). */
static const char *reader_of(const dt_tape *t, const dt__storage *s)
{
    for (int64_t r = 0; t != NULL && r < t->n_records; r++) {
        const dt__record *record = t->records[r];
        for (int i = 0; i < record->n_in + record->n_out; i++) {
            if (record->kept[i].storage == s) return record->op->name;
        }
    }
    return NULL;
}

dt__write_bar dt__may_write(dt_tensor *x, const dt_tape *t, char why[DT__WHY_SIZE])
{
    const dt__kind *kind = dt__kind_of(x);
    const dt_tensor *inner = kind->inner == NULL ? NULL : kind->inner(x);
    if (inner == NULL) {
        snprintf(why, DT__WHY_SIZE, "is a %s tensor: it was converted and is read-only",
                 kind->name);
        return DT__BAR_READ_ONLY;
    }
    if (inner->storage->dequantized) {
        snprintf(why, DT__WHY_SIZE, "is a view of dequantized values; write dt_inner(w)");
        return DT__BAR_DEQUANTIZED;
    }
    if (inner->storage->frozen) {
        snprintf(why, DT__WHY_SIZE, "belongs to a frozen model");
        return DT__BAR_FROZEN;
    }
    if (atomic_load(&inner->storage->needed) > 0) {
        const char *op = reader_of(t, inner->storage);
        snprintf(why, DT__WHY_SIZE,
                 "is still needed by a recorded %s%s; run dt_backward or dt_tape_reset first",
                 op != NULL ? op : "forward pass",
                 op == NULL && t != NULL ? " of another tape" : "");
        return DT__BAR_NEEDED;
    }
    return DT__WRITABLE;
}

dt_tensor *dt__write_open(dt_tensor *x)
{
    dt_tensor *inner = dt__kind_of(x)->inner(x);
    inner->storage->version++;
    return inner;
}

static void renew_share(const void *args, const dt__share *share)
{
    dt_tensor *x = *(dt_tensor *const *)args;
    dt__kind_of(x)->written(x, share->first, share->past);
}

void dt__write_renew(dt_tensor *x)
{
    const dt__kind *kind = dt__kind_of(x);
    const dt__panel_layout *l = kind->write_begin == NULL ? NULL : kind->write_begin(x);
    if (l == NULL) return;
    dt__team *const threads = dt__threads_enter(x->ctx);
    dt__parallel(l->panels, DT__LANES * l->columns, renew_share, &x);
    dt__threads_leave(threads);
}

void dt__write_close(dt_tensor *x)
{
    const dt__kind *kind = dt__kind_of(x);
    if (kind->write_end != NULL) kind->write_end(x);
}

void dt__write_value(dt_tensor *x, const dt_tensor *from)
{
    dt__copy_tensor(from, dt__write_open(x));
    dt__write_close(x);
}
