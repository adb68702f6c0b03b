/* The products of grouped_linear, of expert e with the rows at places start[e] ... start[e + 1] -
 * 1:
 *
 *     y_e = x_e W_e^T + b_e      dx_e = dy_e W_e      dW_e = dy_e^T x_e      db_e = sum of dy_e
 *
 * The products of all experts are one list, whose tiles threads share. If an expert's rows are
 * contiguous, they are read and written in place; otherwise they are sources and sinks of the
 * product, which gathers a block of rows just before it reads it and scatters a tile after
 * computing it. The gradient of a row of x that several experts read is the sum of their
 * contributions, in the order of assignments. */
#include "ops/products/grouped_back.h"
#include "ops/products/grouped_gemm.h"

#include <stdlib.h>
#include <string.h>

/* A matrix whose rows are rows of another matrix, which is in memory or has codes. */
typedef struct row_view {
    char *data;
    const dt__codes *codes;
    size_t element;
    int64_t columns;
    int64_t row;               /* if `assignment` is NULL: row r is row `row` + r of the matrix */
    const int64_t *assignment; /* else row r is row assignment[r] / per_row */
    int64_t per_row;
    dt__source source;
    dt__sink sink;
} row_view;

static int64_t row_at(const row_view *s, int64_t r)
{
    return s->assignment == NULL ? s->row + r : s->assignment[r] / s->per_row;
}

static char *place_of(const row_view *s, int64_t row, int64_t column)
{
    return s->data + (size_t)(row * s->columns + column) * s->element;
}

static void expand(const row_view *s, const dt__patch *block)
{
    if (s->assignment == NULL) {
        dt__patch there = *block;
        there.r0 += s->row;
        there.r1 += s->row;
        dt__codes_expand(s->codes, &there);
        return;
    }
    float *y = block->y;
    for (int64_t r = block->r0; r < block->r1; r++, y += block->ldy) {
        const int64_t row = row_at(s, r);
        dt__codes_expand(s->codes, &(dt__patch){ row, row + 1, block->c0, block->c1, y, 0 });
    }
}

static void fill(const void *from, const dt__patch *block)
{
    const row_view *s = from;
    if (s->codes != NULL) {
        expand(s, block);
        return;
    }
    const size_t bytes = (size_t)(block->c1 - block->c0) * s->element;
    const size_t step = (size_t)block->ldy * s->element;
    char *y = block->y;
    for (int64_t r = block->r0; r < block->r1; r++, y += step) {
        memcpy(y, place_of(s, row_at(s, r), block->c0), bytes);
    }
}

static void take(void *to, const dt__patch *block)
{
    const row_view *s = to;
    const size_t bytes = (size_t)(block->c1 - block->c0) * s->element;
    const size_t step = (size_t)block->ldy * s->element;
    const char *y = block->y;
    for (int64_t r = block->r0; r < block->r1; r++, y += step) {
        memcpy(place_of(s, row_at(s, r), block->c0), y, bytes);
    }
}

/* Whether the rows can be read and written in place. */
static bool is_contiguous(const row_view *s) { return s->codes == NULL && s->assignment == NULL; }
static void *data_of(const row_view *s) { return is_contiguous(s) ? place_of(s, s->row, 0) : NULL; }
static const dt__source *source_of(const row_view *s)
{
    return is_contiguous(s) ? NULL : &s->source;
}
static const dt__sink *sink_of(const row_view *s) { return is_contiguous(s) ? NULL : &s->sink; }

/* ---- an expert's product -------------------------------------------------------------------- */

/* The state of a call: the lists of its routing, and the parts of scratch. */
typedef struct work {
    dt__grouped of;
    int64_t in, out;
    size_t element;
    dt__gemm_job *job;
    struct operands *operands;
    /* set if several experts read a row of x: */
    int64_t *place; /* place of each assignment; -1: none */
    char *parts;    /* [places][in], the contribution to dx of each assignment */
    void *room;     /* workspace of the products */
} work;

/* The three matrices of an expert's product. */
typedef struct operands {
    row_view a, b, c;
} operands;

static row_view row_view_of(const work *w, int64_t columns)
{
    return (row_view){ .element = w->element, .columns = columns, .per_row = 1 };
}

