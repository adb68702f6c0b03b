/* grouped_linear against dt_linear of each expert: y and all gradients, of floats and of codes in
 * every form, with rows by offsets and by index, read once and several times, even and very uneven
 * routing, any number of threads. Bits are equal, except for large products of floats with gathered
 * rows. Padding rows have no influence. */
#include "testing.h"

#include "core/core.h"
#include "qat/quantized.h"

#include <detent/experimental/nn.h>
#include <detent/experimental/ops.h>
#include <detent/experimental/qat.h>

#include <math.h>
#include <stdlib.h>

typedef enum form {
    PLAIN,
    NIBBLES,
    CODED_BYTES,
    ASYMMETRIC,
    SIMULATED,
    CHANNEL,
    GRADIENTS, /* nibbles, with an integer backward */
    FORMS
} form;

/* The cases; -1 in the routing's weights is a share of padding. */
typedef struct trial {
    int64_t experts, in, out, rows, reads; /* reads 0: offsets */
    form form;
    int bits;   /* of x; 0: floats */
    int uneven; /* 0: even; 1: some experts have no row; 2: one has most */
    bool bias;
    int threads;
    bool spoilt; /* what no expert reads holds NaN, or of codes a huge number */
} trial;

typedef struct scene {
    const trial *r;
    dt_ctx *ctx;
    dt_tape *t;
    int64_t choices;
    int64_t *expert; /* of each choice, -1: none */
    dt_tensor *x, *w, *bias, *dy;
} scene;

static dt_tensor *random_tensor(dt_ctx *ctx, int rank, const int64_t *dims)
{
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, rank, dims, &x));
    TEST_OK(ctx, dt_fill_normal(x, 0, 1));
    TEST_OK(ctx, dt_set_requires_grad(x, true));
    return x;
}

static void wrap(form f, dt_tensor *w)
{
    dt_quant_spec q = dt_weight_quant_defaults();
    if (f == PLAIN) return;
    if (f == CODED_BYTES) q.bits = 7;
    if (f == ASYMMETRIC) q.scheme = DT_SCHEME_ASYMMETRIC;
    if (f == CHANNEL) q.granularity = DT_PER_CHANNEL;
    dt__fq like = { .quant = q, .simulated = f == SIMULATED, .int8_backward = f == GRADIENTS };
    if (dt_is_grouped(w)) like.map = dt__row_map_of_experts(dt_grouped_count(w));
    TEST_OK(w->ctx, dt__fq_wrap(w, &like));
}

/* With offsets choices ascend, and padding rows are the last ones. */
static void deal(scene *s)
{
    const trial *r = s->r;
    dt__stream stream = dt__stream_of(7, DT__FOR_USER);
    s->expert = malloc((size_t)s->choices * sizeof *s->expert + 1);
    ck_assert_ptr_nonnull(s->expert);
    for (int64_t i = 0; i < s->choices; i++) {
        const int64_t any = (int64_t)dt__random_below(&stream, (uint64_t)r->experts);
        s->expert[i] = r->uneven == 0   ? i % r->experts
                       : r->uneven == 1 ? any / 2 * 2
                       : i % 10 == 0    ? any
                                        : r->experts / 2;
        if (i % 13 == 5) s->expert[i] = -1;
    }
    for (int64_t i = 0; i < s->choices && r->reads == 0; i++) {
        s->expert[i] = i * r->experts / (s->choices - 1);
        if (r->uneven > 0) s->expert[i] = s->expert[i] / 2 * 2;
        if (r->uneven > 1 && i > 3) s->expert[i] = r->experts - 1;
        if (s->expert[i] >= r->experts) s->expert[i] = -1;
    }
}

static bool is_read(const scene *s, int64_t row)
{
    const int64_t reads = dt__max_i64(1, s->r->reads);
    for (int64_t i = row * reads; i < (row + 1) * reads; i++) {
        if (s->expert[i] >= 0) return true;
    }
    return false;
}

