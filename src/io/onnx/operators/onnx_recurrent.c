/* Recurrent nodes: RNN, GRU and LSTM over [time, batch, width], which the layers rnn, gru and lstm
 * read as [batch, time, width]. They order the gates differently:
 *     GRU   z r h   in the file, r z n in the layer      LSTM   i o f c,   i f g o */
#include "core/block_list.h"
#include "io/onnx/onnx.h"

#include <ctype.h>
#include <string.h>

#define MOST_GATES 4
#define MOST_HIDDEN ((int64_t)1 << 16)

typedef struct cell {
    const char *kind;
    int gates, states;
    int from[MOST_GATES];       /* the file's gate that is the layer's gate i */
    const char *activations[3]; /* default for each gate */
} cell;

static const cell rnn = { "rnn", 1, 1, { 0 }, { "tanh" } };
static const cell gru = { "gru", 3, 1, { 1, 0, 2 }, { "sigmoid", "tanh" } };
static const cell lstm = { "lstm", 4, 2, { 0, 2, 3, 1 }, { "sigmoid", "tanh", "tanh" } };

typedef struct network {
    const cell *cell;
    int64_t hidden, width, directions;
    bool batch_first; /* `layout` 1 */
    bool reverse;     /* the only direction is backwards */
    bool relu;        /* an rnn with relu in place of tanh */
    bool late;        /* gru with linear_before_reset 0: the last gate's product is separate */
    bool cell_read;   /* result Y_c is used */
} network;

/* ---- what is read ---------------------------------------------------------------------------- */

/* Whether a string equals a name, ignoring case: programs write both. */
static bool is_name(const ProtobufCBinaryData *text, const char *name)
{
    if (name == NULL || text->len != strlen(name)) return false;
    for (size_t k = 0; k < text->len; k++) {
        if (tolower(text->data[k]) != name[k]) return false;
    }
    return true;
}

/* Whether the activations are the default ones, or relu in each direction of an rnn. */
static bool read_activations(const dt__onnx *g, network *n)
{
    const DtOnnx__Attribute *a = dt__onnx_attribute_of(g->node, "activations");
    size_t each = 0;
    while (each < 3 && n->cell->activations[each] != NULL) each++;
    if (a == NULL) return true;
    if (a->n_strings != each * (size_t)n->directions) return false;
    n->relu = n->cell == &rnn && is_name(&a->strings[0], "relu");
    for (size_t i = 0; i < a->n_strings; i++) {
        const char *name = n->relu ? "relu" : n->cell->activations[i % each];
        if (!is_name(&a->strings[i], name)) return false;
    }
    return true;
}

static dt_status read_attributes(dt__onnx *g, network *n)
{
    const dt__onnx_value *c = dt__onnx_out(g, 2);
    n->hidden = dt__onnx_int_of(g->node, "hidden_size", 0);
    if (n->hidden == 0 && dt__onnx_in(g, 2)->rank == 3) n->hidden = dt__onnx_in(g, 2)->dims[2];
    n->directions = dt__onnx_says(g, "direction", "bidirectional", "forward") ? 2 : 1;
    n->reverse = dt__onnx_says(g, "direction", "reverse", "forward");
    n->batch_first = dt__onnx_int_of(g->node, "layout", 0) == 1;
    n->late = n->cell == &gru && dt__onnx_int_of(g->node, "linear_before_reset", 0) == 0;
    n->cell_read = c != NULL && c->uses > 0;
    if (n->hidden < 1 || n->hidden > MOST_HIDDEN) {
        return dt__onnx_refuse(g, "its hidden_size is %lld; expected 1 to %lld",
                               (long long)n->hidden, (long long)MOST_HIDDEN);
    }
    if (read_activations(g, n)) return DT_OK;
    return dt__onnx_refuse(g, "its activations must be %s",
                           n->cell == &rnn ? "Tanh or Relu" : "Sigmoid and Tanh");
}