/* Sets the data or codes of operand i. */
static void open_operand(const work *w, int i, row_view *s)
{
    const dt_tensor *x = w->of.c->arg[i];
    s->codes = w->of.c->codes[i];
    if (s->codes == NULL && x->storage != NULL) s->data = (char *)(uintptr_t)dt__data(x);
}

/* Restricts a view of x, or of assignments, to the rows of expert e. */
static void route(const work *w, int64_t e, int64_t per_row, row_view *s)
{
    const dt__routing *r = &w->of.routing;
    s->row = r->start[e];
    s->assignment = r->assignment == NULL ? NULL : r->assignment + r->start[e];
    s->per_row = per_row;
}

static row_view rows_of_x(const work *w, int64_t e)
{
    row_view s = row_view_of(w, w->in);
    open_operand(w, w->of.x, &s);
    route(w, e, w->of.routing.per_row, &s);
    return s;
}

static row_view rows_of_y(const work *w, int64_t e, void *data)
{
    row_view s = row_view_of(w, w->out);
    s.data = data;
    route(w, e, 1, &s);
    return s;
}

static row_view rows_of_weight(const work *w, int64_t e)
{
    row_view s = row_view_of(w, w->in);
    open_operand(w, w->of.weight, &s);
    s.row = e * w->out;
    return s;
}

/* Sets product i of the list. */
static dt__gemm *set_product(const work *w, int64_t i, const operands *of, const dt__gemm *like)
{
    operands *t = &w->operands[i];
    *t = *of;
    row_view *const each[] = { &t->a, &t->b, &t->c };
    for (int k = 0; k < DT__COUNT_OF(each); k++) {
        each[k]->source = (dt__source){ fill, each[k] };
        each[k]->sink = (dt__sink){ take, each[k] };
    }
    dt__gemm *g = &w->job[i].g;
    *g = *like;
    g->a = data_of(&t->a);
    g->lda = t->a.columns;
    g->a_source = source_of(&t->a);
    g->b = data_of(&t->b);
    g->ldb = t->b.columns;
    g->b_source = source_of(&t->b);
    g->c = data_of(&t->c);
    g->ldc = t->c.columns;
    g->c_sink = sink_of(&t->c);
    g->coarse = w->of.routing.assignment != NULL; /* large tiles: each gathers its rows again */
    return g;
}

static int by_size(const void *a, const void *b)
{
    const dt__gemm *p = &((const dt__gemm_job *)a)->g, *q = &((const dt__gemm_job *)b)->g;
    const int64_t x = p->m + p->k, y = q->m + q->k; /* only the number of rows differs */
    return (x < y) - (x > y);
}

static void run(const work *w, int64_t n)
{
    qsort(w->job, (size_t)n, sizeof w->job[0], by_size);
    dt__multiply_all(w->of.c, &(dt__gemms){ n, w->job, w->room });
}

static int64_t rows_of(const work *w, int64_t e)
{
    return w->of.routing.start[e + 1] - w->of.routing.start[e];
}

/* y_e [rows, out] = x_e W_e^T + b_e, except for experts that dt__grouped_codes_product computes. */
static void run_forward(const work *w, void *y)
{
    const dt_tensor *bias = w->of.c->arg[w->of.bias];
    int64_t n = 0;
    for (int64_t e = 0; e < w->of.routing.experts && w->out > 0; e++) {
        if (rows_of(w, e) == 0 || dt__grouped_is_few(&w->of, rows_of(w, e))) continue;
        const operands t = { rows_of_x(w, e), rows_of_weight(w, e), rows_of_y(w, e, y) };
        dt__gemm *g = set_product(
            w, n++, &t,
            &(dt__gemm){ .trans_b = true, .m = rows_of(w, e), .n = w->out, .k = w->in });
        if (bias == NULL) continue;
        g->bias = (const char *)dt__data(bias) + (size_t)(e * w->out) * w->element;
    }
    run(w, n);
}

/* dx_e [rows, in] = dy_e W_e, into w->parts if several experts read a row */
static void run_backward_x(const work *w, const void *dy, void *dx)
{
    int64_t n = 0;
    for (int64_t e = 0; e < w->of.routing.experts && w->in > 0; e++) {
        if (rows_of(w, e) == 0) continue;
        operands t = { rows_of_y(w, e, (void *)(uintptr_t)dy), rows_of_weight(w, e),
                       row_view_of(w, w->in) };
        t.c.data = w->parts != NULL ? w->parts : dx;
        route(w, e, 1, &t.c);
        if (w->parts != NULL) t.c.assignment = NULL;
        set_product(w, n++, &t, &(dt__gemm){ .m = rows_of(w, e), .n = w->in, .k = w->out });
    }
    run(w, n);
}