/* Rows of x that no expert reads, and of dy that none made. */
static void spoil(const scene *s)
{
    const trial *r = s->r;
    float *x = dt_data_mut(s->x), *dy = dt_data_mut(s->dy);
    for (int64_t i = 0; i < r->rows; i++) {
        for (int64_t j = 0; j < r->in && !is_read(s, i); j++)
            x[i * r->in + j] = r->bits > 0 ? 1e30F : NAN;
    }
    for (int64_t i = 0; i < s->choices; i++) {
        for (int64_t j = 0; j < r->out && s->expert[i] < 0; j++) dy[i * r->out + j] = NAN;
    }
}

static void open_scene(const trial *r, scene *s)
{
    dt_ctx_options o = dt_ctx_defaults();
    o.threads = r->threads;
    *s = (scene){ .r = r, .choices = r->rows * dt__max_i64(1, r->reads) };
    TEST_OK(NULL, dt_ctx_create(&s->ctx, &o));
    TEST_OK(s->ctx, dt_tape_create(s->ctx, &s->t));
    deal(s);
    s->x = random_tensor(s->ctx, 2, (const int64_t[]){ r->rows, r->in });
    s->w = random_tensor(s->ctx, 3, (const int64_t[]){ r->experts, r->out, r->in });
    s->bias = r->bias ? random_tensor(s->ctx, 2, (const int64_t[]){ r->experts, r->out }) : NULL;
    s->dy = random_tensor(s->ctx, 2, (const int64_t[]){ s->choices, r->out });
    TEST_OK(s->ctx, dt_set_requires_grad(s->dy, false));
    if (r->spoilt) spoil(s);
}

static void close_scene(scene *s)
{
    dt_tensor_free(s->x);
    dt_tensor_free(s->w);
    dt_tensor_free(s->bias);
    dt_tensor_free(s->dy);
    dt_tape_free(s->t);
    dt_ctx_free(s->ctx);
    free(s->expert);
}

static dt_tensor *integers(dt_ctx *ctx, int rank, const int64_t *dims, const int64_t *v)
{
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_I32, rank, dims, &x));
    for (int64_t i = 0; i < dt_count(x); i++) ((int32_t *)dt_data_mut(x))[i] = (int32_t)v[i];
    return x;
}

static dt_tensor *routes_of(const scene *s, dt_routes *routes)
{
    const trial *r = s->r;
    dt_tensor *made;
    if (r->reads > 0) {
        made = integers(s->ctx, 2, (const int64_t[]){ r->rows, r->reads }, s->expert);
        *routes = (dt_routes){ .index = made };
        return made;
    }
    int64_t *start = calloc((size_t)r->experts + 1, sizeof *start);
    ck_assert_ptr_nonnull(start);
    for (int64_t i = 0; i < s->choices; i++) {
        if (s->expert[i] >= 0) start[s->expert[i] + 1]++;
    }
    for (int64_t e = 0; e < r->experts; e++) start[e + 1] += start[e];
    made = integers(s->ctx, 1, &(int64_t){ r->experts + 1 }, start);
    free(start);
    *routes = (dt_routes){ .offsets = made };
    return made;
}

static dt_tensor *quantized(const scene *s, dt_tensor *x)
{
    dt_quant_spec q = dt_activation_quant_defaults();
    q.bits = s->r->bits;
    return s->r->bits > 0 ? dt_fake_quant(s->t, x, &q, true) : x;
}

/* ---- experts separately ---------------------------------------------------------------------- */

static float *zeros(int64_t n)
{
    float *x = calloc((size_t)n + 1, sizeof *x);
    ck_assert_ptr_nonnull(x);
    return x;
}

/* The expected results of all experts. */
typedef struct wanted {
    float *y, *dx, *dw, *db;
    float *parts; /* dx of each choice */
} wanted;

