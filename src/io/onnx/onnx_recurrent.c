/* Recurrent nodes: GRU and LSTM over [time, batch, width], which the layers gru and lstm read as
 * [batch, time, width]. They order the gates differently:
 *     GRU   z r h   in the file, r z n in the layer      LSTM   i o f c,   i f g o */
#include "io/onnx/onnx.h"

#include <ctype.h>
#include <string.h>

#define MOST_GATES 4

typedef struct cell {
    const char *kind;
    int gates;
    int from[MOST_GATES]; /* which of the file's gates is the layer's gate i */
} cell;

static const cell gru = { "gru", 3, { 1, 0, 2 } }, lstm = { "lstm", 4, { 0, 2, 3, 1 } };

typedef struct network {
    const cell *cell;
    int64_t hidden, width, directions;
    bool batch_first; /* `layout` 1 */
} network;

/* ---- what is read ---------------------------------------------------------------------------- */

/* Whether the activations are those that a node without them has. Programs write them in letters of
 * any size. */
static bool has_own_activations(const dt__onnx *g, const network *n)
{
    static const char *const names[] = { "sigmoid", "tanh", "tanh" };
    const DtOnnx__Attribute *a = dt__onnx_attribute(g, "activations");
    const size_t each = n->cell == &gru ? 2 : 3;
    if (a == NULL) return true;
    if (a->n_strings != each * (size_t)n->directions) return false;
    for (size_t i = 0; i < a->n_strings; i++) {
        const char *wanted = names[i % each];
        if (a->strings[i].len != strlen(wanted)) return false;
        for (size_t k = 0; k < a->strings[i].len; k++) {
            if (tolower(a->strings[i].data[k]) != wanted[k]) return false;
        }
    }
    return true;
}

static dt_status check_attributes(dt__onnx *g, network *n)
{
    n->hidden = dt__onnx_int(g, "hidden_size", 0);
    n->directions = dt__onnx_says(g, "direction", "forward", "forward") ? 1 : 2;
    n->batch_first = dt__onnx_int(g, "layout", 0) == 1;
    if (!has_own_activations(g, n)) {
        return dt__onnx_refuse(g, "with activations other than Sigmoid and Tanh in their places");
    }
    if (n->cell == &gru && dt__onnx_int(g, "linear_before_reset", 0) == 0) {
        return dt__onnx_refuse(
            g, "without linear_before_reset, which PyTorch's gru has, and Keras' with "
               "reset_after=True");
    }
    return DT_OK;
}

/* Sequences have one length, and states begin with zeros. */
static dt_status check_states(dt__onnx *g)
{
    if (dt__onnx_in(g, 4) != NULL) return dt__onnx_refuse(g, "with sequence_lens");
    for (int i = 5; i < 7; i++) {
        const dt__onnx_value *v = dt__onnx_in(g, i);
        if (v == NULL) continue;
        if (v->kind != DT__ONNX_CONSTANT) return dt__onnx_refuse(g, "with a computed first state");
        for (int64_t k = 0; k < v->count; k++) {
            if (dt__onnx_number_at(v, k).value == 0) continue;
            return dt__onnx_refuse(g, "with a first state other than zeros");
        }
    }
    if (dt__onnx_in(g, 7) != NULL) return dt__onnx_refuse(g, "with peepholes");
    return DT_OK;
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
            return dt__onnx_refuse(g, "whose weight %d is not a constant of [%lld,%lld,%lld]", i,
                                   (long long)wanted[i][0], (long long)wanted[i][1],
                                   (long long)wanted[i][2]);
        }
    }
    const dt__onnx_value *b = dt__onnx_in(g, 3);
    if (b == NULL || (b->kind == DT__ONNX_CONSTANT && b->count == n->directions * 2 * rows)) {
        return DT_OK;
    }
    return dt__onnx_refuse(g, "whose B is not a constant of [%lld,%lld]", (long long)n->directions,
                           (long long)(2 * rows));
}

/* ---- the layer ------------------------------------------------------------------------------- */

/* Adds a weight or bias of `width` columns, the first gate of which begins at `first`. */
static dt_status weigh(dt__onnx *g, dt__onnx_layer *l, const network *n, const float *first,
                       int64_t width, const char *path)
{
    const int64_t block = n->hidden * width;
    float *to = dt__onnx_memory(g, n->cell->gates * block, sizeof *to);
    if (to == NULL) return DT_ERR_NOMEM;
    for (int i = 0; i < n->cell->gates; i++) {
        memcpy(to + i * block, first + n->cell->from[i] * block, (size_t)block * sizeof *to);
    }
    return dt__onnx_weigh_floats(g, l, path, to, n->cell->gates * block);
}

