/* The next layer of dt_ptq and the statistics of its inputs. Ranks run batches in turn, rank k
 * batches k, k + ranks, ...; each then gets the inputs of all, adds them in the order of batches,
 * and sums its own tiles of their products. */
#include "ptq/ptq_work.h"
#include "ptq/routes.h"
#include "ptq/target.h"
#include "qat/convert.h"

#include <stdio.h>

typedef dt__ptq_work work;

/* Prefixes the context's latest error with `about`. */
static dt_status say_layer(const work *w, dt_status s, const char *about)
{
    char text[DT__MESSAGE_SIZE];
    if (s == DT_OK || s == DT_ERR_NOMEM) return s;
    snprintf(text, sizeof text, "%s", dt_error(w->ctx));
    return dt_fail(w->ctx, s, "ptq: %s: %s", about, text);
}

bool dt__is_ptq_layer(void *user, const dt_module *m)
{
    dt_weight_op op;
    (void)user;
    return dt__layer_quant(m) != NULL && dt__weight_op_of(m, &op);
}

dt_status dt__ptq_fetch(const work *w, int64_t i, dt_tensor **x)
{
    *x = NULL;
    DT__TRY(w->data->batch(w->data->user, i, x));
    if (*x != NULL) return DT_OK;
    return dt_fail(w->ctx, DT_ERR_ARG, "ptq: there is no batch %lld", (long long)i);
}

enum { NO_BATCH = -2, ENDED = -1 };

/* The number of a module in visiting order, which is the same on all ranks. */
static int64_t number_of(const work *w, const dt_module *m)
{
    int64_t n = 0;
    DT__EACH_MODULE(each, w->m) {
        if (each == m) return n;
        n++;
    }
    return ENDED;
}

static dt_module *module_of(const work *w, int64_t number)
{
    DT__EACH_MODULE(each, w->m) {
        if (number-- == 0) return each;
    }
    return NULL;
}

/* Sets w->float_layer to the float model's layer at the same path. */
static dt_status find_float_layer(work *w)
{
    dt_weight_op op, other;
    const char *path = dt__path_within(w->m, w->layer->path);
    if (w->reference == NULL) return DT_OK;
    w->float_layer = dt_module_at(w->reference, path);
    if (w->float_layer != NULL && dt__weight_op_of(w->layer, &op) &&
        dt__weight_op_of(w->float_layer, &other) && op.kind == other.kind &&
        dt__same_dims(dt__entry_find(w->layer, "weight")->x,
                      dt__entry_find(w->float_layer, "weight")->x)) {
        return DT_OK;
    }
    return dt_fail(w->ctx, DT_ERR_ARG, "ptq: the float model has no layer like %s", path);
}

static dt_status begin_layer(work *w, dt_module *layer)
{
    dt_weight_op op;
    const dt_tensor *x = dt__entry_find(layer, "weight")->x;
    w->layer = layer;
    DT__TRY(find_float_layer(w));
    dt__weight_op_of(layer, &op);
    const bool differ = w->reference != NULL;
    if (w->options->correct_bias) DT__TRY(dt__means_create(w->ctx, layer, differ, &w->means));
    if (!dt__needs_data(w->method)) return DT_OK;
    const bool both = differ && w->method->rounder->needs_float;
    DT__TRY(say_layer(w, dt_statistics_create(w->ctx, &op, x->rank, x->dims, both, &w->statistics),
                      layer->path));
    w->statistics->cluster = w->cluster;
    return DT_OK;
}

/* The inputs of a layer's calls in a batch: INPUTS for each call, then those of the float model. */
typedef struct reached {
    dt_tensor *x; /* the batch */
    dt__calib_stop quantized, plain;
    dt__tensor_list given;
} reached;

enum { INPUTS = 2 };

static bool is_module(void *user, const dt_module *m) { return m == user; }