static dt_tensor *copy_of(dt_ctx *ctx, int rank, const int64_t *dims, const float *from)
{
    dt_tensor *x = random_tensor(ctx, rank, dims);
    memcpy(dt_data_mut(x), from, (size_t)dt_count(x) * sizeof *from);
    return x;
}

/* Copies the rows of the choices of expert e from or to `all`. */
static int64_t rows_of(const scene *s, int64_t e, int64_t reads, int64_t n, float *all, float *some)
{
    int64_t count = 0;
    for (int64_t i = 0; i < s->choices; i++) {
        if (s->expert[i] != e) continue;
        float *row = all + i / reads * n;
        if (some != NULL) memcpy(some + count * n, row, (size_t)n * sizeof *row);
        count++;
    }
    return count;
}

static void put_rows(const scene *s, int64_t e, int64_t n, const float *some, float *all)
{
    for (int64_t i = 0; i < s->choices; i++) {
        if (s->expert[i] != e) continue;
        memcpy(all + i * n, some, (size_t)n * sizeof *some);
        some += n;
    }
}

/* x and w of the scene are wrapped already if the trial requires it. */
static void run_expert(const scene *s, int64_t e, const float *masters, wanted *to)
{
    const trial *r = s->r;
    const int64_t reads = dt__max_i64(1, r->reads);
    const int64_t m = rows_of(s, e, reads, r->in, dt_data_mut(s->x), NULL);
    if (m == 0) return;
    float *rows = zeros(m * r->in), *up = zeros(m * r->out);
    rows_of(s, e, reads, r->in, dt_data_mut(s->x), rows);
    rows_of(s, e, 1, r->out, dt_data_mut(s->dy), up);
    dt_tensor *x = copy_of(s->ctx, 2, (const int64_t[]){ m, r->in }, rows);
    dt_tensor *w =
        copy_of(s->ctx, 2, (const int64_t[]){ r->out, r->in }, masters + e * r->out * r->in);
    dt_tensor *dy = copy_of(s->ctx, 2, (const int64_t[]){ m, r->out }, up), *b = NULL;
    if (r->bias) {
        b = copy_of(s->ctx, 1, &r->out, (const float *)dt_data(s->bias) + e * r->out);
    }
    wrap(r->form, w);
    dt_tensor *y = dt_linear(s->t, quantized(s, x), w, b);
    ck_assert_msg(y != NULL, "%s", dt_error(s->ctx));
    put_rows(s, e, r->out, dt_data(y), to->y);
    TEST_OK(s->ctx, dt_set_requires_grad(dy, false));
    TEST_OK(s->ctx, dt_backward(s->t, y, dy));
    put_rows(s, e, r->in, dt_data(dt_grad(x)), to->parts);
    memcpy(to->dw + e * r->out * r->in, dt_data(dt_grad(w)),
           (size_t)(r->out * r->in) * sizeof(float));
    if (b != NULL) {
        memcpy(to->db + e * r->out, dt_data(dt_grad(b)), (size_t)r->out * sizeof(float));
    }
    dt_tape_reset(s->t);
    dt_tensor *const made[] = { x, w, dy, b };
    for (int i = 0; i < DT__COUNT_OF(made); i++) dt_tensor_free(made[i]);
    free(rows);
    free(up);
}

static void add_parts(const scene *s, wanted *to)
{
    const int64_t reads = dt__max_i64(1, s->r->reads), n = s->r->in;
    for (int64_t i = 0; i < s->r->rows; i++) {
        bool any = false;
        for (int64_t k = i * reads; k < (i + 1) * reads; k++) {
            if (s->expert[k] < 0) continue;
            for (int64_t j = 0; j < n; j++) {
                const float d = to->parts[k * n + j];
                to->dx[i * n + j] = any ? to->dx[i * n + j] + d : d;
            }
            any = true;
        }
    }
}

