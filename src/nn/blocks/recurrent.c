/* Recurrent networks (recurrent.h). A layer multiplies the inputs of all time steps by one call of
 * the linear layer `ih`, then goes through the steps:
 *     gh = hh(h)      state = cell(gi of this step, gh, state)      h = the first rows of state
 * ih and hh are children, so hooks, quantization, adapters and rounders apply to them as to any
 * linear layer; the codes of hh's weight are made once, as for any weight that is read several
 * times.
 *
 * A cell with a late product (kind->late) has a third child `hn` for the last gate: its step
 * multiplies another value than h by hn. hh has the other gates.
 *
 * Within a network time comes first, [T, N, width]: then the rows of a step are adjacent, and no
 * step copies. If no initial state is given, gh of the first step is the bias: multiplying zeros
 * would cost time, and a range that observed them would begin too small. */
#include "nn/blocks/recurrent.h"

#include "nn/blocks/blocks.h"

#include <math.h>
#include <stdio.h>

#define DIRECTIONS 2 /* directions, at most */

/* A layer: a module of its own, whose children are the products of each direction. Inputs: x [T, N,
 * width] and, unless they are zero, the initial state of each direction. Outputs: the final state
 * of each direction and, if needed, h of all steps, [T, N, directions hidden]. */
typedef struct layer {
    const dt__cell_kind *kind;
    int64_t hidden;
    int directions;
    bool reverse; /* the first direction goes backwards in time */
    dt_module *ih[DIRECTIONS], *hh[DIRECTIONS], *hn[DIRECTIONS]; /* hn NULL: no late product */
} layer;

typedef struct network {
    const dt__cell_kind *kind;
    dt_recurrent_layer options;
    int directions;
    bool batch_first;   /* initial states are [N, layers directions, hidden] */
    dt_module *layers;  /* a list */
    dt_module *dropout; /* between layers; NULL: none */
} network;

/* ---- parts of tensors ------------------------------------------------------------------------ */

/* Rows first ... first + n - 1 of x. */
static dt_tensor *rows_of(dt_tape *t, dt_tensor *x, int64_t first, int64_t n)
{
    const dt_slice_options o = { .dims = { 1, { 0 } },
                                 .starts = { 1, { first } },
                                 .stops = { 1, { first + n } } };
    return dt_slice(t, x, &o);
}

/* Part i of a state: 0 is h. */
static dt_tensor *part_of(dt_tape *t, const dt__cell_kind *kind, dt_tensor *state, int i)
{
    if (state == NULL || kind->states == 1) return state;
    const int64_t n = state->dims[0] / kind->states;
    return rows_of(t, state, i * n, n);
}

/* x with its first two dimensions exchanged, contiguous. */
static dt_tensor *exchange(dt_tape *t, dt_tensor *x)
{
    dt_tensor *view = dt_permute(t, x, (const int64_t[]){ 1, 0, 2 });
    return view == NULL ? NULL : dt__then(t, view, dt_reshape(t, view, view->rank, view->dims));
}

static dt_tensor *zeros(dt_tape *t, dt_dtype dtype, int64_t rows, int64_t columns)
{
    dt_tensor *x = NULL;
    if (t->status != DT_OK) return NULL;
    dt_status s = dt_tensor_create(t->ctx, dtype, 2, (const int64_t[]){ rows, columns }, &x);
    if (s == DT_OK) s = dt__tape_lend(t, x);
    return dt__tape_adopt(t, s) == DT_OK ? x : NULL;
}

/* Concatenates n parts along the first dimension, by ops that take DT_MAX_IN each; drops the parts
 * except `keep` (or none if that is NULL). Overwrites `part`. */
static dt_tensor *join(dt_tape *t, dt_tensor **part, int64_t n, const dt_tensor *keep)
{
    while (n > 1 && t->status == DT_OK) {
        int64_t made = 0;
        for (int64_t i = 0; i < n; i += DT_MAX_IN) {
            const int64_t some = dt__min_i64(DT_MAX_IN, n - i);
            dt_tensor *y = some == 1 ? part[i] : dt_concat(t, part + i, (int)some, 0);
            for (int64_t k = i; k < i + some; k++) {
                if (keep != NULL && part[k] != keep) dt__drop_step(t, part[k], y);
            }
            part[made++] = y;
        }
        n = made;
    }
    return t->status == DT_OK ? part[0] : NULL;
}

