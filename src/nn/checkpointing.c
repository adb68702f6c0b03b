/* Activation checkpointing [Chen et al. 2016, sublinear memory]: a module as a checkpointed segment
 * of the tape, which keeps only the module's inputs. */
#include "nn/checkpointing.h"

static void run(void *user, dt_tape *t, dt_tensor *const *in, int n_in, dt_tensor **out, int n_out)
{
    dt__forward_once(t, &(dt__module_call){ user, in, n_in, out, n_out, { NULL, NULL, false } });
}

static void mix(uint64_t *fingerprint, uint64_t value) { *fingerprint = *fingerprint * 31 + value; }

/* A number that changes with the module's parameters, mode and hooks, which must be the same in the
 * second run. Buffers change with every batch and do not count: the segment saves the values that
 * it reads from them. */
static uint64_t fingerprint(void *user)
{
    uint64_t value = dt__module_changes(user);
    DT__EACH_ENTRY(m, e, user) {
        if (e->kind == DT_PARAM) mix(&value, e->x->storage == NULL ? 0 : e->x->storage->version);
    }
    DT__EACH_MODULE(m, user) mix(&value, m->last_hook * 2 + m->training);
    return value;
}

void dt__forward_recomputed(dt_tape *t, const dt__module_call *c)
{
    const dt__segment s = { run, fingerprint, c->m, c->n_in, c->n_out };
    dt__run_segment(t, &s, c->in, c->out);
    for (int i = 0; i < c->n_out && t->status != DT_OK; i++) c->out[i] = NULL;
}

int64_t dt_recompute(dt_module *m, bool on)
{
    int64_t blocks = 0;
    DT__EACH_MODULE(each, m) {
        if (!each->type->block) continue;
        each->recomputed = on;
        blocks++;
    }
    return blocks;
}
