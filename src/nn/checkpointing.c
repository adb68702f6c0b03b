/* Activation checkpointing [Chen et al. 2016, sublinear memory]: a module as a checkpointed segment
 * of the tape, which keeps only the module's inputs. */
#include "nn/checkpointing.h"

static void run(void *user, dt_tape *t, dt_tensor *const *in, int n_in, dt_tensor **out, int n_out)
{
    dt__forward_once(t, &(dt__module_call){ user, in, n_in, out, n_out, { NULL, NULL, false } });
}

static void mix(uint64_t *fingerprint, uint64_t value) { *fingerprint = *fingerprint * 31 + value; }

static dt_status mix_tensor(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    (void)path;
    if (kind == DT_PARAM) mix(user, x->storage == NULL ? 0 : x->storage->version);
    return DT_OK;
}

static dt_status mix_module(void *user, const char *path, dt_module *m)
{
    (void)path;
    mix(user, m->last_hook * 2 + m->training);
    return DT_OK;
}

/* A number that changes with the module's parameters, mode and hooks, which must be the same in the
 * second run. Buffers change with every batch and are left out: the segment saves the values that
 * it reads of them. */
static uint64_t fingerprint(void *user)
{
    uint64_t value = dt__module_changes(user);
    dt_module_visit(user, mix_tensor, &value);
    dt_module_visit_modules(user, mix_module, &value);
    return value;
}

void dt__forward_recomputed(dt_tape *t, const dt__module_call *c)
{
    const dt__segment s = { run, fingerprint, c->m, c->n_in, c->n_out };
    dt__run_segment(t, &s, c->in, c->out);
    for (int i = 0; i < c->n_out && t->status != DT_OK; i++) c->out[i] = NULL;
}

typedef struct switching {
    bool on;
    int64_t blocks;
} switching;

static dt_status switch_one(void *user, const char *path, dt_module *m)
{
    switching *s = user;
    (void)path;
    if (!m->type->block) return DT_OK;
    m->recomputed = s->on;
    s->blocks++;
    return DT_OK;
}

int64_t dt_recompute(dt_module *m, bool on)
{
    if (m == NULL) return 0;
    switching s = { .on = on };
    dt_module_visit_modules(m, switch_one, &s);
    return s.blocks;
}