/* Reports the work of a pass: one batch of each rank through the layer that was rounded last. */
static void tell_pass(const work *w)
{
    const double all = w->passed * (double)dt__cluster_ranks(w->cluster);
    if (w->passed > 0) dt__did_work(w->ctx, DT__FORWARD, all);
    else dt__pass_work(w->ctx);
}

/* Runs the batch through the float model up to the layer. */
static dt_status run_float(work *w, int64_t i, reached *of)
{
    const dt__calib_target target = { is_module, w->float_layer };
    DT__TRY(say_layer(
        w, dt__calib_run(&w->batch[i].cache[DT__FLOAT], w->tape, of->x, &target, &of->plain),
        "the float model"));
    tell_pass(w);
    if (of->plain.at == NULL) {
        return dt_fail(w->ctx, DT_ERR_STATE, "ptq: batch %lld does not reach %s in the float model",
                       (long long)i, w->layer->path);
    }
    if (of->plain.n_calls == of->quantized.n_calls) return DT_OK;
    return dt_fail(w->ctx, DT_ERR_STATE, "ptq: %s: %lld calls, of the float model %lld",
                   w->layer->path, (long long)of->quantized.n_calls, (long long)of->plain.n_calls);
}

static dt_status list_inputs(const work *w, reached *of)
{
    const int64_t n = of->quantized.n_calls + of->plain.n_calls;
    of->given.x = dt__alloc_array(w->ctx, INPUTS * n, sizeof *of->given.x);
    if (of->given.x == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < INPUTS * n; i++) {
        const int64_t k = i / INPUTS, own = of->quantized.n_calls;
        const dt__calib_inputs *call = k < own ? &of->quantized.call[k] : &of->plain.call[k - own];
        of->given.x[i] = call->input[i % INPUTS];
    }
    of->given.n = INPUTS * n;
    return DT_OK;
}

/* Adds the inputs of a grouped weight. */
static dt_status add_routed(const work *w, dt_tensor *const *quantized, dt_tensor *const *plain)
{
    const dt__routed_input in[] = { { quantized[0], quantized[1] }, { plain[0], plain[1] } };
    const dt_routes routes = { .index = quantized[1] };
    dt_tensor *x = NULL;
    if (in[0].index == NULL) {
        return dt_fail(w->ctx, DT_ERR_STATE, "a grouped layer without an index of experts");
    }
    if (w->statistics->differ) DT__TRY(dt__pair_rows(w->ctx, &in[0], &in[1], &x));
    const dt_status s = dt_statistics_add_routed(w->statistics, in[0].x, x, &routes);
    dt_tensor_free(x);
    return s;
}

/* Adds the inputs of all calls in a batch. */
static dt_status add_inputs(const work *w, const dt__tensor_list *of)
{
    dt_tensor *const none[INPUTS] = { NULL };
    const int64_t models = w->float_layer != NULL ? 2 : 1, n = of->n / (INPUTS * models);
    dt_weight_op op;
    dt__weight_op_of(w->layer, &op);
    for (int64_t i = 0; i < n; i++) {
        dt_tensor *const *q = of->x + INPUTS * i;
        dt_tensor *const *x = w->float_layer != NULL ? of->x + INPUTS * (n + i) : none;
        if (w->means != NULL) DT__TRY(dt__means_add(w->means, q[0], x[0]));
        if (w->statistics == NULL) continue;
        dt_tensor *const other = w->statistics->differ ? x[0] : NULL;
        DT__TRY(op.kind == DT_WEIGHT_GROUPED_LINEAR
                    ? add_routed(w, q, x)
                    : dt_statistics_add(w->statistics, q[0], other));
    }
    return DT_OK;
}

/* One batch of each rank, from batch `first` on. The arrays have an element for each rank. */
typedef struct round_of {
    int64_t first, own; /* number of this rank's batch */
    int64_t *number;    /* the module that each rank's batch reached */
    dt__tensor_list *all;
} round_of;