/* Whether a constant is all zeros. */
static bool is_zero(const dt__onnx_value *v)
{
    bool zero = v->kind == DT__ONNX_CONSTANT && v->count > 0;
    for (int64_t k = 0; zero && k < v->count; k++) zero = dt__onnx_number_at(v, k).value == 0;
    return zero;
}

/* All sequences must have all steps, and cells no peepholes. */
static dt_status check_inputs(dt__onnx *g, int64_t steps)
{
    const dt__onnx_value *lengths = dt__onnx_in(g, 4), *peepholes = dt__onnx_in(g, 7);
    if (lengths != NULL && lengths->kind != DT__ONNX_CONSTANT) {
        return dt__onnx_refuse(g, "its sequence_lens are computed; expected none");
    }
    for (int64_t k = 0; lengths != NULL && k < lengths->count; k++) {
        const dt__onnx_number n = dt__onnx_number_at(lengths, k);
        if (n.value == (double)steps && !n.batch) continue;
        return dt__onnx_refuse(g, "its sequence_lens must be all %lld steps", (long long)steps);
    }
    if (peepholes == NULL || is_zero(peepholes)) return DT_OK;
    return dt__onnx_refuse(g, "it has peepholes; expected none, or zeros");
}

static dt_status check_weights(dt__onnx *g, const network *n)
{
    const int64_t rows = n->cell->gates * n->hidden;
    const int64_t wanted[2][3] = { { n->directions, rows, n->width },
                                   { n->directions, rows, n->hidden } };
    for (int i = 0; i < 2; i++) {
        const dt__onnx_value *v = dt__onnx_in(g, 1 + i);
        if (v->kind != DT__ONNX_CONSTANT || v->rank != 3 ||
            memcmp(v->dims, wanted[i], sizeof wanted[i]) != 0) {
            return dt__onnx_refuse(g, "its weight %d must be a constant of [%lld,%lld,%lld]", i,
                                   (long long)wanted[i][0], (long long)wanted[i][1],
                                   (long long)wanted[i][2]);
        }
    }
    const dt__onnx_value *b = dt__onnx_in(g, 3);
    if (b == NULL || (b->kind == DT__ONNX_CONSTANT && b->count == n->directions * 2 * rows)) {
        return DT_OK;
    }
    return dt__onnx_refuse(g, "its B must be a constant of [%lld,%lld]", (long long)n->directions,
                           (long long)(2 * rows));
}

/* ---- the layer ------------------------------------------------------------------------------- */

/* Adds gates from ... to - 1 of a weight or bias of `width` columns, whose first gate begins at
 * `first`. */
static dt_status weigh(dt__onnx *g, dt__onnx_layer *l, const network *n, const float *first,
                       const int64_t part[3], const char *path)
{
    const int64_t from = part[0], to = part[1], block = n->hidden * part[2];
    float *data = dt__onnx_memory(g, (to - from) * block, sizeof *data);
    if (data == NULL) return DT_ERR_NOMEM;
    for (int64_t i = from; i < to; i++) {
        memcpy(data + (i - from) * block, first + n->cell->from[i] * block,
               (size_t)block * sizeof *data);
    }
    return dt__onnx_weigh_floats(g, l, path, data, (to - from) * block);
}