static void run_alone(const scene *s, const float *masters, wanted *to)
{
    const trial *r = s->r;
    to->y = zeros(s->choices * r->out);
    to->parts = zeros(s->choices * r->in);
    to->dx = zeros(r->rows * r->in);
    to->dw = zeros(r->experts * r->out * r->in);
    to->db = zeros(r->experts * r->out);
    for (int64_t e = 0; e < r->experts; e++) run_expert(s, e, masters, to);
    add_parts(s, to);
}

/* ---- all together --------------------------------------------------------------------------- */

static float *values_of(const dt_tensor *x)
{
    float *v = zeros(dt_count(x));
    memcpy(v, dt_data(x), (size_t)dt_count(x) * sizeof *v);
    return v;
}

static void run_grouped(const scene *s, wanted *to)
{
    TEST_OK(s->ctx, dt_set_grouped(s->w));
    wrap(s->r->form, s->w);
    dt_routes routes;
    dt_tensor *made = routes_of(s, &routes), *dy;
    dt_tensor *y = dt_grouped_linear(s->t, quantized(s, s->x), s->w, s->bias, &routes);
    ck_assert_msg(y != NULL, "%s", dt_error(s->ctx));
    TEST_OK(s->ctx, dt_tensor_create(s->ctx, DT_F32, y->rank, y->dims, &dy));
    memcpy(dt_data_mut(dy), dt_data(s->dy), (size_t)dt_count(dy) * sizeof(float));
    to->y = values_of(y);
    TEST_OK(s->ctx, dt_backward(s->t, y, dy));
    to->dx = values_of(dt_grad(s->x));
    to->dw = values_of(dt_grad(s->w));
    to->db = s->bias == NULL ? zeros(0) : values_of(dt_grad(s->bias));
    to->parts = NULL;
    dt_tensor_free(dy);
    dt_tensor_free(made);
}