/* ---- a layer --------------------------------------------------------------------------------- */

/* One direction of a layer over one sequence. */
typedef struct scan {
    dt_tape *t;
    const layer *l;
    int direction;
    int64_t steps, rows; /* T, N */
    dt_tensor *gi;       /* [T N, gates hidden] */
    dt_tensor *initial;  /* NULL: zeros */
    dt_tensor **h;       /* [T], to be filled; NULL: not needed */
} scan;

/* The product of hh, and of hn if there is one, for a state of zeros: the biases. */
static dt_tensor *product_of_zeros(const scan *s)
{
    dt_module *hn = s->l->hn[s->direction];
    dt_tensor *x = zeros(s->t, s->gi->dtype, s->rows, s->l->kind->gates * s->l->hidden);
    dt_tensor *bias = x == NULL ? NULL : dt__module_bias(s->t, s->l->hh[s->direction]);
    if (bias != NULL && hn != NULL) {
        bias = dt_concat(s->t, (dt_tensor *[]){ bias, dt__module_bias(s->t, hn) }, 2, 0);
    }
    return bias == NULL ? x : dt__then(s->t, x, dt_add(s->t, x, bias));
}

/* The state after the step at time `at`; `zero`: the state before is zeros. */
static dt_tensor *step(const scan *s, int64_t at, dt_tensor *gh, dt_tensor *state, bool zero)
{
    const dt__cell_kind *kind = s->l->kind;
    dt_module *hn = zero ? NULL : s->l->hn[s->direction];
    dt_tensor *gi = rows_of(s->t, s->gi, at * s->rows, s->rows);
    dt_tensor *next =
        kind->late != NULL ? kind->late(s->t, gi, gh, state, hn) : kind->step(s->t, gi, gh, state);
    dt__drop_step(s->t, gi, next);
    return dt__then(s->t, gh, next);
}

/* Runs all steps; returns the final state. */
static dt_tensor *run_scan(const scan *s)
{
    const dt__cell_kind *kind = s->l->kind;
    dt_module *hh = s->l->hh[s->direction];
    dt_tensor *state = s->initial, *gh = NULL;
    if (state == NULL) {
        state = zeros(s->t, s->gi->dtype, kind->states * s->rows, s->l->hidden);
        gh = product_of_zeros(s);
    }
    dt_tensor *h = part_of(s->t, kind, state, 0);
    for (int64_t i = 0; i < s->steps && s->t->status == DT_OK; i++) {
        const int64_t at = s->direction == 1 || s->l->reverse ? s->steps - 1 - i : i;
        const bool zero = i == 0 && s->initial == NULL;
        if (!zero) gh = dt_forward(s->t, hh, h);
        dt_tensor *next = step(s, at, gh, state, zero);
        if (h != state) dt__drop_step(s->t, state, next);
        if (s->h == NULL || i == 0) dt__drop_step(s->t, h, next);
        state = next;
        h = part_of(s->t, kind, state, 0);
        if (s->h != NULL) s->h[at] = h;
    }
    return state;
}