static dt_status weigh_all(dt__onnx *g, dt__onnx_layer *l, const network *n)
{
    static const char *const paths[2][4] = {
        { "layers.0.ih.weight", "layers.0.hh.weight", "layers.0.ih.bias", "layers.0.hh.bias" },
        { "layers.0.ih_reverse.weight", "layers.0.hh_reverse.weight", "layers.0.ih_reverse.bias",
          "layers.0.hh_reverse.bias" },
    };
    const int64_t rows = n->cell->gates * n->hidden;
    const dt__onnx_value *bias = dt__onnx_in(g, 3);
    const float *w, *r, *b = NULL;
    DT__TRY(dt__onnx_floats_of(g, dt__onnx_in(g, 1), "W", &w));
    DT__TRY(dt__onnx_floats_of(g, dt__onnx_in(g, 2), "R", &r));
    if (bias != NULL) DT__TRY(dt__onnx_floats_of(g, bias, "B", &b));
    for (int64_t d = 0; d < n->directions; d++) {
        DT__TRY(weigh(g, l, n, w + d * rows * n->width, n->width, paths[d][0]));
        DT__TRY(weigh(g, l, n, r + d * rows * n->hidden, n->hidden, paths[d][1]));
        for (int i = 0; i < 2 && b != NULL; i++) {
            DT__TRY(weigh(g, l, n, b + (2 * d + i) * rows, 1, paths[d][2 + i]));
        }
    }
    return dt__onnx_hint(g, l, dt__onnx_in(g, 1)->initializer, false);
}

static dt_status add_layer(dt__onnx *g, const network *n, const dt__onnx_layer *x,
                           dt__onnx_layer **out)
{
    DT__TRY(dt__onnx_new(g, n->cell->kind, out));
    dt_recurrent_layer *o = &((dt_recurrent_item *)(*out)->options)->network;
    o->hidden = n->hidden;
    o->bias = dt__onnx_in(g, 3) != NULL;
    o->bidirectional = n->directions == 2;
    DT__TRY(weigh_all(g, *out, n));
    dt__onnx_read_from(*out, x);
    return dt__onnx_add(g, *out);
}

/* ---- results --------------------------------------------------------------------------------- */

/* Result i is that of l, where dimension k is dimension axis[k] of the layer. */
static void arrange(dt__onnx *g, int i, const dt__onnx_layer *l, const int *axis)
{
    dt__onnx_result(g, i, l);
    dt__onnx_value *out = dt__onnx_out(g, i);
    if (axis == NULL) return;
    memcpy(out->axis, axis, (size_t)out->rank * sizeof *axis);
    out->plain = -1;
}

/* h after the last step of a direction, as [1, hidden]. */
static dt_status last_state(dt__onnx *g, const network *n, dt__onnx_layer *all, int64_t direction,
                            dt__onnx_layer **out)
{
    const int64_t step = direction == 0 ? all->shape.dims[0] - 1 : 0;
    const int64_t time[3] = { step, step + 1, 1 };
    const int64_t columns[3] = { direction * n->hidden, (direction + 1) * n->hidden, 1 };
    DT__TRY(dt__onnx_sliced(g, all, 1, time, out));
    return dt__onnx_sliced(g, *out, 2, columns, out);
}

static dt_status last_states(dt__onnx *g, const network *n, dt__onnx_layer *all)
{
    static const int axis[] = { 1, 0, 2 };
    dt__onnx_layer *l, *second, *both;
    DT__TRY(last_state(g, n, all, 0, &l));
    if (n->directions == 2) {
        DT__TRY(last_state(g, n, all, 1, &second));
        DT__TRY(dt__onnx_new(g, "concat", &both));
        ((dt_concat_layer *)both->options)->dim = 1;
        dt__onnx_read_from(both, l);
        dt__onnx_read_from(both, second);
        DT__TRY(dt__onnx_add(g, both));
        l = both;
    }
    arrange(g, 1, l, n->batch_first ? NULL : axis);
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

static dt_status recurrent(dt__onnx *g, const cell *kind)
{
    network n = { .cell = kind };
    dt__onnx_value x = *dt__onnx_in(g, 0);
    dt__onnx_layer *from, *l;
    DT__TRY(check_attributes(g, &n));
    DT__TRY(check_states(g));
    const int batch = n.batch_first ? 0 : 1;
    if (x.kind != DT__ONNX_COMPUTED || x.rank != 3 || x.axis[batch] != 0 ||
        dt__onnx_is_merged(&x)) {
        return dt__onnx_refuse(g, "whose input has not the batch as dimension %d", batch);
    }
    const int order[] = { 0, x.axis[1 - batch], x.axis[2] };
    DT__TRY(dt__onnx_permuted(g, dt__onnx_maker(g, &x), order, &from));
    n.width = from->shape.dims[1];
    DT__TRY(check_weights(g, &n));
    DT__TRY(add_layer(g, &n, from, &l));
    const dt__onnx_value *c = dt__onnx_out(g, 2);
    if (c != NULL && c->uses > 0) return dt__onnx_refuse(g, "whose last c is read");
    if (dt__onnx_out(g, 0) != NULL) DT__TRY(all_states(g, &n, l));
    return dt__onnx_out(g, 1) != NULL ? last_states(g, &n, l) : DT_OK;
}

dt_status dt__onnx_gru(dt__onnx *g) { return recurrent(g, &gru); }
dt_status dt__onnx_lstm(dt__onnx *g) { return recurrent(g, &lstm); }
