/* The loss of a language model, without its logits: the model runs up to its head. In the head's
 * scope a fused op computes product and cross entropy, a few rows of logits at a time.
 *     loss = dt_linear_cross_entropy(hidden(ids), head.weight, head.bias, labels) + extra
 * `extra` is the auxiliary loss that the model adds in training. */
#include "autograd/op.h"
#include "nn/layers/scalar.h"

dt_token_loss_options dt_token_loss_defaults(void)
{
    return (dt_token_loss_options){ .head = dt_linear_cross_entropy_defaults() };
}

static dt_status check(dt_tape *t, const dt_module *m, const dt_module *teacher,
                       const dt_tensor *ids, const dt_tensor *labels)
{
    if (m == NULL || ids == NULL || labels == NULL) {
        return dt_tape_fail(t, DT_ERR_ARG, "token_loss: expected a model, ids and labels");
    }
    if (m->type->language == NULL || (teacher != NULL && teacher->type->language == NULL)) {
        return dt_tape_fail(t, DT_ERR_ARG, "token_loss: the %s is a %s, not a language model",
                            m->type->language == NULL ? "model" : "teacher",
                            m->type->language == NULL ? m->type->name : teacher->type->name);
    }
    if (dt__same_dims(ids, labels)) return DT_OK;
    char a[160], b[160];
    dt_describe(ids, a, sizeof a);
    dt_describe(labels, b, sizeof b);
    return dt_tape_fail(t, DT_ERR_SHAPE, "token_loss: ids are %s and labels %s; expected one shape",
                        a, b);
}

static int64_t count_labels(const dt_tensor *labels, int64_t ignore)
{
    int64_t n = 0;
    for (int64_t k = 0; k < labels->count; k++) {
        const int64_t at = dt__offset_of(k, labels->rank, labels->dims, labels->strides);
        n += dt__index_at(labels, at) != ignore;
    }
    return n;
}

/* Adds the auxiliary loss. It is a mean, so if the loss is a sum over labels it is multiplied by
 * their number. */
static dt_tensor *add_extra(dt_tape *t, dt_tensor *loss, dt_tensor *extra, dt_tensor *labels,
                            const dt_token_loss_options *o)
{
    if (t->status != DT_OK || extra == NULL) return loss;
    if (o->head.reduction == DT_REDUCE_SUM) {
        extra = dt__times(t, extra, (double)count_labels(labels, o->head.ignore_index));
    }
    return dt_add(t, loss, extra);
}

/* The operands of a head. */
typedef struct operands {
    dt_tensor *x, *weight, *bias; /* x is [B, T, C]; bias NULL: none */
    dt_tensor *extra;             /* auxiliary loss of the model; NULL: none */
} operands;

typedef struct work {
    dt_module *m, *teacher; /* teacher NULL: none */
    dt_tensor *ids, *labels;
    const dt_token_loss_options *o;
    bool rows;    /* results per token are requested */
    bool no_grad; /* the tape's setting before the teacher ran */
    operands of_m, of_teacher;
} work;

static operands operands_of(dt_tape *t, dt_module *head, dt_tensor *x, dt_tensor *extra)
{
    return (operands){ x, dt_module_weight(t, head), dt__module_bias(t, head), extra };
}

/* In the scope of the model's head: out = [loss, row_loss, row_best], the last two if w->rows. */
static void compute(void *user, dt_tape *t, dt_module *head, dt_tensor *const *in, int n_in,
                    dt_tensor **out, int n_out)
{
    work *w = user;
    const operands *teacher = &w->of_teacher;
    (void)n_in;
    (void)n_out;
    w->of_m = operands_of(t, head, in[0], w->of_m.extra);
    const dt_head_operands all = { .x = w->of_m.x,
                                   .weight = w->of_m.weight,
                                   .bias = w->of_m.bias,
                                   .labels = w->labels,
                                   .teacher_x = teacher->x,
                                   .teacher_weight = teacher->weight,
                                   .teacher_bias = teacher->bias };
    if (t->status != DT_OK) return;
    out[0] = dt_linear_cross_entropy(t, &all, &w->o->head, w->rows ? &out[1] : NULL,
                                     w->rows ? &out[2] : NULL);
    out[0] = add_extra(t, out[0], w->of_m.extra, w->labels, w->o);
}

static void run_model(void *user, dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in,
                      dt_tensor **out, int n_out)
{
    work *w = user;
    const dt_language *language = m->type->language;
    (void)n_in;
    dt_tensor *x = language->hidden(t, m, in[0], m->training ? &w->of_m.extra : NULL);
    dt__forward_call(
        t, &(dt__module_call){ language->head(m), &x, 1, out, n_out, { compute, w, true } });
}

/* In the scope of the teacher's head: runs the model there, since the head's operands are dropped
 * when that scope ends. */
static void then_model(void *user, dt_tape *t, dt_module *head, dt_tensor *const *in, int n_in,
                       dt_tensor **out, int n_out)
{
    work *w = user;
    (void)n_in;
    w->of_teacher = operands_of(t, head, in[0], NULL);
    dt_no_grad(t, w->no_grad);
    dt__forward_call(t, &(dt__module_call){ w->m, &w->ids, 1, out, n_out, { run_model, w, true } });
}

static void run_teacher(void *user, dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in,
                        dt_tensor **out, int n_out)
{
    const dt_language *language = m->type->language;
    (void)n_in;
    dt_tensor *x = language->hidden(t, m, in[0], NULL);
    const dt__body body = { then_model, user, true };
    dt__forward_call(t, &(dt__module_call){ language->head(m), &x, 1, out, n_out, body });
}

/* The teacher runs in evaluation mode and records nothing. */
static void run_both(dt_tape *t, work *w, dt_tensor *out[3])
{
    if (w->teacher->training) dt_train(w->teacher, false);
    w->no_grad = dt_no_grad(t, true);
    dt__forward_call(
        t, &(dt__module_call){ w->teacher, &w->ids, 1, out, 3, { run_teacher, w, true } });
    dt_no_grad(t, w->no_grad);
}

dt_tensor *dt_token_loss(dt_tape *t, dt_module *m, dt_tensor *ids, dt_tensor *labels,
                         const dt_token_loss_options *options, dt_token_rows *rows)
{
    if (t == NULL) return NULL;
    const dt_token_loss_options o = options == NULL ? dt_token_loss_defaults() : *options;
    work w = { m, o.teacher, ids, labels, &o, .rows = rows != NULL };
    dt_tensor *out[3] = { NULL };
    if (rows != NULL) *rows = (dt_token_rows){ NULL, NULL };
    if (t->status != DT_OK || check(t, m, o.teacher, ids, labels) != DT_OK) return NULL;
    if (w.teacher != NULL) run_both(t, &w, out);
    else dt__forward_call(t, &(dt__module_call){ m, &ids, 1, out, 3, { run_model, &w, true } });
    if (rows != NULL) *rows = (dt_token_rows){ out[1], out[2] };
    return out[0];
}