/* Sets *y to h of all steps, [T, N, hidden], unless y is NULL; returns the final state. */
static dt_tensor *run_direction(scan *s, dt_tensor *x, dt_tensor **y)
{
    dt_ctx *ctx = s->t->ctx;
    dt_tensor *gi = dt_forward(s->t, s->l->ih[s->direction], x);
    if (gi == NULL) return NULL;
    const int64_t dims[] = { s->steps * s->rows, gi->dims[2] };
    s->gi = dt__then(s->t, gi, dt_reshape(s->t, gi, 2, dims));
    s->h = y == NULL ? NULL : dt__alloc_array(ctx, s->steps, sizeof(dt_tensor *));
    if (y != NULL && s->h == NULL) dt__tape_adopt(s->t, DT_ERR_NOMEM);
    dt_tensor *state = s->t->status == DT_OK ? run_scan(s) : NULL;
    if (state != NULL) dt__drop_step(s->t, s->gi, state);
    if (state != NULL && y != NULL) {
        dt_tensor *all = join(s->t, s->h, s->steps, state);
        const int64_t out[] = { s->steps, s->rows, s->l->hidden };
        *y = dt_reshape(s->t, all, 3, out);
        if (all != state) dt__drop_step(s->t, all, *y);
    }
    dt__release(ctx, s->h);
    return state;
}

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    const layer *l = dt_module_state(m);
    dt_tensor *y[DIRECTIONS] = { NULL };
    const bool wanted = n_out > l->directions;
    for (int d = 0; d < l->directions && t->status == DT_OK; d++) {
        scan s = { .t = t,
                   .l = l,
                   .direction = d,
                   .steps = in[0]->dims[0],
                   .rows = in[0]->dims[1],
                   .initial = n_in > 1 ? in[1 + d] : NULL };
        out[d] = run_direction(&s, in[0], wanted ? &y[d] : NULL);
    }
    if (!wanted || t->status != DT_OK) return;
    out[l->directions] = l->directions == 1 ? y[0] : dt_concat(t, y, DIRECTIONS, -1);
}

static const dt_module_type layer_type = {
    .name = "recurrent_layer",
    .forward = forward,
    .block = true,
    .repeats = true,
};

/* ---- the network ----------------------------------------------------------------------------- */

static dt_status refuse(dt_tape *t, const dt_module *m, const dt_tensor *x, const char *wanted)
{
    char is[160];
    dt_describe(x, is, sizeof is);
    return dt_tape_fail(t, DT_ERR_SHAPE, "module %s (%s): expected %s, not %s", m->path,
                        m->type->name, wanted, is);
}

static dt_status check(dt_tape *t, const dt_module *m, dt_tensor *const *in, int n_in, int n_out)
{
    const network *s = m->state;
    const int states = s->kind->states;
    if (n_in != 1 && n_in != 1 + states) {
        return dt_tape_fail(t, DT_ERR_ARG,
                            "module %s (%s): %d inputs; expected x, or x and all %d initial states",
                            m->path, m->type->name, n_in, states);
    }
    if (n_out > 1 + states) {
        return dt_tape_fail(t, DT_ERR_ARG, "module %s (%s): %d outputs; there are %d", m->path,
                            m->type->name, n_out, 1 + states);
    }
    if (in[0]->rank != 3 || in[0]->dims[1] < 1) {
        return refuse(t, m, in[0], "[batch, time, width] with at least one time step");
    }
    for (int i = 1; i < n_in; i++) {
        const int64_t all = s->options.layers * s->directions, n = in[0]->dims[0];
        const int64_t dims[] = { s->batch_first ? n : all, s->batch_first ? all : n,
                                 s->options.hidden };
        char wanted[120];
        snprintf(wanted, sizeof wanted, "an initial state [%lld,%lld,%lld]", (long long)dims[0],
                 (long long)dims[1], (long long)dims[2]);
        const bool fits = in[i]->rank == 3 && in[i]->dims[0] == dims[0] &&
                          in[i]->dims[1] == dims[1] && in[i]->dims[2] == dims[2];
        if (!fits) return refuse(t, m, in[i], wanted);
    }
    return DT_OK;
}

/* The state of a network's forward pass. */
typedef struct pass {
    dt_tape *t;
    const network *s;
    int64_t rows;
    dt_tensor *const *initial; /* h and c of all directions, [all, N, hidden]; NULL: zeros */
    dt_tensor **final;         /* the final state of each direction */
} pass;

static int64_t all_directions(const network *s) { return s->options.layers * s->directions; }

