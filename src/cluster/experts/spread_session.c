/* Rounds of messages while models with spread experts run. In a round each rank
 *     1. sends each other rank a request: rows of a call, forward or backward, or nothing
 *     2. sends the rows that are routed to the other's experts
 *     3. computes the results for the rows of all ranks, each rank's by themselves: so a result has
 *        the bits that it would have on the rank of its shard
 *     4. sends the results
 * Ranks may be at different calls, layers and batches, and a rank without a pass requests nothing:
 * only rounds need to be in order. A session ends with the round in which no rank requests
 * anything. */
#include "cluster/experts/spreading.h"

#include "autograd/op.h"
#include "autograd/tape.h"

#include <string.h>

enum { X, WEIGHT, BIAS, OFFSETS, INDEX };

dt__spreading *dt__spreading_of(const dt_ctx *ctx)
{
    return ctx->spread == NULL ? NULL : ctx->spread->user;
}

/* ---- messages -------------------------------------------------------------------------------- */

typedef enum part_of_round { HEADS, ROWS, ANSWERS } part_of_round;

typedef struct sending {
    dt__spreading *s;
    part_of_round part;
} sending;

static dt__message message(void *data, size_t bytes)
{
    return (dt__message){ .data = bytes == 0 ? NULL : data, .bytes = bytes };
}

static void pieces(void *user, int k, dt__message *send, dt__message *receive)
{
    const sending *p = user;
    dt__spreading *s = p->s;
    switch (p->part) {
    case HEADS:
        *send = message(&s->send[k], sizeof s->send[k]);
        *receive = message(&s->receive[k], sizeof s->receive[k]);
        return;
    case ROWS:
        *send = message(s->out[k].data, s->out[k].bytes);
        *receive = message(s->in[k].data, s->in[k].bytes);
        return;
    case ANSWERS:
        *send = message(s->answer[k].data, s->answer[k].bytes);
        *receive = message(s->answered[k].data, s->answered[k].bytes);
    }
}

static bool run_exchange(dt__cluster *c, void *user)
{
    static const char *const what[] = { "what ranks ask of experts", "rows for experts",
                                        "results of experts" };
    const sending *p = user;
    const dt__exchange x = { what[p->part], false, pieces, user };
    return dt__cluster_exchange(c, &x);
}

static dt_status exchange(dt__spreading *s, part_of_round part)
{
    sending p = { s, part };
    dt__cluster_job job = { .run = run_exchange, .user = &p };
    dt__cluster_post(s->cluster, &job);
    return dt__cluster_wait(s->cluster, &job);
}

/* ---- a round --------------------------------------------------------------------------------- */

/* Allocates the blocks of rows and of results. */
static dt_status make_room(dt__spreading *s)
{
    for (int k = 0; k < s->ranks; k++) {
        const dt__rows_head *in = &s->receive[k], *out = &s->send[k];
        const bool comes = in->asks != DT__ASKS_NOTHING, goes = out->asks != DT__ASKS_NOTHING;
        const dt__spread_layer *of_in = &s->layers[in->layer], *of_out = &s->layers[out->layer];
        const uint64_t rows = comes && k != s->rank ? dt__rows_bytes(in, of_in) : 0;
        const uint64_t answer = comes ? dt__rows_answer_bytes(in, of_in) : 0;
        const uint64_t answered = goes && k != s->rank ? dt__rows_answer_bytes(out, of_out) : 0;
        DT__TRY(dt__rows_reserve(s->ctx, &s->in[k], rows));
        DT__TRY(dt__rows_reserve(s->ctx, &s->answer[k], answer));
        DT__TRY(dt__rows_reserve(s->ctx, &s->answered[k], answered));
        if (!goes) s->out[k].bytes = 0;
    }
    return DT_OK;
}

/* Whether no rank requests anything. */
static bool is_quiet(const dt__spreading *s)
{
    int k = 0;
    while (k < s->ranks && s->receive[k].asks == DT__ASKS_NOTHING) k++;
    return k == s->ranks;
}

static dt_status exchange_heads(dt__spreading *s)
{
    s->receive[s->rank] = s->send[s->rank];
    DT__TRY(exchange(s, HEADS));
    for (int k = 0; k < s->ranks; k++) {
        const dt__rows_head *h = &s->receive[k];
        if (k == s->rank || h->asks == DT__ASKS_NOTHING) continue;
        if (h->asks == DT__ASKS_THE_END) {
            return dt_fail(s->ctx, DT_ERR_STATE, "rank %d has failed: this rank ends", k);
        }
        if (h->layer >= 0 && h->layer < s->n_layers && h->rows >= 0) continue;
        return dt_fail(s->ctx, DT_ERR_STATE, "rank %d requests layer %d of %lld with experts", k,
                       (int)h->layer, (long long)s->n_layers);
    }
    return DT_OK;
}