/* Adds the weights for x, for h, and the separate one of the last gate. */
static dt_status weigh_all(dt__onnx *g, dt__onnx_layer *l, const network *n)
{
    static const char *const names[3] = { "ih", "hh", "hn" };
    const int64_t gates = n->cell->gates, rows = gates * n->hidden;
    const dt__onnx_value *bias = dt__onnx_in(g, 3);
    const float *w[2], *b = NULL;
    DT__TRY(dt__onnx_floats_of(g, dt__onnx_in(g, 1), "W", &w[0]));
    DT__TRY(dt__onnx_floats_of(g, dt__onnx_in(g, 2), "R", &w[1]));
    if (bias != NULL) DT__TRY(dt__onnx_floats_of(g, bias, "B", &b));
    for (int64_t at = 0; at < n->directions * (n->late ? 3 : 2); at++) {
        const int64_t d = at % n->directions, i = at / n->directions, of_h = i > 0;
        const int64_t width = of_h ? n->hidden : n->width;
        const int64_t part[3] = { i == 2 ? 2 : 0, i == 1 && n->late ? 2 : gates, width };
        const char *path = dt__block_list_text(g->ctx, g->arena, "layers.0.%s%s.weight", names[i],
                                               d ? "_reverse" : "");
        if (path == NULL) return DT_ERR_NOMEM;
        DT__TRY(weigh(g, l, n, w[of_h] + d * rows * width, part, path));
        path = dt__block_list_text(g->ctx, g->arena, "layers.0.%s%s.bias", names[i],
                                   d ? "_reverse" : "");
        if (path == NULL) return DT_ERR_NOMEM;
        if (b == NULL) continue;
        const int64_t column[3] = { part[0], part[1], 1 };
        DT__TRY(weigh(g, l, n, b + (2 * d + of_h) * rows, column, path));
    }
    return dt__onnx_hint(g, l, dt__onnx_in(g, 1)->initializer, false);
}

/* Input i, an initial state [directions, batch, hidden] (with layout 1 [batch, directions,
 * hidden]), as a layer. A constant state is the same for each example. */
static dt_status first_state(dt__onnx *g, const network *n, int i, dt__onnx_layer *x,
                             dt__onnx_layer **out)
{
    dt__onnx_value v = *dt__onnx_in(g, i);
    const int batch = n->batch_first ? 0 : 1;
    const int order[] = { batch, 1 - batch, 2 };
    if (v.kind == DT__ONNX_CONSTANT) {
        dt__onnx_value turned;
        if (v.rank != 3)
            return dt__onnx_refuse(g, "its first state has %d dimensions; expected 3", v.rank);
        DT__TRY(dt__onnx_transposed(g, &v, order, &turned));
        return dt__onnx_given(g, x, &turned, out);
    }
    if (v.rank != 3 || v.axis[batch] != 0) {
        return dt__onnx_refuse(g, "its first state must have the batch as dimension %d", batch);
    }
    return dt__onnx_permuted(g, dt__onnx_maker(g, &v),
                             (const int[]){ 0, v.axis[1 - batch], v.axis[2] }, out);
}

/* Gives the layer its initial states; none if they are absent or zeros. */
static dt_status read_states(dt__onnx *g, const network *n, dt__onnx_layer *x, dt__onnx_layer *l)
{
    bool given[2] = { false };
    dt__onnx_layer *state[2];
    const dt__onnx_value *like = NULL;
    for (int i = 0; i < n->cell->states; i++) {
        const dt__onnx_value *v = dt__onnx_in(g, 5 + i);
        given[i] = v != NULL && !is_zero(v);
        if (given[i]) like = v;
    }
    if (like == NULL) return DT_OK;
    for (int i = 0; i < n->cell->states; i++) {
        if (dt__onnx_in(g, 5 + i) == NULL)
            return dt__onnx_refuse(g, "it has one of two first states; expected both, or none");
        DT__TRY(first_state(g, n, 5 + i, x, &state[i]));
    }
    for (int i = 0; i < n->cell->states; i++) dt__onnx_read_from(l, state[i]);
    return DT_OK;
}

static dt_status add_layer(dt__onnx *g, const network *n, dt__onnx_layer *x, dt__onnx_layer **out)
{
    DT__TRY(dt__onnx_new(g, n->cell->kind, out));
    dt_recurrent_layer *o = &((dt_recurrent_item *)(*out)->options)->network;
    o->hidden = n->hidden;
    o->bias = dt__onnx_in(g, 3) != NULL;
    o->bidirectional = n->directions == 2;
    o->reverse = n->reverse;
    o->relu = n->relu;
    o->reset_before = n->late;
    o->cell = n->cell_read;
    DT__TRY(weigh_all(g, *out, n));
    dt__onnx_read_from(*out, x);
    DT__TRY(read_states(g, n, x, *out));
    return dt__onnx_add(g, *out);
}

/* ---- results --------------------------------------------------------------------------------- */