/* dW_e [out, in] = dy_e^T x_e: 0 where there are no rows */
static void run_backward_w(const work *w, const void *dy, void *dw)
{
    int64_t n = 0;
    for (int64_t e = 0; e < w->of.routing.experts && w->out * w->in > 0; e++) {
        operands t = { rows_of_y(w, e, (void *)(uintptr_t)dy), rows_of_x(w, e),
                       row_view_of(w, w->in) };
        t.c.data = dw;
        t.c.row = e * w->out;
        set_product(w, n++, &t,
                    &(dt__gemm){ .trans_a = true, .m = w->out, .n = w->in, .k = rows_of(w, e) });
    }
    run(w, n);
}

/* ---- scratch --------------------------------------------------------------------------------- */

static const row_view moved = { .row = 0 };
static const dt__source some_source = { fill, &moved };
static const dt__sink some_sink = { take, (void *)(uintptr_t)&moved };

/* Workspace of products; a, b, c: whether the operands are sources and the result is a sink. */
static size_t room_of(const dt__grouped *g, dt__gemm most, bool a, bool b, bool c)
{
    most.a_source = a ? &some_source : NULL;
    most.b_source = b ? &some_source : NULL;
    most.c_sink = c ? &some_sink : NULL;
    const size_t element = dt_dtype_size(g->c->arg[g->weight]->dtype);
    return dt__gemms_scratch(&most, element, dt_threads(g->c->ctx));
}

static size_t lists_of(const dt__grouped *g)
{
    const size_t experts = (size_t)g->routing.experts;
    return dt__scratch_part(dt__routing_bytes(&g->routing, dt__grouped_indexed(g))) +
           dt__scratch_part(experts * sizeof(dt__gemm_job)) +
           dt__scratch_part(experts * sizeof(operands));
}

static bool is_coded(const dt__grouped *g, int i) { return g->c->codes[i] != NULL; }

size_t dt__grouped_forward_scratch(const dt__grouped *g)
{
    const bool indexed = dt__grouped_indexed(g);
    const dt__gemm most = { .trans_b = true,
                            .m = g->routing.assignments,
                            .n = dt__grouped_out(g),
                            .k = dt__grouped_in(g) };
    const size_t codes = dt__grouped_codes_room(g);
    const size_t floats =
        room_of(g, most, indexed || is_coded(g, g->x), is_coded(g, g->weight), indexed);
    return lists_of(g) + (codes > floats ? codes : floats);
}

static bool has_parts(const dt__grouped *g)
{
    return g->c->wants[g->x] && dt__grouped_indexed(g) && g->routing.per_row != 1;
}

static size_t parts_of(const dt__grouped *g)
{
    const size_t element = dt_dtype_size(g->c->arg[g->weight]->dtype);
    return dt__scratch_part((size_t)(g->routing.assignments * dt__grouped_in(g)) * element);
}

size_t dt__grouped_backward_scratch(const dt__grouped *g)
{
    const bool indexed = dt__grouped_indexed(g);
    const int64_t rows = g->routing.assignments;
    size_t bytes = lists_of(g), x = 0, w = 0;
    if (has_parts(g)) bytes += dt__scratch_part((size_t)rows * sizeof(int64_t)) + parts_of(g);
    if (g->c->wants[g->x] && !dt__grouped_integer_x(g)) {
        const dt__gemm most = { .m = rows, .n = dt__grouped_in(g), .k = dt__grouped_out(g) };
        x = room_of(g, most, indexed, is_coded(g, g->weight), indexed);
    }
    if (g->c->wants[g->weight] && !dt__grouped_integer_w(g)) {
        const dt__gemm most = {
            .trans_a = true, .m = dt__grouped_out(g), .n = dt__grouped_in(g), .k = rows
        };
        w = room_of(g, most, indexed, indexed || is_coded(g, g->x), false);
    }
    const size_t floats = x > w ? x : w, integers = dt__grouped_integer_room(g);
    return bytes + (integers > floats ? integers : floats);
}

/* Allocates bytes from the front of *room. */
static void *take_room(char **room, size_t bytes)
{
    void *p = *room;
    *room += dt__scratch_part(bytes);
    return p;
}