static bool runs(const work *w, int64_t i) { return i < w->data->batches && !w->batch[i].ended; }

/* Runs this rank's batch to its next layer, and gathers which layers all batches reached. */
static dt_status reach(work *w, round_of *r, reached *of)
{
    const dt__calib_target next = { dt__is_ptq_layer, NULL };
    const bool mine = runs(w, r->own);
    dt_status s = mine ? dt__ptq_fetch(w, r->own, &of->x) : DT_OK;
    if (s == DT_OK && mine) {
        dt__calib_cache *cache = &w->batch[r->own].cache[DT__QUANTIZED];
        s = dt__calib_run(cache, w->tape, of->x, &next, &of->quantized);
        tell_pass(w);
    }
    DT__TRY(dt__cluster_meet(w->cluster, DT__MEETING, s));
    const int64_t number = mine ? number_of(w, of->quantized.at) : NO_BATCH;
    return dt__cluster_gather(w->cluster, "layers that batches have reached", &number,
                              sizeof number, r->number);
}

/* Makes the first layer that a batch reached w->layer. Batches that reached another one (the
 * model's control flow may depend on values) stay there until it is its turn. */
static dt_status take_numbers(work *w, const round_of *r)
{
    for (int k = 0; k < dt__cluster_ranks(w->cluster); k++) {
        if (r->number[k] == ENDED) w->batch[r->first + k].ended = true;
        if (r->number[k] < 0 || w->layer != NULL) continue;
        DT__TRY(begin_layer(w, module_of(w, r->number[k])));
    }
    return DT_OK;
}

/* Adds the inputs of all ranks' batches to the statistics. */
static dt_status add_all(work *w, round_of *r, reached *of)
{
    dt_status s = take_numbers(w, r);
    const bool is_there = s == DT_OK && of->quantized.at != NULL && of->quantized.at == w->layer;
    if (is_there && w->float_layer != NULL) s = run_float(w, r->own, of);
    if (is_there && s == DT_OK) s = list_inputs(w, of);
    const dt__tensor_post post = { "a layer's inputs", -1, s, of->given };
    s = dt__cluster_tensors(w->cluster, &post, r->all);
    for (int k = 0; k < dt__cluster_ranks(w->cluster) && s == DT_OK; k++) {
        if (r->all[k].n > 0) s = say_layer(w, add_inputs(w, &r->all[k]), w->layer->path);
    }
    dt__tensor_lists_free(w->cluster, r->all);
    return s;
}

static dt_status advance(work *w, round_of *r)
{
    reached of = { .x = NULL };
    dt_status s = reach(w, r, &of);
    if (s == DT_OK) s = dt__cluster_meet(w->cluster, DT__MEETING, add_all(w, r, &of));
    dt__calib_stop_free(w->ctx, &of.quantized);
    dt__calib_stop_free(w->ctx, &of.plain);
    dt__release(w->ctx, of.given.x);
    return s;
}

dt_status dt__ptq_find_inputs(work *w)
{
    const int ranks = dt__cluster_ranks(w->cluster), rank = dt__cluster_rank(w->cluster);
    round_of r = { .number = dt__alloc_array(w->ctx, ranks, sizeof *r.number) };
    r.all = dt__alloc_zero(w->ctx, (size_t)ranks * sizeof *r.all);
    dt_status s = r.number == NULL || r.all == NULL ? DT_ERR_NOMEM : DT_OK;
    w->layer = w->float_layer = NULL;
    for (; r.first < w->data->batches && s == DT_OK; r.first += ranks) {
        bool some = false;
        for (int k = 0; k < ranks; k++) some |= runs(w, r.first + k);
        r.own = r.first + rank;
        if (some) s = advance(w, &r);
    }
    if (s == DT_OK && w->statistics != NULL && w->cluster != NULL) {
        s = w->cluster->hooks->join_statistics(w->statistics);
    }
    DT__RELEASE(w->ctx, r.number, r.all);
    return s;
}
