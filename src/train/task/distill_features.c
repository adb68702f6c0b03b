/* train.distill.features: outputs of named layers are trained towards those of the teacher.
 *
 *     sum over layers of the mean of (y - z)^2 over all elements of a batch
 *
 * y is the layer's output in the model, z in the teacher.   [Romero et al. 2015, FitNets, equation
 * 3, without a regressor: layers of one shape]
 *
 * The tape reports each module that has run. The output of a layer is that of the last module that
 * runs inside of it, or its own: for a block of convolution, norm and activation it is the
 * activation's. Compared outputs are kept until the end of the pass. */
#include "core/tensor.h"
#include "nn/module.h"
#include "train/task/task.h"

#include <detent/ops.h>

enum { OWN, TAUGHT };

typedef struct watch {
    const dt__pass *p;
    dt_module *m[2][DT_MAX_LIST];
    dt_tensor *y[2][DT_MAX_LIST];
    bool whole[2][DT_MAX_LIST]; /* the layer itself was reported */
} watch;

static bool is_inside(const dt_module *m, const dt_module *layer)
{
    while (m != NULL && m != layer) m = m->parent;
    return m != NULL;
}

static void take(void *user, const dt__module_call *call)
{
    watch *w = user;
    for (int i = 0; i < w->p->distill->features.n; i++) {
        for (int k = OWN; k <= TAUGHT; k++) {
            if (!is_inside(call->m, w->m[k][i])) continue;
            if (w->whole[k][i]) {
                dt_tape_fail(w->p->t, DT_ERR_UNSUPPORTED,
                             "train.distill.features: %s runs more than once in a pass: it has no "
                             "single output",
                             w->m[k][i]->path);
            }
            w->whole[k][i] = call->m == w->m[k][i];
            w->y[k][i] = call->out[0];
            call->out[0]->scope = 0;
        }
    }
}

/* The error of layer i; NULL with the error on the tape. */
static dt_tensor *error_of(const watch *w, int i)
{
    dt_tape *t = w->p->t;
    dt_tensor *y = w->y[OWN][i], *z = w->y[TAUGHT][i];
    const char *name = w->p->distill->features.v[i];
    if (dt_tape_status(t) != DT_OK) return NULL;
    if (y == NULL || z == NULL) {
        dt_tape_fail(t, DT_ERR_UNSUPPORTED,
                     "train.distill.features: %s does not run by itself in the %s", name,
                     y == NULL ? "model" : "teacher");
        return NULL;
    }
    if (dt__same_dims(y, z)) return dt_mse(t, y, z, DT_REDUCE_MEAN);
    char a[160], b[160];
    dt_tape_fail(
        t, DT_ERR_SHAPE, "train.distill.features: the output of %s is %s, in the teacher %s", name,
        dt__dims_text(y->rank, y->dims, a, sizeof a), dt__dims_text(z->rank, z->dims, b, sizeof b));
    return NULL;
}

dt_tensor *dt__loss_with_features(const dt__task *task, const dt__pass *p)
{
    dt_tape *t = p->t;
    watch w = { .p = p };
    const dt_strings *names = &p->distill->features;
    for (int i = 0; i < names->n; i++) {
        w.m[OWN][i] = dt_module_at(p->m, names->v[i]);
        w.m[TAUGHT][i] = dt_module_at(p->teacher, names->v[i]);
    }
    t->on_forward = take;
    t->on_forward_user = &w;
    dt_tensor *sum = task->loss(p), *errors = NULL;
    t->on_forward = NULL;
    t->on_forward_user = NULL;
    for (int i = 0; i < names->n; i++) {
        dt_tensor *e = error_of(&w, i);
        errors = errors == NULL ? e : dt_add(t, errors, e);
    }
    return dt_add(t, sum, dt_mul(t, errors, p->part[DT__PART_FEATURES]));
}