static work open_work(const dt__grouped *g)
{
    work w = { .of = *g, .in = dt__grouped_in(g), .out = dt__grouped_out(g) };
    w.element = dt_dtype_size(g->c->arg[g->weight]->dtype);
    char *room = g->c->scratch;
    const size_t experts = (size_t)g->routing.experts;
    void *lists = take_room(&room, dt__routing_bytes(&w.of.routing, dt__grouped_indexed(g)));
    dt__routing_make(g->c->arg[g->offsets], g->c->arg[g->index], lists, &w.of.routing);
    w.job = take_room(&room, experts * sizeof *w.job);
    w.operands = take_room(&room, experts * sizeof *w.operands);
    w.room = room;
    return w;
}

/* ---- forward and backward -------------------------------------------------------------------- */

/* Sets the rows of assignments without an expert to 0. */
static void clear_padding(const work *w, int64_t columns, void *y)
{
    const dt__routing *r = &w->of.routing;
    const size_t bytes = (size_t)columns * w->element;
    const dt_tensor *index = w->of.c->arg[w->of.index];
    if (index == NULL) {
        const int64_t used = r->start[r->experts];
        memset((char *)y + (size_t)used * bytes, 0, (size_t)(r->assignments - used) * bytes);
        return;
    }
    if (r->start[r->experts] == r->assignments) return;
    for (int64_t k = 0; k < r->assignments; k++) {
        if (dt__index_at(index, k) < 0) memset((char *)y + (size_t)k * bytes, 0, bytes);
    }
}

void dt__grouped_forward(const dt__grouped *g, void *y)
{
    const work w = open_work(g);
    clear_padding(&w, w.out, y);
    if (dt__grouped_codes_room(g) > 0) dt__grouped_codes_product(&w.of, w.room, y);
    if (!dt__grouped_multiplies(g)) run_forward(&w, y);
}

/* dx from what experts contributed to it. */
static void finish_x(const work *w, void *dx)
{
    if (w->parts == NULL) {
        clear_padding(w, w->in, dx);
        return;
    }
    const dt__routing *r = &w->of.routing;
    for (int64_t k = 0; k < r->assignments; k++) w->place[k] = -1;
    for (int64_t p = 0; p < r->start[r->experts]; p++) w->place[r->assignment[p]] = p;
    const int64_t rows = dt__rows(w->of.c->arg[w->of.x]);
    w->of.c->kernels->sum_parts(&(dt__row_sums){ rows, r->per_row, w->in, w->place }, w->parts, dx);
}

static void run_integers(const work *w, const void *dy, void *dx, void *dw)
{
    const bool by_place = w->parts != NULL;
    dt__grouped_integer_backward(
        &(dt__grouped_integers){ .g = &w->of,
                                 .dy = dy,
                                 .dx = !dt__grouped_integer_x(&w->of) ? NULL
                                       : by_place                     ? (void *)w->parts
                                                                      : dx,
                                 .by_place = by_place,
                                 .dw = dt__grouped_integer_w(&w->of) ? dw : NULL,
                                 .room = w->room });
}

void dt__grouped_backward(const dt__grouped *g, const void *dy, dt_tensor *const *dx)
{
    work w = open_work(g);
    if (has_parts(g)) {
        char *room = w.room;
        w.place = take_room(&room, (size_t)w.of.routing.assignments * sizeof *w.place);
        w.parts = take_room(&room, parts_of(g));
        w.room = room;
    }
    void *to_x = dx[g->x] != NULL ? dt__data_mut(dx[g->x]) : NULL;
    void *to_w = dx[g->weight] != NULL ? dt__data_mut(dx[g->weight]) : NULL;
    const bool integer_x = dt__grouped_integer_x(g), integer_w = dt__grouped_integer_w(g);
    if (to_x != NULL && !integer_x) run_backward_x(&w, dy, to_x);
    if (to_w != NULL && !integer_w) run_backward_w(&w, dy, to_w);
    if (integer_x || integer_w) run_integers(&w, dy, to_x, to_w);
    if (to_x != NULL) finish_x(&w, to_x);
    if (dx[g->bias] == NULL) return;
    const dt__rows_by_expert rows = { w.of.routing.experts, w.out, w.of.routing.start,
                                      w.of.routing.assignment };
    w.of.c->kernels->sum_by_expert(&rows, dy, dt__data_mut(dx[g->bias]));
}
