/* The table of a model's layers: a model of the same family, without weights, runs on a tape whose
 * ops only make results' shapes, and each call of a module is recorded. */
#include "autograd/tape.h"
#include "core/tensor.h"
#include "nn/families/family.h"
#include "nn/lists/graph.h"
#include "train/run/run.h"

#include <string.h>

typedef struct table {
    dt_module *m; /* the described model */
    bool as_packed;
    dt_layer_row *row; /* in the order of first calls; paths are lent by the twin */
    int64_t n, room;
    dt_status status;
} table;

/* Number of parameters of a module of the model, without adapters and ranges. */
static int64_t parameters_of(const dt_module *twin)
{
    int64_t n = 0;
    for (int64_t i = 0; i < twin->n_entries; i++) {
        if (twin->entries[i].kind == DT_PARAM) n += twin->entries[i].x->count;
    }
    return n;
}

/* The row of a module; a new one has no output yet. NULL: NOMEM. */
static dt_layer_row *row_of(table *t, const dt_module *m)
{
    for (int64_t i = 0; i < t->n; i++) {
        if (t->row[i].path == m->path) return &t->row[i];
    }
    t->status = DT__RESERVE(t->m->ctx, t->row, t->n, t->room);
    if (t->status != DT_OK) return NULL;
    t->row[t->n] = (dt_layer_row){
        .path = m->path,
        .type = m->type->name,
        .parameters = parameters_of(m),
        .bytes = dt__bytes_below(t->m, m->path, t->as_packed),
    };
    return &t->row[t->n++];
}

/* A module that is called several times (a recurrent one) has one row, of its latest result. */
static void add_call(void *user, const dt__module_call *c)
{
    table *t = user;
    const dt_tensor *y = c->out[0];
    if (c->m->n_children > 0 || y == NULL || t->status != DT_OK) return;
    dt_layer_row *row = row_of(t, c->m);
    if (row == NULL) return;
    for (int i = 0; i < c->n_in; i++) {
        row->multiply_adds += dt__module_products(c->m, c->in[i]);
    }
    row->output.rank = y->rank > 0 ? y->rank - 1 : 0;
    memcpy(row->output.dims, y->dims + 1, (size_t)row->output.rank * sizeof row->output.dims[0]);
}

/* One example of the model's input. */
static dt_status make_input(dt_ctx *ctx, const dt_example *e, dt_tensor **out)
{
    int64_t dims[DT_MAX_RANK] = { 1, e->dims[1] };
    if (e->rank == 0) return dt_tensor_create(ctx, DT_I32, 2, dims, out);
    for (int i = 0; i < e->rank; i++) dims[1 + i] = e->dims[i];
    return dt__tensor_create_shape(ctx, DT_F32, 1 + e->rank, dims, out);
}

static dt_status make_inputs(dt_module *twin, const dt_family *family, const void *options,
                             dt_tensor **x, int *n)
{
    const dt_shape *shapes = NULL;
    dt_example in, out;
    *n = dt__graph_inputs(twin, &shapes);
    for (int i = 0; i < *n; i++) {
        in = (dt_example){ .rank = shapes[i].rank };
        memcpy(in.dims, shapes[i].dims, sizeof in.dims);
        DT__TRY(make_input(twin->ctx, &in, &x[i]));
    }
    if (*n > 0) return DT_OK;
    *n = 1;
    DT__TRY(family->shapes(twin->ctx, options, &in, &out));
    return make_input(twin->ctx, &in, &x[0]);
}

static dt_status run_twin(table *t, dt_module *twin, dt_tensor *const *x, int n_in)
{
    dt_tape *tape;
    dt_tensor *y[DT_MAX_OUT];
    DT__TRY(dt_tape_create(twin->ctx, &tape));
    tape->no_grad = tape->shapes_only = true;
    tape->on_forward = add_call;
    tape->on_forward_user = t;
    dt_train(twin, false);
    const dt_status s = dt_forward_n(tape, twin, x, n_in, y, dt__module_outputs(twin));
    dt_tape_free(tape);
    return s == DT_OK ? t->status : s;
}

dt_status dt_model_layers(dt_module *m, const dt_family *family, const void *options,
                          bool as_packed, dt_layer_visit visit, void *user)
{
    DT__NEED(dt_module_ctx(m), m);
    dt_ctx *ctx = m->ctx;
    table t = { .m = m, .as_packed = as_packed };
    dt_module *twin;
    dt_tensor *x[DT_MAX_IN] = { NULL };
    int n = 0;
    if (family == NULL || family->shapes == NULL) {
        return dt_fail(ctx, DT_ERR_ARG, "layers: the shapes of this family are not known");
    }
    DT__TRY(dt__family_twin(ctx, family, options, &twin));
    dt_status s = make_inputs(twin, family, options, x, &n);
    if (s == DT_OK) s = run_twin(&t, twin, x, n);
    for (int64_t i = 0; i < t.n && s == DT_OK; i++) visit(user, &t.row[i]);
    dt__release(ctx, t.row);
    for (int i = 0; i < n; i++) dt_tensor_free(x[i]);
    dt_module_free(twin);
    return s;
}