/* Makes result i the result of l; its dimension k is the layer's dimension axis[k]. */
static void arrange(dt__onnx *g, int i, const dt__onnx_layer *l, const int *axis)
{
    dt__onnx_result(g, i, l);
    dt__onnx_value *out = dt__onnx_out(g, i);
    if (axis == NULL) return;
    memcpy(out->axis, axis, (size_t)out->rank * sizeof *axis);
    out->plain = -1;
}

/* Result i is the state [directions, batch, hidden] at one step of each direction. */
static dt_status states_at(dt__onnx *g, const network *n, int i, dt__onnx_layer *all,
                           const int64_t step[2])
{
    static const int axis[] = { 1, 0, 2 };
    dt__onnx_layer *l = NULL, *part[2];
    for (int64_t d = 0; d < n->directions; d++) {
        const int64_t time[3] = { step[d], step[d] + 1, 1 };
        const int64_t columns[3] = { d * n->hidden, (d + 1) * n->hidden, 1 };
        DT__TRY(dt__onnx_sliced(g, all, 1, time, &part[d]));
        DT__TRY(dt__onnx_sliced(g, part[d], 2, columns, &part[d]));
        l = part[d];
    }
    if (n->directions == 2) {
        DT__TRY(dt__onnx_new(g, "concat", &l));
        ((dt_concat_layer *)l->options)->dim = 1;
        dt__onnx_read_from(l, part[0]);
        DT__TRY(dt__onnx_add_on(g, l, part[1]));
    }
    arrange(g, i, l, n->batch_first ? NULL : axis);
    return DT_OK;
}

static dt_status all_states(dt__onnx *g, const network *n, dt__onnx_layer *l)
{
    static const int axis[] = { 1, 2, 0, 3 };
    const dt_shape shape = { 3, { l->shape.dims[0], n->directions, n->hidden } };
    DT__TRY(dt__onnx_reshaped(g, l, &shape, &l));
    arrange(g, 0, l, n->batch_first ? NULL : axis);
    return DT_OK;
}

/* Makes the used results from l, whose output has c behind all h if it is used. */
static dt_status results(dt__onnx *g, const network *n, dt__onnx_layer *l, int64_t steps)
{
    const int64_t behind[2] = { steps, steps }, end = n->reverse ? 0 : steps - 1;
    if (n->cell_read) DT__TRY(states_at(g, n, 2, l, behind));
    DT__TRY(dt__onnx_sliced(g, l, 1, (const int64_t[]){ 0, steps, 1 }, &l));
    if (dt__onnx_out(g, 0) != NULL) DT__TRY(all_states(g, n, l));
    if (dt__onnx_out(g, 1) == NULL) return DT_OK;
    return states_at(g, n, 1, l, (const int64_t[]){ end, 0 });
}

static dt_status recurrent(dt__onnx *g, const cell *kind)
{
    network n = { .cell = kind };
    dt__onnx_value x = *dt__onnx_in(g, 0);
    dt__onnx_layer *from, *l;
    DT__TRY(read_attributes(g, &n));
    const int batch = n.batch_first ? 0 : 1;
    if (x.kind != DT__ONNX_COMPUTED || x.rank != 3 || x.axis[batch] != 0 ||
        dt__onnx_is_merged(&x)) {
        return dt__onnx_refuse(g, "its input must have the batch as dimension %d", batch);
    }
    const int order[] = { 0, x.axis[1 - batch], x.axis[2] };
    DT__TRY(dt__onnx_permuted(g, dt__onnx_maker(g, &x), order, &from));
    const int64_t steps = from->shape.dims[0];
    n.width = from->shape.dims[1];
    DT__TRY(check_inputs(g, steps));
    DT__TRY(check_weights(g, &n));
    DT__TRY(add_layer(g, &n, from, &l));
    return results(g, &n, l, steps);
}

dt_status dt__onnx_rnn(dt__onnx *g) { return recurrent(g, &rnn); }
dt_status dt__onnx_gru(dt__onnx *g) { return recurrent(g, &gru); }
dt_status dt__onnx_lstm(dt__onnx *g) { return recurrent(g, &lstm); }