/* The initial state of direction `place`, counted over all layers. */
static dt_tensor *initial_of(const pass *p, int64_t place)
{
    dt_tensor *part[2] = { NULL };
    const int states = p->s->kind->states;
    const int64_t dims[] = { all_directions(p->s) * p->rows, p->s->options.hidden };
    for (int i = 0; i < states; i++) {
        dt_tensor *x = p->s->batch_first ? exchange(p->t, p->initial[i]) : p->initial[i];
        part[i] = rows_of(p->t, dt_reshape(p->t, x, 2, dims), place * p->rows, p->rows);
    }
    return states == 1 ? part[0] : dt_concat(p->t, part, states, 0);
}

/* Runs layer i on x, [T, N, width]. Returns h of all steps; NULL if only the final state is
 * needed. */
static dt_tensor *run_layer(const pass *p, int64_t i, dt_tensor *x)
{
    const network *s = p->s;
    const int n = s->directions;
    const bool ends = i + 1 == s->options.layers, wanted = !ends || !s->options.last;
    dt_tensor *in[1 + DIRECTIONS] = { x }, *out[1 + DIRECTIONS] = { NULL };
    for (int d = 0; d < n && p->initial != NULL; d++) in[1 + d] = initial_of(p, i * n + d);
    if (p->t->status != DT_OK) return NULL;
    dt_forward_n(p->t, s->layers->children[i], in, p->initial != NULL ? 1 + n : 1, out,
                 wanted ? n + 1 : n);
    for (int d = 0; d < n; d++) p->final[i * n + d] = out[d];
    if (!wanted || ends || s->dropout == NULL) return wanted ? out[n] : NULL;
    return dt__then(p->t, out[n], dt_forward(p->t, s->dropout, out[n]));
}

/* Part i of all final states: [all directions, N, hidden]. */
static dt_tensor *final_states(const pass *p, int i)
{
    const int64_t n = all_directions(p->s), dims[] = { n, p->rows, p->s->options.hidden };
    dt_tensor **part = dt__alloc_array(p->t->ctx, n, sizeof(dt_tensor *));
    if (part == NULL) {
        dt__tape_adopt(p->t, DT_ERR_NOMEM);
        return NULL;
    }
    for (int64_t k = 0; k < n; k++) part[k] = part_of(p->t, p->s->kind, p->final[k], i);
    dt_tensor *all = join(p->t, part, n, NULL);
    dt__release(p->t->ctx, part);
    return dt_reshape(p->t, all, 3, dims);
}

/* Part i of the last layer's final states: [N, directions hidden]. */
static dt_tensor *last_of(const pass *p, int i)
{
    const int n = p->s->directions;
    dt_tensor *part[DIRECTIONS];
    for (int d = 0; d < n; d++) {
        part[d] = part_of(p->t, p->s->kind, p->final[all_directions(p->s) - n + d], i);
    }
    return n == 1 ? part[0] : dt_concat(p->t, part, n, -1);
}

/* Joins y of all steps, [T, N, width], and the final c. */
static dt_tensor *with_cell(const pass *p, dt_tensor *y)
{
    const int64_t dims[] = { 1, y->dims[1], y->dims[2] };
    dt_tensor *c = dt_reshape(p->t, last_of(p, 1), 3, dims);
    return dt__then(p->t, y, dt_concat(p->t, (dt_tensor *[]){ y, c }, 2, 0));
}

static void run(const pass *p, dt_tensor *x, dt_tensor **out, int n_out)
{
    dt_tensor *y = exchange(p->t, x);
    for (int64_t i = 0; i < p->s->options.layers && p->t->status == DT_OK; i++) {
        dt_tensor *before = y;
        y = run_layer(p, i, before);
        dt__drop_step(p->t, before, y);
    }
    if (p->t->status != DT_OK) return;
    if (p->s->options.cell) y = with_cell(p, y);
    out[0] = p->s->options.last ? last_of(p, 0) : exchange(p->t, y);
    for (int i = 1; i < n_out; i++) out[i] = final_states(p, i - 1);
}

