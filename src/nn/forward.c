/* Running modules. Everything around a module's forward is in this file only: the scope of the
 * tape, the path in messages, hooks, calibration passes (calib_cache.h), activation checkpointing
 * (checkpointing.h), and fusion. Every function that runs a module calls `run`.
 *
 * A scope drops the tensors that a module made and did not return; their memory is freed as soon as
 * backward does not need it. */
#include "nn/cache/calib_cache.h"
#include "nn/checkpointing.h"

#define DEEPEST 256 /* nesting depth of modules */

/* ---- one module ----------------------------------------------------------------------------- */

static dt_status check(dt_tape *t, const dt__module_call *c)
{
    const dt_module *m = c->m;
    if (m == NULL) return dt_tape_fail(t, DT_ERR_ARG, "forward: the module is NULL");
    if (c->n_in < 1 || c->n_in > DT_MAX_IN || c->n_out < 1 || c->n_out > DT_MAX_OUT) {
        return dt_tape_fail(t, DT_ERR_ARG,
                            "module %s (%s): %d inputs and %d outputs; 1...%d and 1...%d can be",
                            m->path, m->type->name, c->n_in, c->n_out, DT_MAX_IN, DT_MAX_OUT);
    }
    for (int i = 0; i < c->n_in; i++) {
        if (c->in[i] == NULL) {
            return dt_tape_fail(t, DT_ERR_ARG, "module %s (%s): input %d is NULL", m->path,
                                m->type->name, i);
        }
    }
    if (m->type->forward != NULL || c->body.run != NULL) return DT_OK;
    return dt_tape_fail(t, DT_ERR_STATE, "module %s (%s) has no forward of its own; run its parts",
                        m->path, m->type->name);
}

/* Runs the hooks, then the body, in the module's scope. */
static void compute(dt_tape *t, const dt__module_call *c)
{
    dt_module *m = c->m;
    dt_tensor *x[DT_MAX_IN];
    for (int i = 0; i < c->n_in; i++) x[i] = dt__run_hooks(t, m, DT_SITE_INPUT, c->in[i]);
    if (t->status != DT_OK || dt__calib_stops(t, m, x, c->n_in)) return;
    const dt__form *form = &m->form;
    if (c->body.run == NULL && form->run != NULL) {
        form->run(form->user, t, m, x, c->n_in, c->out, c->n_out);
    } else if (c->body.run == NULL) m->type->forward(t, m, x, c->n_in, c->out, c->n_out);
    else c->body.run(c->body.user, t, m, x, c->n_in, c->out, c->n_out);
}

static void check_outputs(dt_tape *t, const dt__module_call *c)
{
    const int n = c->body.optional ? 1 : c->n_out;
    for (int i = 0; i < n && t->status == DT_OK; i++) {
        if (c->out[i] != NULL) continue;
        dt_tape_fail(t, DT_ERR_STATE, "module %s (%s): its forward has made no output %d",
                     c->m->path, c->m->type->name, i);
    }
}

void dt__forward_once(dt_tape *t, const dt__module_call *c)
{
    dt_module *m = c->m;
    const char *before = t->where;
    const dt__open_module here = { m, t->open };
    for (int i = 0; i < c->n_out; i++) c->out[i] = NULL;
    if (t->depth == DEEPEST) {
        dt_tape_fail(
            t, DT_ERR_STATE,
            "module %s (%s): %d modules run inside of each other; does a hook run its own?",
            m->path, m->type->name, DEEPEST);
        return;
    }
    if (dt__scope_enter(t) != DT_OK) return;
    if (m->path[0] != '\0') t->where = m->path;
    t->open = &here;
    atomic_fetch_add(&m->running, 1); /* a frozen module may run in several threads */
    compute(t, c);
    check_outputs(t, c);
    atomic_fetch_sub(&m->running, 1);
    t->open = here.caller;
    t->where = before;
    for (int i = 0; i < c->n_out && t->status != DT_OK; i++) c->out[i] = NULL;
    dt__scope_leave(t, c->out, c->n_out);
}

