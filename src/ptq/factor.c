/* The factor of a damped matrix, in the processing order (dense64.c has the algorithm). */
#include "kernels/products/dense64.h"
#include "ptq/matrix.h"

dt_status dt__make_factor(dt__matrix *m, double scale, double damping)
{
    const int64_t n = m->columns;
    dt__inverse_root r = { .n = n, .h = m->moments->h, .order = m->order };
    r.scale = scale;
    r.add = damping;
    r.u = dt__alloc_array(m->ctx, n * n, sizeof *r.u);
    r.room = dt__alloc_array(m->ctx, dt__inverse_root_room(n), sizeof *r.room);
    const bool room = r.u != NULL && r.room != NULL;
    dt__team *const threads = dt__threads_enter(m->ctx);
    const bool good = room && dt__inverse_root_of(&r);
    dt__threads_leave(threads);
    dt__release(m->ctx, r.room);
    if (!good) {
        dt__release(m->ctx, r.u);
        return room ? DT_OK : DT_ERR_NOMEM;
    }
    m->factor = r.u;
    m->scale = scale;
    return DT_OK;
}
