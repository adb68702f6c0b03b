/* The loss of a language model without its logits: what the head takes, the head's hooks and weight, and the
 * cross entropy of a few rows of logits at a time; in training what the model adds to it besides.
 *     loss = dt_linear_cross_entropy(hidden(ids), head.weight, head.bias, labels) + extra */
#include "autograd/op.h"
#include "nn/experts.h"

dt_token_loss_options dt_token_loss_defaults(void)
{
    return (dt_token_loss_options){ .head = dt_linear_cross_entropy_defaults() };
}

/* ---- a model that has run up to its head ------------------------------------------------------- */

typedef struct span {
    dt_module *entered[2]; /* the model and its head: their scopes are open */
    const char *before[2];
    int n;
    dt_tensor *x, *weight, *bias; /* what the head multiplies, behind its hooks; x is [B, T, C] */
    dt_tensor *extra;             /* loss; NULL: none */
} span;

static void enter(dt_tape *t, span *s, dt_module *m)
{
    if (t->status != DT_OK || dt__module_enter(t, m, &s->before[s->n]) != DT_OK) return;
    s->entered[s->n++] = m;
}

static void open(dt_tape *t, span *s, dt_module *m, dt_tensor *ids)
{
    const dt_language *language = m->type->language;
    dt_module *head = language->head(m);
    enter(t, s, m);
    dt_tensor *in = dt__run_hooks(t, m, DT_SITE_INPUT, ids);
    dt_tensor *x = language->hidden(t, m, in, m->training ? &s->extra : NULL);
    enter(t, s, head);
    s->x = dt__run_hooks(t, head, DT_SITE_INPUT, x);
    s->weight = dt_module_weight(t, head);
    s->bias = dt__module_bias(t, head);
}

static void close(dt_tape *t, span *s, dt_tensor **out, int n)
{
    while (s->n > 0) {
        s->n--;
        dt__module_leave(t, s->entered[s->n], s->before[s->n], out, n);
    }
}

static void open_teacher(dt_tape *t, span *s, dt_module *m, dt_tensor *ids)
{
    if (m == NULL) return;
    const bool before = dt_no_grad(t, true);
    if (m->training) dt_train(m, false);
    open(t, s, m, ids);
    dt_no_grad(t, before);
}

/* ---- the loss ---------------------------------------------------------------------------------- */

static dt_status check(dt_tape *t, const dt_module *m, const dt_module *teacher,
                       const dt_tensor *ids, const dt_tensor *labels)
{
    if (m == NULL || ids == NULL || labels == NULL) {
        return dt_tape_fail(t, DT_ERR_ARG, "token_loss: a model, ids and labels are wanted");
    }
    if (m->type->language == NULL || (teacher != NULL && teacher->type->language == NULL)) {
        return dt_tape_fail(t, DT_ERR_ARG, "token_loss: the %s is a %s, no language model",
                            m->type->language == NULL ? "model" : "teacher",
                            m->type->language == NULL ? m->type->name : teacher->type->name);
    }
    if (dt__same_dims(ids, labels)) return DT_OK;
    char a[160], b[160];
    dt_describe(ids, a, sizeof a);
    dt_describe(labels, b, sizeof b);
    return dt_tape_fail(t, DT_ERR_SHAPE,
                        "token_loss: ids are %s and labels %s; one shape is wanted", a, b);
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

/* The model's own loss is a mean: beside a sum over labels it stands once for each of them. */
static dt_tensor *add_extra(dt_tape *t, dt_tensor *loss, dt_tensor *extra, dt_tensor *labels,
                            const dt_token_loss_options *o)
{
    if (t->status != DT_OK || extra == NULL) return loss;
    if (o->head.reduction == DT_REDUCE_SUM) {
        extra = dt__times(t, extra, (double)count_labels(labels, o->head.ignore_index));
    }
    return dt_add(t, loss, extra);
}

/* [loss, row_loss, row_best]; the latter as far as `rows` is given. */
static void compute(dt_tape *t, const span s[2], dt_tensor *labels, const dt_token_loss_options *o,
                    dt_tensor **out, bool rows)
{
    const dt_head_operands in = { .x = s[0].x,
                                  .weight = s[0].weight,
                                  .bias = s[0].bias,
                                  .labels = labels,
                                  .teacher_x = s[1].x,
                                  .teacher_weight = s[1].weight,
                                  .teacher_bias = s[1].bias };
    out[0] =
        dt_linear_cross_entropy(t, &in, &o->head, rows ? &out[1] : NULL, rows ? &out[2] : NULL);
    out[0] = add_extra(t, out[0], s[0].extra, labels, o);
}

dt_tensor *dt_token_loss(dt_tape *t, dt_module *m, dt_tensor *ids, dt_tensor *labels,
                         const dt_token_loss_options *options, dt_token_rows *rows)
{
    const dt_token_loss_options o = options == NULL ? dt_token_loss_defaults() : *options;
    span s[2] = { 0 }; /* the model's and the teacher's, within which the model runs */
    dt_tensor *out[3] = { NULL };
    if (rows != NULL) *rows = (dt_token_rows){ NULL, NULL };
    if (t->status != DT_OK || check(t, m, o.teacher, ids, labels) != DT_OK) return NULL;
    open_teacher(t, &s[1], o.teacher, ids);
    open(t, &s[0], m, ids);
    if (t->status == DT_OK) compute(t, s, labels, &o, out, rows != NULL);
    close(t, &s[0], out, 3);
    close(t, &s[1], out, 3);
    if (rows != NULL) *rows = (dt_token_rows){ out[1], out[2] };
    return out[0];
}