void dt__recurrent_forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in,
                           dt_tensor **out, int n_out)
{
    const network *s = dt_module_state(m);
    if (check(t, m, in, n_in, n_out) != DT_OK) return;
    pass p = { .t = t, .s = s, .rows = in[0]->dims[0], .initial = n_in > 1 ? in + 1 : NULL };
    p.final = dt__alloc_array(t->ctx, all_directions(s), sizeof(dt_tensor *));
    if (p.final != NULL) run(&p, in[0], out, n_out);
    else dt__tape_adopt(t, DT_ERR_NOMEM);
    dt__release(t->ctx, p.final);
}

/* ---- building -------------------------------------------------------------------------------- */

/* A linear layer from dims[0] to dims[1] elements; as in PyTorch, the range of the initial weights
 * follows from the hidden width for all products. */
static dt_status add_product(dt_module *m, const char *name, const int64_t dims[2],
                             const network *s, dt_module **lent)
{
    const double bound = 1.0 / sqrt((double)s->options.hidden);
    dt_module *made = NULL;
    const dt_status status = dt_linear_create(m->ctx, dims[0], dims[1], s->options.bias, &made);
    DT__TRY(dt__add_made(m, name, status, made, lent));
    for (int64_t i = 0; i < made->n_entries; i++) {
        DT__TRY(dt__draw_uniform(made->entries[i].x, DT__FOR_INIT, -bound, bound));
    }
    return DT_OK;
}

static dt_status add_layer(dt_module *list, const network *s, int64_t in)
{
    static const char *const name[DIRECTIONS][3] = { { "ih", "hh", "hn" },
                                                     { "ih_reverse", "hh_reverse", "hn_reverse" } };
    const int64_t h = s->options.hidden, gates = s->kind->gates, late = s->kind->late != NULL;
    dt_module *m;
    DT__TRY(dt__add_item(list, &layer_type, sizeof(layer), &m));
    layer *l = dt_module_state(m);
    *l = (layer){
        .kind = s->kind, .hidden = h, .directions = s->directions, .reverse = s->options.reverse
    };
    for (int d = 0; d < s->directions; d++) {
        DT__TRY(add_product(m, name[d][0], (const int64_t[]){ in, gates * h }, s, &l->ih[d]));
        DT__TRY(
            add_product(m, name[d][1], (const int64_t[]){ h, (gates - late) * h }, s, &l->hh[d]));
        if (late == 0) continue;
        DT__TRY(add_product(m, name[d][2], (const int64_t[]){ h, h }, s, &l->hn[d]));
    }
    return DT_OK;
}

static dt_status build(dt_module *m, const network *s)
{
    network *state = dt_module_state(m);
    *state = *s;
    DT__TRY(dt__add_child(m, "layers", &dt__nn_list, 0, &state->layers));
    for (int64_t i = 0; i < s->options.layers; i++) {
        const int64_t in = i == 0 ? s->options.in : s->directions * s->options.hidden;
        DT__TRY(add_layer(state->layers, s, in));
    }
    if (s->options.dropout == 0) return DT_OK;
    dt_module *made = NULL;
    const dt_status status = dt_dropout_create(m->ctx, s->options.dropout, &made);
    return dt__add_made(m, "dropout", status, made, &state->dropout);
}

#define MOST_HIDDEN ((int64_t)1 << 40) /* so that no product of extents overflows */

/* Refuses options that the kind does not have, or that exclude each other. */
static dt_status check_variant(dt_ctx *ctx, const dt__cell_kind *kind, const dt_recurrent_layer *o)
{
    const char *why = o->reverse && o->bidirectional ? "reverse: bidirectional has both directions"
                      : o->cell && kind->states < 2  ? "cell: its state has no c"
                      : o->cell && o->last           ? "cell: behind all steps, without last"
                      : o->relu && kind->gates > 1   ? "relu: it is an option of rnn"
                      : o->reset_before && kind->late == NULL
                          ? "reset_before: it is an option of gru"
                          : NULL;
    if (why == NULL) return DT_OK;
    return dt_fail(ctx, DT_ERR_ARG, "%s: %s", kind->name, why);
}