static dt_status run(dt_tape *t, const dt__module_call *c)
{
    for (int i = 0; i < c->n_out && c->n_out <= DT_MAX_OUT; i++) c->out[i] = NULL;
    if (t->status != DT_OK || check(t, c) != DT_OK) return t->status;
    if (dt__calib_returns(t, c->m, c->out, c->n_out)) return t->status;
    const int64_t position = dt__calib_position(t);
    const bool again = c->m->recomputed && c->body.run == NULL;
    if (again && dt__may_recompute(t, c->in, c->n_in)) dt__forward_recomputed(t, c);
    else dt__forward_once(t, c);
    if (t->on_forward != NULL && t->status == DT_OK) t->on_forward(t->on_forward_user, c);
    dt__calib_keep(t, c->m, position, c->out, c->n_out);
    return t->status;
}

dt_status dt__forward_call(dt_tape *t, const dt__module_call *call) { return run(t, call); }

dt_status dt_forward_n(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                       int n_out)
{
    if (n_in > 0) DT__NEED(dt_tape_ctx(t), in);
    DT__NEED(dt_tape_ctx(t), out);
    if (t == NULL) return DT_ERR_ARG;
    return run(t, &(dt__module_call){ m, in, n_in, out, n_out, { NULL, NULL, false } });
}

dt_tensor *dt_forward(dt_tape *t, dt_module *m, dt_tensor *x)
{
    dt_tensor *y = NULL;
    return dt_forward_n(t, m, &x, 1, &y, 1) == DT_OK ? y : NULL;
}

void dt__drop_step(dt_tape *t, dt_tensor *x, const dt_tensor *y)
{
    if (x != NULL && x != y && x->tape == t && x->scope == t->depth) dt_drop(t, x);
}

/* ---- fusion --------------------------------------------------------------------------------- */

/* Modules are not fused in a calibration pass, which keeps the result of each module, while calls
 * are observed (on_forward, on_call), or under activation checkpointing, which runs a whole module
 * again. */
static bool may_fuse(const dt_tape *t, const dt_module *m)
{
    return t->status == DT_OK && t->calib == NULL && t->on_forward == NULL && t->on_call == NULL &&
           m != NULL && !m->recomputed && m->type->fusion != NULL;
}

/* The DT_ACT_... of activation module m if the epilogue of `fusion` supports it; else negative. */
static int epilogue_activation(const dt_fusion *fusion, const dt_module *m)
{
    if (m == NULL || m->type->activation == NULL || m->hooks != NULL) return -1;
    const int activation = m->type->activation(m);
    if (activation < 0 || activation >= 32) return -1;
    return (fusion->activations >> activation & 1) != 0 ? activation : -1;
}

/* The number of links that one op can compute, and its epilogue; 0: none can be fused. */
static int64_t plan_epilogue(const dt_tape *t, const dt_link *link, int64_t n, dt_epilogue *e)
{
    if (!may_fuse(t, link->m) || link->m->type->fusion->forward == NULL) return 0;
    const dt_fusion *fusion = link->m->type->fusion;
    if (link->residual != NULL && !fusion->residual) return 0;
    const bool more = n > 1 && link[1].residual == NULL;
    const int activation = more ? epilogue_activation(fusion, link[1].m) : -1;
    *e = (dt_epilogue){ link->residual, activation < 0 ? DT_ACT_NONE : activation };
    if (activation >= 0) return 2;
    return link->residual != NULL ? 1 : 0;
}

static void run_fused(void *user, dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in,
                      dt_tensor **out, int n_out)
{
    (void)n_in;
    (void)n_out;
    m->type->fusion->forward(t, m, in[0], user, out);
}

