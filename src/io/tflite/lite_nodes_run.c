/* Runs operators of TFLite that equal operators of ONNX, as the nodes to which import translates
 * them. */
#include "core/block_list.h"
#include "io/onnx/interpret/interpret.h"
#include "io/tflite/lite_nodes.h"

#include <string.h>

typedef struct run {
    dt__vlite_call *c;
    dt__onnx_file file; /* the nodes, and memory for the run */
    dt__verify *graph;
    dt__verify_named *in;
    int64_t n_in;
} run;

/* Makes a tensor an input; floats and int32 are lent. */
static dt_status give(run *r, int tensor, const dt__vlite_tensor *t)
{
    dt_ctx *ctx = r->file.ctx;
    dt__verify_named *to = &r->in[r->n_in++];
    to->name = dt__block_list_text(ctx, &r->file.blocks, DT__LITE_INPUT, tensor);
    if (to->name == NULL) return DT_ERR_NOMEM;
    to->value = (dt__verify_value){ .type = (dt__verify_type)dt__lite_onnx_type(t),
                                    .rank = t->rank,
                                    .count = t->count,
                                    .data = t->f != NULL ? (void *)t->f : (void *)t->q };
    memcpy(to->value.dims, t->dims, sizeof t->dims);
    if (t->f != NULL || t->type == DT__VLITE_I32) return DT_OK;
    to->value.data = dt__block_list_array(ctx, &r->file.blocks, t->count, 1);
    if (to->value.data == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < t->count; i++) ((uint8_t *)to->value.data)[i] = (uint8_t)t->q[i];
    return DT_OK;
}

static dt_status give_all(run *r)
{
    const dt__vlite_call *c = r->c;
    r->in = dt__block_list_array(r->file.ctx, &r->file.blocks, c->n_in, sizeof *r->in);
    if (r->in == NULL) return DT_ERR_NOMEM;
    for (int i = 0; i < c->n_in; i++) {
        if (c->in[i] != NULL && !c->in[i]->constant) DT__TRY(give(r, c->op->in[i], c->in[i]));
    }
    return DT_OK;
}

static dt_status take(run *r, int k)
{
    const dt__verify_value *from = dt__verify_output(r->graph, k);
    dt__vlite_tensor *y = r->c->y = dt__vlite_result(r->c, k);
    if ((int)from->type != dt__lite_onnx_type(y)) {
        return dt__vlite_refuse(r->c, "its result is declared as %s, and is %s",
                                dt__vlite_type_text(y->type), dt__verify_type_name(from->type));
    }
    DT__TRY(dt__vlite_wants(r->c, from->rank, from->dims));
    for (int64_t i = 0; i < y->count && y->f == NULL; i++) {
        y->q[i] = (int32_t)dt__verify_whole_at(from, i);
    }
    if (y->f != NULL && y->count > 0) memcpy(y->f, from->data, (size_t)y->count * sizeof *y->f);
    return DT_OK;
}

static dt_status run_nodes(run *r)
{
    dt__vlite *v = r->c->v;
    const dt__vlite_op *o = r->c->op;
    const dt_status made = dt__lite_translate_op(v, o, &r->file);
    if (made == DT_ERR_NOMEM) return made;
    if (made != DT_OK) return dt__vlite_refuse(r->c, "%s", dt_error(v->ctx));
    const char *path =
        dt__block_list_text(v->ctx, &r->file.blocks, "%s: operator %lld (%s)", v->path,
                            (long long)o->place, dt__vlite_operator_of(o->code)->name);
    if (path == NULL) return DT_ERR_NOMEM;
    const dt__verify_limits limits = { .bytes = v->most.bytes - v->used + 1,
                                       .work = v->most.work - v->work + 1,
                                       .lite = true };
    DT__TRY(dt__verify_open_graph(v->ctx, path, r->file.model->graph, &limits, &r->graph));
    DT__TRY(give_all(r));
    DT__TRY(dt__verify_run(r->graph, r->in, r->n_in));
    DT__TRY(dt__vlite_work(r->c, dt__verify_worked(r->graph)));
    for (int k = 0; k < o->n_out; k++) DT__TRY(take(r, k));
    return DT_OK;
}

dt_status dt__vlite_nodes(dt__vlite_call *c)
{
    run r = { .c = c, .file = { .ctx = c->v->ctx } };
    const dt_status s = run_nodes(&r);
    dt__verify_close(r.graph);
    dt__onnx_close(&r.file);
    return s;
}

static bool has_scale(const dt__vlite_tensor *t) { return t != NULL && t->scales > 0; }

dt_status dt__vlite_form(dt__vlite_call *c)
{
    bool scales = has_scale(c->y);
    for (int i = 0; i < c->n_in; i++) scales = scales || has_scale(c->in[i]);
    return scales ? dt__vlite_refuse(c, "its integers are not known here") : dt__vlite_nodes(c);
}
