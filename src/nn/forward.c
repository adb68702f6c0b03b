/* Running a module: its input hooks, then its forward, in a scope of the tape. What they made and did
 * not return is dropped at the end, and its memory is free as soon as backward does not need it. */
#include "nn/checkpointing.h"
#include "nn/trail.h"

#include <string.h>

static dt_status check(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, int n_out)
{
    if (n_in < 1 || n_in > DT_MAX_IN || n_out < 1 || n_out > DT_MAX_OUT) {
        return dt_tape_fail(t, DT_ERR_ARG,
                            "module %s (%s): %d inputs and %d outputs; 1...%d and 1...%d can be",
                            m->path, m->type->name, n_in, n_out, DT_MAX_IN, DT_MAX_OUT);
    }
    for (int i = 0; i < n_in; i++) {
        if (in[i] == NULL) {
            return dt_tape_fail(t, DT_ERR_ARG, "module %s (%s): input %d is NULL", m->path,
                                m->type->name, i);
        }
    }
    if (m->type->forward != NULL) return DT_OK;
    return dt_tape_fail(t, DT_ERR_STATE, "module %s (%s) has no forward of its own; run its parts",
                        m->path, m->type->name);
}

static void compute(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    dt_tensor *x[DT_MAX_IN];
    for (int i = 0; i < n_in; i++) x[i] = dt__run_hooks(t, m, DT_SITE_INPUT, in[i]);
    if (t->status != DT_OK || dt__trail_ends(t, m, x, n_in)) return;
    m->type->forward(t, m, x, n_in, out, n_out);
    for (int i = 0; i < n_out && t->status == DT_OK; i++) {
        if (out[i] != NULL) continue;
        dt_tape_fail(t, DT_ERR_STATE, "module %s (%s): its forward has made no output %d", m->path,
                     m->type->name, i);
    }
}

dt_status dt__module_enter(dt_tape *t, dt_module *m, const char **before)
{
    DT__TRY(dt__scope_enter(t));
    *before = t->where;
    if (m->path[0] != '\0') t->where = m->path;
    atomic_fetch_add(&m->running, 1); /* a frozen module may run in several threads */
    return DT_OK;
}

void dt__module_leave(dt_tape *t, dt_module *m, const char *before, dt_tensor **out, int n_out)
{
    atomic_fetch_sub(&m->running, 1);
    t->where = before;
    for (int i = 0; i < n_out && t->status != DT_OK; i++) out[i] = NULL;
    dt__scope_leave(t, out, n_out);
}

void dt__forward_once(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                      int n_out)
{
    const char *before;
    for (int i = 0; i < n_out; i++) out[i] = NULL;
    if (dt__module_enter(t, m, &before) != DT_OK) return;
    compute(t, m, in, n_in, out, n_out);
    dt__module_leave(t, m, before, out, n_out);
}

dt_status dt_forward_n(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                       int n_out)
{
    if (t == NULL) return DT_ERR_ARG;
    for (int i = 0; i < n_out; i++) out[i] = NULL;
    if (t->status != DT_OK) return t->status;
    if (m == NULL) return dt_tape_fail(t, DT_ERR_ARG, "forward: the module is NULL");
    if (check(t, m, in, n_in, n_out) != DT_OK || dt__trail_returns(t, m, out, n_out)) {
        return t->status;
    }
    const int64_t mark = dt__trail_mark(t);
    if (m->recomputed && dt__may_recompute(t, in, n_in)) {
        dt__forward_recomputed(t, m, in, n_in, out, n_out);
    } else {
        dt__forward_once(t, m, in, n_in, out, n_out);
    }
    dt__trail_returned(t, m, mark, out, n_out);
    return t->status;
}

dt_tensor *dt_forward(dt_tape *t, dt_module *m, dt_tensor *x)
{
    dt_tensor *y;
    return dt_forward_n(t, m, &x, 1, &y, 1) == DT_OK ? y : NULL;
}

void dt__drop_step(dt_tape *t, dt_tensor *x, const dt_tensor *y)
{
    if (x != NULL && x != y && x->tape == t && x->scope == t->depth) dt_drop(t, x);
}
