#include "ptq/rotate/rotate_rows.h"

#include "autograd/tape.h"
#include "core/tensor.h"

#include <math.h>
#include <string.h>

#define MOST_ROWS ((int64_t)4096)

typedef struct collecting {
    dt_tape *t;
    dt__rows *rows;
    int64_t batches, blocks;
} collecting;

/* The rows that the input of module m belongs to, and how many modules read these; NULL: none. */
static dt__rows *rows_of(const collecting *c, const dt_module *m, int64_t *readers)
{
    static const char *const norms[] = { "input_layernorm", "post_attention_layernorm", "norm" };
    if (m->name == NULL) return NULL;
    *readers = 1;
    if (strcmp(m->name, "o_proj") == 0) return &c->rows[1 + m->parent->parent->place];
    *readers = 2 * c->blocks + 1;
    for (int i = 0; i < DT__COUNT_OF(norms); i++) {
        if (strcmp(m->name, norms[i]) == 0) return &c->rows[0];
    }
    return NULL;
}

static void take_row(dt_tape *t, const dt_module *m, dt__rows *to, const float *x)
{
    double sum = 0, *row = to->x + to->used * to->n;
    for (int64_t i = 0; i < to->n; i++) sum += (double)x[i] * (double)x[i];
    if (!isfinite(sum)) {
        dt_tape_fail(t, DT_ERR_NUMERIC, "rotate: %s: an input is not finite", m->path);
        return;
    }
    if (sum == 0) return;
    const double scale = sqrt((double)to->n / sum);
    for (int64_t i = 0; i < to->n; i++) row[i] = scale * (double)x[i];
    to->used++;
}

static void watch(void *user, const dt__module_call *call)
{
    const collecting *c = user;
    int64_t readers;
    dt__rows *to = rows_of(c, call->m, &readers);
    dt_tensor *x = to == NULL ? NULL : dt_contiguous(c->t, call->in[0]);
    const float *values = x == NULL ? NULL : dt_data(x);
    if (values == NULL) return;
    const int64_t n = x->count / to->n;
    if (to->every == 0) {
        to->every = dt__ceil_div(dt__times_i64(dt__times_i64(n, c->batches), readers), MOST_ROWS);
    }
    for (int64_t i = 0; i < n && to->used < MOST_ROWS; i++) {
        if (to->seen++ % to->every == 0) take_row(c->t, call->m, to, values + i * to->n);
    }
    dt__drop_step(c->t, x, call->in[0]);
}

/* Runs all batches. dt_token_loss never holds all logits at once. */
static dt_status run(const collecting *c, dt_module *m, const dt_calibration *data)
{
    dt_no_grad(c->t, true);
    for (int64_t i = 0; i < data->batches; i++) {
        dt_tensor *x = NULL;
        dt_tape_reset(c->t);
        DT__TRY(data->batch(data->user, i, &x));
        dt_token_loss(c->t, m, x, x, NULL, NULL);
        DT__TRY(dt_tape_status(c->t));
    }
    return DT_OK;
}

dt_status dt__rotate_collect(dt_module *m, const dt_calibration *data, int64_t blocks,
                             int64_t width, int64_t head_width, dt__rows *rows)
{
    collecting c = { .rows = rows, .batches = data->batches, .blocks = blocks };
    for (int64_t i = 0; i <= blocks; i++) {
        rows[i] = (dt__rows){ .n = i == 0 ? width : head_width };
        rows[i].x = dt__alloc_array(m->ctx, MOST_ROWS * rows[i].n, sizeof *rows[i].x);
        if (rows[i].x == NULL) return DT_ERR_NOMEM;
    }
    DT__TRY(dt_tape_create(m->ctx, &c.t));
    c.t->on_forward = watch;
    c.t->on_forward_user = &c;
    dt_train(m, false);
    const dt_status s = run(&c, m, data);
    dt_tape_free(c.t);
    return s;
}