static void free_wanted(wanted *w)
{
    float *const all[] = { w->y, w->dx, w->dw, w->db, w->parts };
    for (int i = 0; i < DT__COUNT_OF(all); i++) free(all[i]);
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* From 1 MFLOP on gathered rows are multiplied in tiles of another size, so fp32 sums round
 * differently. */
static double near_of(const trial *r, bool integer)
{
    const double flops = 2.0 * (double)(r->rows * r->reads * r->in) * (double)r->out;
    return integer || flops < 1e6 ? 0 : 1e-5;
}

static bool is_integer(const trial *r)
{
    return r->bits > 0 && (r->form == NIBBLES || r->form == CODED_BYTES || r->form == CHANNEL ||
                           r->form == GRADIENTS);
}

typedef struct pair {
    const char *what;
    int64_t n;
    const float *got, *want;
    double near;
} pair;

static void compare(const trial *r, const pair *p)
{
    for (int64_t i = 0; i < p->n; i++) {
        const float got = p->got[i], want = p->want[i];
        TEST_EACH(test_near((double)got, (double)want, p->near * sqrt((double)r->in), p->near),
                  "%s[%lld] is %.9g, not %.9g: %lld experts %lld -> %lld, %lld rows, %lld "
                  "readings, form %d, %d bits, uneven %d, %d threads",
                  p->what, (long long)i, (double)got, (double)want, (long long)r->experts,
                  (long long)r->in, (long long)r->out, (long long)r->rows, (long long)r->reads,
                  (int)r->form, r->bits, r->uneven, r->threads);
    }
}

static void compare_all(const trial *r, const wanted *got, const wanted *want, bool exact)
{
    const int64_t choices = r->rows * dt__max_i64(1, r->reads), bias = r->bias ? r->out : 0;
    const double near = exact ? 0 : near_of(r, false);
    const double back = exact ? 0 : near_of(r, r->form == GRADIENTS && r->bits > 0);
    const pair all[] = {
        { "y", choices * r->out, got->y, want->y, exact ? 0 : near_of(r, is_integer(r)) },
        { "dx", r->rows * r->in, got->dx, want->dx, back },
        { "dw", r->experts * r->out * r->in, got->dw, want->dw, back },
        { "db", r->experts * bias, got->db, want->db, near },
    };
    for (int i = 0; i < DT__COUNT_OF(all); i++) compare(r, &all[i]);
}

static void try_it(const trial *r)
{
    scene s;
    wanted want, got;
    open_scene(r, &s);
    float *masters = values_of(s.w);
    run_alone(&s, masters, &want);
    run_grouped(&s, &got);
    compare_all(r, &got, &want, false);
    free_wanted(&want);
    free_wanted(&got);
    free(masters);
    close_scene(&s);
}

static void try_threads(trial r, int threads)
{
    scene s;
    wanted of[2];
    for (int i = 0; i < 2; i++) {
        if (i > 0) r.threads = threads;
        open_scene(&r, &s);
        run_grouped(&s, &of[i]);
        close_scene(&s);
    }
    compare_all(&r, &of[1], &of[0], true);
    for (int i = 0; i < 2; i++) free_wanted(&of[i]);
}

/* One of so many settings is tried, another for each extent; two for large products. */
static const test_draws setting_steps = { .usual = 1, .sanitized = 5 };
static const test_draws few_settings = { .usual = 5, .sanitized = 17 };
static const test_draws large_steps = { .usual = 1, .sanitized = 5 };

START_TEST(bits_equal_those_of_separate_layers)
{
    static const struct extents {
        int64_t experts, in, out, rows, reads;
    } extents[] = {
        { 4, 40, 24, 30, 0 },   { 4, 40, 24, 30, 1 },   { 4, 40, 24, 30, 2 },
        { 8, 64, 96, 1, 2 },    { 3, 8, 5, 6, 0 },      { 3, 8, 5, 2, 1 },
        { 64, 32, 33, 300, 2 }, { 3, 160, 70, 260, 0 }, { 2, 96, 130, 500, 1 },
    };
    static const int bits[] = { 0, 8, 4 };
    for (int i = 0; i < DT__COUNT_OF(extents); i++) {
        const int step = (int)test_count(i < 6 ? setting_steps : few_settings);
        for (int k = i % step; k < FORMS * DT__COUNT_OF(bits) * 3; k += step) {
            const struct extents *e = &extents[i];
            trial r = { e->experts, e->in, e->out, e->rows, e->reads, .form = (form)(k % FORMS) };
            r.bits = bits[k / FORMS % 3];
            r.uneven = k / FORMS / 3;
            r.bias = k % 2 == 0;
            r.threads = 1 + (i + k) % 3;
            try_it(&r);
        }
    }
}
END_TEST

START_TEST(large_products_have_the_same_bits)
{
    for (int k = 0; k < 6; k += (int)test_count(large_steps)) {
        const trial r = { 4,
                          256,
                          320,
                          1200,
                          0,
                          k % 3 == 0 ? PLAIN : NIBBLES,
                          .bits = k % 3 == 2 ? 8 : 0,
                          .uneven = k / 3,
                          .threads = 2 };
        try_it(&r);
    }
}
END_TEST

/* ---- padding --------------------------------------------------------------------------------- */

/* Rows 1 and 3 of 4 have no expert, and hold values that must have no effect. */
static void check_padding(bool indexed)
{
    dt_ctx *ctx;
    dt_tape *t;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_tensor *x = random_tensor(ctx, 2, (const int64_t[]){ 4, 8 });
    dt_tensor *w = random_tensor(ctx, 3, (const int64_t[]){ 3, 5, 8 });
    dt_tensor *b = random_tensor(ctx, 2, (const int64_t[]){ 3, 5 });
    dt_tensor *dy = random_tensor(ctx, 2, (const int64_t[]){ 4, 5 });
    const int64_t index[] = { 2, -1, 0, -1 }, offsets[] = { 0, 1, 1, 2 };
    const int64_t dims = 4;
    dt_tensor *to = integers(ctx, 1, &dims, indexed ? index : offsets);
    const dt_routes routes = { indexed ? NULL : to, indexed ? to : NULL };
    for (int64_t r = 0; r < 4; r++) {
        if (indexed ? index[r] >= 0 : r < 2) continue;
        for (int j = 0; j < 8; j++) ((float *)dt_data_mut(x))[r * 8 + j] = j % 2 ? NAN : INFINITY;
        for (int j = 0; j < 5; j++) ((float *)dt_data_mut(dy))[r * 5 + j] = j % 2 ? INFINITY : NAN;
    }
    TEST_OK(ctx, dt_set_requires_grad(dy, false));
    dt_tensor *y = dt_grouped_linear(t, x, w, b, &routes);
    ck_assert_msg(y != NULL, "%s", dt_error(ctx));
    TEST_OK(ctx, dt_backward(t, y, dy));
    const dt_tensor *const all[] = { y, dt_grad(x), dt_grad(w), dt_grad(b) };
    for (int i = 0; i < DT__COUNT_OF(all); i++) {
        for (int64_t k = 0; k < dt_count(all[i]); k++) {
            TEST_EACH(isfinite(((const float *)dt_data(all[i]))[k]), "tensor %d at %lld", i,
                      (long long)k);
        }
    }
    const float *dw = dt_data(dt_grad(w)), *db = dt_data(dt_grad(b));
    for (int k = 0; k < 40; k++) TEST_EACH(dw[40 + k] == 0, "dw of the expert without rows");
    for (int k = 0; k < 5; k++) TEST_EACH(db[5 + k] == 0, "db of the expert without rows");
    const float *dx = dt_data(dt_grad(x)), *out = dt_data(y);
    for (int k = 24; k < 32; k++) TEST_EACH(dx[k] == 0, "dx of padding");
    for (int k = 15; k < 20; k++) TEST_EACH(out[k] == 0, "y of padding");
    dt_tensor *const made[] = { x, w, b, dy, to };
    for (int i = 0; i < DT__COUNT_OF(made); i++) dt_tensor_free(made[i]);
    dt_tape_free(t);
    dt_ctx_free(ctx);
}

START_TEST(padding_never_reaches_results)
{
    check_padding(false);
    check_padding(true);
}
END_TEST

/* Extents that are multiples of no panel, vector or number of threads. */
START_TEST(random_extents_agree)
{
    static const int bits[] = { 0, 8, 4 };
    dt__stream stream = dt__stream_of((uint64_t)_i, DT__FOR_USER);
    for (int k = 0; k < 12; k++) {
        trial r = { .spoilt = true };
        r.experts = 1 + (int64_t)dt__random_below(&stream, 9);
        r.in = 1 + (int64_t)dt__random_below(&stream, k % 4 == 0 ? 300 : 50);
        r.out = 1 + (int64_t)dt__random_below(&stream, k % 3 == 0 ? 200 : 40);
        r.reads = (int64_t)dt__random_below(&stream, 4);
        r.rows = (r.reads == 0 ? 2 : 1) + (int64_t)dt__random_below(&stream, k % 5 == 0 ? 250 : 20);
        r.form = (form)dt__random_below(&stream, FORMS);
        r.bits = bits[dt__random_below(&stream, 3)];
        r.uneven = (int)dt__random_below(&stream, 3);
        r.bias = dt__random_below(&stream, 2) == 0;
        r.threads = 1 + (int)dt__random_below(&stream, 4);
        try_it(&r);
        try_threads(r, r.threads == 1 ? 3 : 1);
    }
}
END_TEST

/* ---- columns in an order -------------------------------------------------------------------- */

/* Random codes; in each expert's groups the first columns of two groups change places; which groups
 * these are depends on the expert. */
static dt_status deal_columns(void *user, const char *path, const dt_tensor *master,
                              const dt_quant_spec *quant, const dt_code_rows *to)
{
    dt__stream *stream = user;
    const int64_t n = dt_count(master), in = dt_dim(master, -1), group = quant->group_size;
    (void)path;
    for (int64_t i = 0; i < n; i++) to->codes[i] = (int8_t)(dt__random_below(stream, 16)) - 8;
    for (int64_t i = 0; i < n / group; i++) {
        to->scale[i] = (float)(1 + dt__random_below(stream, 1000)) * 0x1p-12f;
    }
    ck_assert_int_eq(to->op_groups, dt_grouped_count(master));
    for (int64_t e = 0; e < to->op_groups; e++) {
        to->group_of[e * in + e] = 1;
        to->group_of[e * in + group] = 0;
    }
    return DT_OK;
}

/* A converted layer whose experts each have a column order, multiplied by codes and by few rows of
 * floats. */
static void check_order(int preset, int64_t rows)
{
    enum { EXPERTS = 3, IN = 64, OUT = 37 };
    dt_ctx *ctx;
    dt_tape *t;
    dt_module *m;
    dt__stream stream = dt__stream_of(3, DT__FOR_USER);
    const dt_rounder dealer = { "dealer", deal_columns, &stream };
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    TEST_OK(ctx, dt_grouped_linear_create(ctx, EXPERTS, IN, OUT, false, &m));
    dt_qat_options o = dt_qat_defaults();
    o.preset = preset;
    TEST_OK(ctx, dt_prepare(m, &o));
    TEST_OK(ctx, dt_convert(m, &dealer, NULL));
    dt_tensor *w = dt_param(m, "weight");
    ck_assert(dt_is_packed(w));
    dt_no_grad(t, true);
    dt_tensor *x = random_tensor(ctx, 2, (const int64_t[]){ rows, IN });
    int64_t *expert = calloc((size_t)rows, sizeof *expert);
    for (int64_t i = 0; i < rows; i++) expert[i] = i % EXPERTS;
    dt_tensor *index = integers(ctx, 1, &rows, expert), *in[] = { x, index }, *y;
    TEST_OK(ctx, dt_forward_n(t, m, in, 2, &y, 1));
    for (int64_t i = 0; i < rows; i++) { /* a single row has the bits that it has among others */
        const dt_quant_spec q = dt_activation_quant_defaults();
        dt_tensor *one =
            copy_of(ctx, 2, (const int64_t[]){ 1, IN }, (const float *)dt_data(x) + i * IN);
        dt_tensor *of = dt_grouped_expert(w, expert[i]), *codes = one;
        ck_assert_ptr_nonnull(of);
        if (preset == DT_INT8_DYNAMIC_INT4_WEIGHT) codes = dt_fake_quant(t, one, &q, true);
        const dt_tensor *want = dt_linear(t, codes, of, NULL);
        ck_assert_msg(want != NULL, "%s", dt_error(ctx));
        TEST_EACH(memcmp((const float *)dt_data(y) + i * OUT, dt_data(want), OUT * sizeof(float)) ==
                      0,
                  "row %lld of %lld, preset %d", (long long)i, (long long)rows, preset);
        dt_tensor_free(one);
        dt_tensor_free(of);
    }
    free(expert);
    dt_tensor_free(x);
    dt_tensor_free(index);
    dt_module_free(m);
    dt_tape_free(t);
    dt_ctx_free(ctx);
}

START_TEST(columns_in_an_order)
{
    check_order(DT_INT8_DYNAMIC_INT4_WEIGHT, 300);
    check_order(DT_INT8_DYNAMIC_INT4_WEIGHT, 2);
    check_order(DT_INT4_WEIGHT, 30);
}
END_TEST

Suite *test_grouped_linear_suite(void);
Suite *test_grouped_linear_suite(void)
{
    Suite *s = suite_create("grouped_linear");
    TCase *c = tcase_create("grouped_linear");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, bits_equal_those_of_separate_layers);
    tcase_add_test(c, large_products_have_the_same_bits);
    tcase_add_test(c, padding_never_reaches_results);
    tcase_add_loop_test(c, random_extents_agree, 0, 10);
    tcase_add_test(c, columns_in_an_order);
    suite_add_tcase(s, c);
    return s;
}