/* Ends the session for an error of this rank that the others cannot see. */
static void say_the_end(dt__spreading *s)
{
    memset(s->send, 0, (size_t)s->ranks * sizeof *s->send);
    for (int k = 0; k < s->ranks; k++) s->send[k].asks = DT__ASKS_THE_END;
    exchange_heads(s);
}

/* Delivers the gradients that backward of this rank's own calls has added meanwhile. */
static dt_status take_own(dt__spreading *s)
{
    for (int64_t i = 0; i < s->n_tensors && s->on_gradient != NULL; i++) {
        dt_tensor *x = s->tensor[i];
        if (x->grad != NULL) DT__TRY(s->on_gradient(s->on_gradient_user, s->rank, i, &x->grad));
    }
    return DT_OK;
}

static dt_status run_round(dt__spreading *s, const dt__asked *a)
{
    const dt_status took = take_own(s);
    if (s->status == DT_OK) s->status = took;
    const dt_status asked = dt__rows_ask(s, a);
    if (asked != DT_OK) {
        say_the_end(s);
        return asked;
    }
    DT__TRY(exchange_heads(s));
    if (is_quiet(s)) return DT_OK;
    DT__TRY(make_room(s));
    DT__TRY(exchange(s, ROWS));
    for (int k = 0; k < s->ranks; k++) {
        const dt_status served = dt__rows_serve(s, k, a);
        if (s->status == DT_OK) s->status = served;
    }
    DT__TRY(exchange(s, ANSWERS));
    return a == NULL ? DT_OK : dt__rows_take(s, a);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static dt__asked asked_of(const dt_call *c)
{
    const dt_tensor *w = c->in[WEIGHT], *index = c->arg[INDEX];
    dt__asked a = { .c = c,
                    .index = c->arg[INDEX],
                    .x = c->arg[X],
                    .codes = c->codes[X],
                    .assignments = index->count,
                    .per_row = 1,
                    .in = w->dims[2],
                    .out = w->dims[1] };
    if (index->rank == 2 && index->dims[0] == dt__rows(c->arg[X])) a.per_row = index->dims[1];
    return a;
}

static void forget(dt_tensor *x)
{
    if (x != NULL) memset(dt__values_mut(x), 0, (size_t)x->count * sizeof(float));
}

/* After an error the ranks are no longer in step: results are 0, and the session ends with the
 * error. */
static bool ask(dt__spreading *s, const dt__asked *a)
{
    if (!s->open && s->lost == DT_OK) {
        s->lost =
            dt_fail(s->ctx, DT_ERR_STATE, "experts of other ranks are used outside of a session");
    }
    if (s->lost == DT_OK) s->lost = run_round(s, a);
    return s->lost == DT_OK;
}

static void forward(void *user, const dt_call *c)
{
    const dt__asked a = asked_of(c);
    if (!ask(user, &a)) forget(c->y);
}

static void backward(void *user, const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    dt__asked a = asked_of(c);
    a.dy = dy;
    a.dx = dx;
    if (ask(user, &a)) return;
    forget(dx[X]);
    forget(dx[WEIGHT]);
    forget(dx[BIAS]);
}

/* ---- sessions -------------------------------------------------------------------------------- */

static dt_status add_tensor(dt__spreading *s, dt_tensor *x, const dt_module *layer)
{
    const dt__entry *weight = dt__entry_find(layer, "weight"),
                    *bias = dt__entry_find(layer, "bias");
    if (!dt__is_spread(x)) return DT_OK;
    if (s->n_layers == 0 || s->layers[s->n_layers - 1].weight != weight->x) {
        DT__TRY(DT__RESERVE(s->ctx, s->layers, s->n_layers, s->room_layers));
        s->layers[s->n_layers++] = (dt__spread_layer){ .weight = weight->x,
                                                       .bias = bias == NULL ? NULL : bias->x,
                                                       .first = s->n_tensors };
    }
    DT__TRY(DT__RESERVE(s->ctx, s->tensor, s->n_tensors, s->room_tensors));
    s->tensor[s->n_tensors++] = x;
    s->layers[s->n_layers - 1].past = s->n_tensors;
    return DT_OK;
}

static void free_slots(dt__spreading *s)
{
    for (int64_t i = 0; s->slot != NULL && i < s->ranks * s->n_tensors; i++) {
        dt_tensor_free(s->slot[i]);
    }
    dt__release(s->ctx, s->slot);
    s->slot = NULL;
}

static dt_status begin(void *user, dt_module *m)
{
    dt__spreading *s = user;
    dt_tensor *x[4];
    free_slots(s);
    s->n_layers = s->n_tensors = 0;
    s->status = s->lost = DT_OK;
    s->on_gradient = NULL;
    DT__EACH_MODULE(layer, m) {
        const int n = dt__spread_tensors(layer, x);
        for (int i = 0; i < n; i++) DT__TRY(add_tensor(s, x[i], layer));
    }
    if (s->n_layers == 0) return DT_OK;
    s->slot = dt__alloc_zero(s->ctx, (size_t)(s->ranks * s->n_tensors) * sizeof *s->slot);
    if (s->slot == NULL) return DT_ERR_NOMEM;
    s->open = true;
    return DT_OK;
}

static dt_status end(void *user, dt_status status)
{
    dt__spreading *s = user;
    if (!s->open) return status;
    const bool fails = status != DT_OK && status != DT_ERR_NUMERIC;
    if (fails && s->lost == DT_OK) say_the_end(s);
    for (bool quiet = fails; !quiet && s->lost == DT_OK;) {
        s->lost = run_round(s, NULL);
        quiet = is_quiet(s);
    }
    s->open = false;
    if (s->lost != DT_OK && !fails) return s->lost;
    return status == DT_OK ? s->status : status;
}

/* ---- making and freeing ---------------------------------------------------------------------- */

static dt_status fetch(void *user, const dt_tensor *x, const int64_t part[2], void *to)
{
    const dt__spreading *s = user;
    return s->fetching.fetch(s->fetching.user, x, part, to);
}

static dt_status make(dt__spreading *s)
{
    const size_t ranks = (size_t)s->ranks;
    dt__rows_room **const rooms[] = { &s->out, &s->in, &s->answer, &s->answered };
    for (int i = 0; i < DT__COUNT_OF(rooms); i++) {
        *rooms[i] = dt__alloc_zero(s->ctx, ranks * sizeof **rooms[i]);
        if (*rooms[i] == NULL) return DT_ERR_NOMEM;
    }
    s->send = dt__alloc_zero(s->ctx, ranks * sizeof *s->send);
    s->receive = dt__alloc_zero(s->ctx, ranks * sizeof *s->receive);
    s->cursor = dt__alloc_zero(s->ctx, ranks * sizeof *s->cursor);
    if (s->send == NULL || s->receive == NULL || s->cursor == NULL) return DT_ERR_NOMEM;
    return dt_tape_create(s->ctx, &s->tape);
}

static void free_rooms(dt__spreading *s, dt__rows_room *r)
{
    for (int k = 0; r != NULL && k < s->ranks; k++) dt__release(s->ctx, r[k].data);
    dt__release(s->ctx, r);
}

static void close_spreading(void *user)
{
    dt__spreading *s = user;
    free_slots(s);
    free_rooms(s, s->out);
    free_rooms(s, s->in);
    free_rooms(s, s->answer);
    free_rooms(s, s->answered);
    void *const lists[] = { s->layers, s->tensor, s->send, s->receive, s->cursor };
    for (int i = 0; i < DT__COUNT_OF(lists); i++) dt__release(s->ctx, lists[i]);
    dt_tape_free(s->tape);
    s->ctx->spread = NULL;
    dt__release(s->ctx, s);
}

dt_status dt__spreading_open(dt_ctx *ctx, dt__cluster *c, const dt__fetching *fetching)
{
    dt__spreading *s = dt__alloc_zero(ctx, sizeof *s);
    if (s == NULL) return DT_ERR_NOMEM;
    s->ctx = ctx;
    s->cluster = c;
    s->fetching = *fetching;
    s->rank = c->rank;
    s->ranks = c->ranks;
    s->link = (dt__spread){ .forward = forward,
                            .backward = backward,
                            .fetch = fetch,
                            .experts_of = dt__spread_experts,
                            .begin = begin,
                            .end = end,
                            .is_cut = dt__spread_is_cut,
                            .cut = dt__spread_cut_model,
                            .join = dt__spread_join_model,
                            .close = close_spreading,
                            .user = s,
                            .rank = c->rank,
                            .ranks = c->ranks };
    ctx->spread = &s->link;
    return make(s);
}