static dt_status check_options(dt_ctx *ctx, const char *name, const dt_recurrent_layer *o)
{
    DT__TRY(dt__want_extent(ctx, name, "the number of inputs", o->in));
    DT__TRY(dt__want_extent(ctx, name, "the hidden width", o->hidden));
    DT__TRY(dt__want_extent(ctx, name, "the number of layers", o->layers));
    DT__TRY(dt__want_share(ctx, name, "dropout", o->dropout));
    if (o->hidden > MOST_HIDDEN || o->in > MOST_HIDDEN) {
        return dt_fail(ctx, DT_ERR_ARG, "%s: %lld inputs and a hidden width of %lld are too large",
                       name, (long long)o->in, (long long)o->hidden);
    }
    if (o->layers > 1 || o->dropout == 0) return DT_OK;
    return dt_fail(ctx, DT_ERR_ARG,
                   "%s: dropout %g has no effect: it acts between layers, and there is one", name,
                   o->dropout);
}

/* A network whose initial states begin with the batch if `batch_first`. */
static dt_status create(dt_ctx *ctx, const dt__cell_kind *kind, const dt_recurrent_layer *options,
                        bool batch_first, dt_module **out)
{
    dt_module *m;
    *out = NULL;
    DT__TRY(check_options(ctx, kind->name, options));
    DT__TRY(check_variant(ctx, kind, options));
    const network s = { .kind = kind,
                        .options = *options,
                        .directions = options->bidirectional ? DIRECTIONS : 1,
                        .batch_first = batch_first };
    DT__TRY(dt_module_create(ctx, kind->type, sizeof(network), &m));
    return dt__layer_done(build(m, &s), m, out);
}

dt_status dt__recurrent_create(dt_ctx *ctx, const dt__cell_kind *kind,
                               const dt_recurrent_layer *options, dt_module **out)
{
    return create(ctx, kind, options, false, out);
}

dt_recurrent_layer dt_recurrent_defaults(void)
{
    return (dt_recurrent_layer){ .layers = 1, .bias = true };
}

dt_status dt__recurrent_layer_create(dt_ctx *ctx, const dt__cell_kind *kind, const void *options,
                                     const dt_shape *in, dt_module **out)
{
    dt_recurrent_layer o = ((const dt_recurrent_item *)options)->network;
    *out = NULL;
    DT__TRY(dt__want_example_rank(ctx, kind->name, in, 2));
    o.in = in->dims[1];
    return create(ctx, kind, &o, true, out);
}

/* ---- cases ----------------------------------------------------------------------------------- */

dt_tensor *dt__recurrent_plain(dt_tape *t, dt_module *m, dt_tensor *in, int states,
                               dt_tensor *(*cell)(dt_tape *t, dt_tensor *gi, dt_tensor *gh,
                                                  dt_tensor *state))
{
    dt_tensor *state, *y = NULL;
    const int64_t dims[] = { 2 * states, 4 };
    if (dt_tensor_create(t->ctx, in->dtype, 2, dims, &state) != DT_OK ||
        dt__tape_adopt(t, dt__tape_lend(t, state)) != DT_OK) {
        return NULL;
    }
    const dt_slice_options upper = { { 1, { 0 } }, { 1, { 0 } }, { 1, { 2 } }, { 0, { 0 } } };
    for (int64_t i = 0; i < in->dims[1]; i++) {
        const dt_slice_options now = { { 1, { 1 } }, { 1, { i } }, { 1, { i + 1 } }, { 0, { 0 } } };
        dt_tensor *x = dt_reshape(t, dt_slice(t, in, &now), 2, (const int64_t[]){ 2, 3 });
        dt_tensor *gi =
            dt_linear(t, x, dt_param(m, "layers.0.ih.weight"), dt_param(m, "layers.0.ih.bias"));
        dt_tensor *gh = dt_linear(t, dt_slice(t, state, &upper), dt_param(m, "layers.0.hh.weight"),
                                  dt_param(m, "layers.0.hh.bias"));
        state = cell(t, gi, gh, state);
        dt_tensor *one = dt_reshape(t, dt_slice(t, state, &upper), 3, (const int64_t[]){ 2, 1, 4 });
        y = y == NULL ? one : dt_concat(t, (dt_tensor *[]){ y, one }, 2, 1);
    }
    return y;
}