/* Fused ops only support a residual of the output's shape, so others are refused here. */
static dt_status check_residual(dt_tape *t, const dt_link *link, const dt_tensor *y)
{
    if (dt__same_dims(y, link->residual)) return DT_OK;
    char is[160], wants[160];
    dt_describe(link->residual, is, sizeof is);
    dt_describe(y, wants, sizeof wants);
    return dt_tape_fail(t, DT_ERR_SHAPE, "module %s (%s): the residual is %s, its output %s",
                        link->m->path, link->m->type->name, is, wants);
}

dt_tensor *dt__forward_links(dt_tape *t, const dt_link *link, int64_t n, dt_tensor *x,
                             int64_t *taken)
{
    dt_epilogue e;
    dt_tensor *y = NULL;
    *taken = plan_epilogue(t, link, n, &e);
    if (*taken > 0) {
        run(t, &(dt__module_call){ link->m, &x, 1, &y, 1, { run_fused, &e, false } });
        return y;
    }
    *taken = 1;
    y = dt_forward(t, link->m, x);
    if (y == NULL || link->residual == NULL) return y;
    if (check_residual(t, link, y) != DT_OK) return NULL;
    return dt__then(t, y, dt_add(t, y, link->residual));
}

dt_tensor *dt_forward_chain(dt_tape *t, const dt_link *link, int64_t n, dt_tensor *x)
{
    if (t == NULL || t->status != DT_OK) return NULL;
    if (link == NULL || n < 1) {
        dt_tape_fail(t, DT_ERR_ARG, "forward_chain: expected at least one module");
        return NULL;
    }
    dt_tensor *y = x;
    for (int64_t i = 0, taken; i < n; i += taken) {
        dt_tensor *from = y;
        y = dt__forward_links(t, link + i, n - i, from, &taken);
        if (from != x) dt__drop_step(t, from, y);
    }
    return y;
}

/* ---- several modules on one input ----------------------------------------------------------- */

/* The modules that one op computes. Their scopes are nested; `open` of them are open. */
typedef struct joint {
    dt_module *const *m;
    int n, open;
    dt_tensor *x;
    dt_tensor *in[DT_MAX_OUT]; /* per open module: the input after its hooks */
} joint;

/* The body of module number `open`: opens the next one, or computes all of them in the last
 * scope. */
static void run_joint(void *user, dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in,
                      dt_tensor **out, int n_out)
{
    joint *s = user;
    (void)n_in;
    s->in[s->open++] = in[0];
    if (s->open == s->n) m->type->fusion->joint(t, s->m, s->n, s->in, out);
    else run(t, &(dt__module_call){ s->m[s->open], &s->x, 1, out, n_out, { run_joint, s, false } });
}

static bool can_join(const dt_tape *t, dt_module *const *m, int n)
{
    if (!t->no_grad || t->watching) return false;
    for (int i = 0; i < n; i++) {
        if (!may_fuse(t, m[i]) || m[i]->type != m[0]->type) return false;
    }
    return m[0]->type->fusion->joint != NULL;
}

dt_status dt_forward_each(dt_tape *t, dt_module *const *m, int n, dt_tensor *x, dt_tensor **y)
{
    if (t == NULL) return DT_ERR_ARG;
    if (t->status == DT_OK && (n < 1 || n > DT_MAX_OUT)) {
        return dt_tape_fail(t, DT_ERR_ARG, "forward_each: %d modules; 1...%d can be", n,
                            DT_MAX_OUT);
    }
    if (t->status == DT_OK && (m == NULL || y == NULL)) {
        return dt_tape_fail(t, DT_ERR_ARG, "forward_each: the modules or the outputs are NULL");
    }
    for (int i = 0; i < n && y != NULL; i++) y[i] = NULL;
    if (t->status != DT_OK) return t->status;
    if (can_join(t, m, n)) {
        joint s = { .m = m, .n = n, .x = x };
        return run(t, &(dt__module_call){ m[0], &x, 1, y, n, { run_joint, &s, false } });
    }
    for (int i = 0; i < n; i++) y[i] = dt_forward(t, m[i], x);
    for (int i = 0; i < n && t->status != DT_OK; i++) y[i] = NULL;
    return t->status;
}
