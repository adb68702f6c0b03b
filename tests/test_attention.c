/* Attention by tiles against its definition in double, on views of one joint tensor: shapes around
 * the edges of tiles, masks, grouped heads, one query after many keys; the same bits on any number
 * of threads; memory that grows with the length, not with its square. */
#include "testing.h"

#include "autograd/kind.h"

#include <detent/experimental/ops.h>
#include <math.h>
#include <stdlib.h>

typedef struct setup {
    int64_t batch, queries, keys, heads, kv_heads, width;
    bool causal, masked, documents;
    double range; /* of q */
    int threads;
    int64_t window;
} setup;

typedef struct scene {
    const setup *s;
    dt_ctx *ctx;
    dt_tape *t;
    dt_tensor *joint; /* [batch, keys, heads + 2 kv_heads, width]: q is at the last positions */
    dt_tensor *mask, *document, *up;
    dt_tensor *q, *k, *v, *y, *lse;
} scene;

static double draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 40) * 0x1p-23 - 1;
}

static dt_tensor *part(scene *o, const int64_t place[2], const int64_t head[2])
{
    const dt_slice_options cut = { .dims = { 2, { 1, 2 } },
                                   .starts = { 2, { place[0], head[0] } },
                                   .stops = { 2, { place[1], head[1] } } };
    return dt_slice(o->t, o->joint, &cut);
}

static dt_tensor *random_floats(scene *o, int rank, const int64_t *dims, uint64_t state)
{
    dt_tensor *x;
    TEST_OK(o->ctx, dt_tensor_create(o->ctx, DT_F32, rank, dims, &x));
    float *data = dt_data_mut(x);
    for (int64_t i = 0; i < dt_count(x); i++) data[i] = (float)draw(&state);
    return x;
}

static void make_masks(scene *o)
{
    const setup *s = o->s;
    const int64_t dims[] = { s->batch, s->keys };
    uint64_t state = 17;
    if (s->masked) {
        TEST_OK(o->ctx, dt_tensor_create(o->ctx, DT_U8, 2, dims, &o->mask));
        uint8_t *data = dt_data_mut(o->mask);
        for (int64_t i = 0; i < dims[0] * dims[1]; i++) data[i] = draw(&state) > -0.5;
    }
    if (s->documents) { /* of some 50 keys each, then padding */
        TEST_OK(o->ctx, dt_tensor_create(o->ctx, DT_I32, 2, dims, &o->document));
        int32_t *data = dt_data_mut(o->document);
        for (int64_t i = 0; i < dims[0] * dims[1]; i++) {
            const int64_t place = i % dims[1];
            data[i] = place * 10 > dims[1] * 9 ? -1 : (int32_t)(place / 50);
        }
    }
}

static void open_scene(const setup *s, scene *o)
{
    *o = (scene){ .s = s };
    dt_ctx_options options = dt_ctx_defaults();
    options.threads = s->threads > 0 ? s->threads : 2;
    TEST_OK(NULL, dt_ctx_create(&o->ctx, &options));
    TEST_OK(o->ctx, dt_tape_create(o->ctx, &o->t));
    const int64_t h = s->heads, g = s->kv_heads;
    o->joint = random_floats(o, 4, (const int64_t[]){ s->batch, s->keys, h + 2 * g, s->width }, 5);
    float *data = dt_data_mut(o->joint);
    for (int64_t i = 0; i < dt_count(o->joint); i++) {
        if (i / s->width % (h + 2 * g) < h) data[i] *= (float)s->range;
    }
    o->up = random_floats(o, 4, (const int64_t[]){ s->batch, s->queries, h, s->width }, 9);
    make_masks(o);
    TEST_OK(o->ctx, dt_set_requires_grad(o->joint, true));
    o->q = part(o, (const int64_t[]){ s->keys - s->queries, s->keys }, (const int64_t[]){ 0, h });
    o->k = part(o, (const int64_t[]){ 0, s->keys }, (const int64_t[]){ h, h + g });
    o->v = part(o, (const int64_t[]){ 0, s->keys }, (const int64_t[]){ h + g, h + 2 * g });
    o->y = dt_attention(
        o->t,
        &(dt_attention_operands){
            .q = o->q, .k = o->k, .v = o->v, .key_mask = o->mask, .document = o->document },
        &(dt_attention_options){ .causal = s->causal, .window = s->window }, &o->lse);
    TEST_OK(o->ctx, dt_tape_status(o->t));
}

static void close_scene(scene *o)
{
    dt_tape_free(o->t);
    dt_tensor_free(o->joint);
    dt_tensor_free(o->up);
    dt_tensor_free(o->mask);
    dt_tensor_free(o->document);
    dt_ctx_free(o->ctx);
}

/* ---- the definition ------------------------------------------------------------------------- */

static bool sees(const scene *o, int64_t b, int64_t r, int64_t key)
{
    const setup *s = o->s;
    const int64_t place = r + s->keys - s->queries;
    if (s->causal && key > place) return false;
    if (s->window > 0 && key <= place - s->window) return false;
    if (s->masked && ((const uint8_t *)dt_data(o->mask))[b * s->keys + key] == 0) return false;
    if (!s->documents) return true;
    const int32_t *document = (const int32_t *)dt_data(o->document) + b * s->keys;
    return document[place] >= 0 && document[place] == document[key];
}

/* Where element 0 of a head lies in joint. */
static int64_t at(const setup *s, int64_t b, int64_t place, int64_t head)
{
    return ((b * s->keys + place) * (s->heads + 2 * s->kv_heads) + head) * s->width;
}

static double dot(const setup *s, const float *x, const float *y)
{
    double sum = 0;
    for (int64_t i = 0; i < s->width; i++) sum += (double)x[i] * (double)y[i];
    return sum;
}

/* One row: computes y and lse, and adds the row's share to the gradient of joint. */
static void define_row(const scene *o, const int64_t at_row[3], double *y, double *lse, double *d)
{
    const setup *s = o->s;
    const int64_t b = at_row[0], r = at_row[1], h = at_row[2], g = h / (s->heads / s->kv_heads);
    const float *joint = dt_data(o->joint), *up = dt_data(o->up);
    const int64_t row = (b * s->queries + r) * s->heads + h;
    const int64_t q = at(s, b, r + s->keys - s->queries, h);
    const double scale = 1 / sqrt((double)s->width);
    double *p = calloc((size_t)s->keys + 1, sizeof *p), most = -INFINITY, sum = 0, delta = 0;
    for (int64_t j = 0; j < s->keys; j++) {
        p[j] = -INFINITY;
        if (!sees(o, b, r, j)) continue;
        p[j] = scale * dot(s, joint + q, joint + at(s, b, j, s->heads + g));
        most = fmax(most, p[j]);
    }
    for (int64_t j = 0; j < s->keys; j++) sum += p[j] = most == -INFINITY ? 0 : exp(p[j] - most);
    lse[row] = most + log(sum);
    for (int64_t j = 0; j < s->keys && sum > 0; j++) {
        const int64_t v = at(s, b, j, s->heads + s->kv_heads + g);
        p[j] /= sum;
        for (int64_t i = 0; i < s->width; i++) {
            y[row * s->width + i] += p[j] * (double)joint[v + i];
            d[v + i] += p[j] * (double)up[row * s->width + i];
        }
        delta += p[j] * dot(s, up + row * s->width, joint + v);
    }
    for (int64_t j = 0; j < s->keys && sum > 0; j++) {
        const int64_t k = at(s, b, j, s->heads + g), v = at(s, b, j, s->heads + s->kv_heads + g);
        const double ds = scale * p[j] * (dot(s, up + row * s->width, joint + v) - delta);
        for (int64_t i = 0; i < s->width; i++) {
            d[q + i] += ds * (double)joint[k + i];
            d[k + i] += ds * (double)joint[q + i];
        }
    }
    free(p);
}

static void compare(const char *what, const setup *s, const float *got, const double *want,
                    int64_t n, double within)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        if (isfinite(want[i])) most = fmax(most, fabs(want[i]));
    }
    for (int64_t i = 0; i < n; i++) {
        TEST_EACH(test_near((double)got[i], want[i], 1e-6 + within * most, 0),
                  "%s[%lld] is %g, not %g (%lld queries, %lld keys, %lld/%lld heads of %lld)", what,
                  (long long)i, (double)got[i], want[i], (long long)s->queries, (long long)s->keys,
                  (long long)s->heads, (long long)s->kv_heads, (long long)s->width);
    }
}

static void check(const setup *s)
{
    scene o;
    open_scene(s, &o);
    const int64_t rows = s->batch * s->queries * s->heads, n = dt_count(o.joint);
    double *y = calloc((size_t)(rows * s->width), sizeof *y), *d = calloc((size_t)n, sizeof *d);
    double *lse = calloc((size_t)rows, sizeof *lse);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t row[] = { i / s->heads / s->queries, i / s->heads % s->queries,
                                i % s->heads };
        define_row(&o, row, y, lse, d);
    }
    const double within = s->range > 10 ? 1e-3 : 1e-5;
    compare("y", s, dt_data(o.y), y, rows * s->width, within);
    compare("lse", s, dt_data(o.lse), lse, rows, within);
    TEST_OK(o.ctx, dt_backward(o.t, o.y, o.up));
    compare("gradient", s, dt_data(dt_grad(o.joint)), d, n, 10 * within);
    free(y);
    free(lse);
    free(d);
    close_scene(&o);
}

START_TEST(edges_of_tiles)
{
    const int64_t lengths[] = { 1, 3, 4, 5, 15, 16, 17, 63, 64, 65, 129, 200 };
    const int64_t length = lengths[_i];
    check(&(setup){ 2, length, length, 4, 2, 12, true, false, false, 1, 0, 0 });
    check(&(setup){ 1, length, length, 2, 2, 16, false, true, false, 1, 0, 0 });
    check(&(setup){ 1, dt__min_i64(length, 7), length, 6, 2, 40, true, true, true, 1, 0, 0 });
    check(&(setup){ 2, 1, length, 4, 1, 32, true, false, false, 1, 0, 0 });
    check(&(setup){ 2, 1, length, 3, 3, 9, true, true, false, 1, 0, 0 });
    check(&(setup){ 1, length, length, 3, 1, 20, true, false, true, 1, 0, 0 });
}
END_TEST

START_TEST(random_shapes)
{
    uint64_t state = (uint64_t)_i * 31 + 7;
    for (int k = 0; k < 6; k++) {
        setup s = { .batch = 1 + (int64_t)(draw(&state) + 1), .range = 2, .threads = 1 + k % 3 };
        s.keys = 1 + (int64_t)(75 * (draw(&state) + 1));
        s.queries =
            draw(&state) < 0 ? s.keys : 1 + (int64_t)((draw(&state) + 1) * 0.49 * (double)s.keys);
        s.kv_heads = 1 + (int64_t)(draw(&state) + 1);
        s.heads = s.kv_heads * (1 + (int64_t)(1.5 * (draw(&state) + 1)));
        s.width = 1 + (int64_t)(35 * (draw(&state) + 1));
        s.causal = draw(&state) < 0.5;
        s.masked = draw(&state) < 0;
        s.documents = draw(&state) < 0;
        check(&s);
    }
}
END_TEST

START_TEST(extreme_scores)
{
    check(&(setup){ 1, 70, 70, 2, 1, 16, true, false, false, 1000, 0, 0 });
    check(&(setup){ 1, 2, 600, 2, 1, 16, true, true, false, 1000, 0, 0 });
}
END_TEST

static const setup windows[] = {
    { 1, 17, 17, 2, 1, 12, true, false, false, 1, 1, 1 },
    { 2, 64, 64, 4, 2, 16, true, false, false, 1, 2, 16 },
    { 1, 130, 200, 3, 1, 20, true, false, true, 1, 2, 63 },
    { 1, 200, 200, 2, 2, 9, true, true, false, 1, 3, 64 },
    { 1, 150, 150, 1, 1, 16, true, false, false, 1, 2, 65 },
    { 1, 3, 700, 1, 1, 16, true, false, false, 1, 2, 130 },
    { 1, 1, 1300, 4, 1, 32, true, false, false, 1, 3, 512 },
    { 2, 5, 1030, 2, 2, 7, true, true, true, 1, 2, 515 },
    { 1, 600, 600, 1, 1, 8, true, false, false, 1, 2, 100 },
    { 1, 40, 40, 2, 1, 12, true, false, false, 1, 1, 400 },
};

START_TEST(windows_of_keys) { check(&windows[_i]); }
END_TEST

START_TEST(parts_of_many_keys)
{
    check(&(setup){ 1, 1, 1500, 1, 1, 32, true, false, false, 1, 3, 0 });
    check(&(setup){ 1, 2, 1025, 2, 1, 7, true, true, true, 1, 2, 0 });
    check(&(setup){ 1, 4, 512, 1, 1, 16, true, false, false, 1, 2, 0 });
}
END_TEST

/* ---- few rows and many ----------------------------------------------------------------------- */

/* k as a view of [batch, heads, width, keys]: vectors of keys are contiguous, as in a cache. */
static dt_tensor *transposed(scene *o)
{
    const int64_t apart[] = { 0, 2, 3, 1 }, back[] = { 0, 3, 1, 2 };
    const int64_t b = dt_dim(o->k, 0), n = dt_dim(o->k, 1), h = dt_dim(o->k, 2);
    dt_tensor *x;
    TEST_OK(o->ctx,
            dt_tensor_create(o->ctx, DT_F32, 4, (const int64_t[]){ b, h, dt_dim(o->k, 3), n }, &x));
    dt__copy_tensor(dt_permute(o->t, o->k, apart), x);
    dt_tensor *y = dt_permute(o->t, x, back);
    ck_assert_ptr_nonnull(y);
    ck_assert_int_eq(y->strides[1], 1);
    dt_tensor_free(x);
    return y;
}

/* The last queries of `many` alone have the bits that they have among the others; with transposed
 * keys, too. */
static void check_few(const setup *many, int64_t queries)
{
    scene all, last;
    setup few = *many;
    few.queries = queries;
    open_scene(many, &all);
    open_scene(&few, &last);
    const dt_attention_options how = { .causal = many->causal, .window = many->window };
    dt_tensor *lse, *k = transposed(&last), *of_all_lse, *of_all_k = transposed(&all);
    dt_tensor *y[] = { last.y,
                       dt_attention(last.t,
                                    &(dt_attention_operands){ .q = last.q,
                                                              .k = k,
                                                              .v = last.v,
                                                              .key_mask = last.mask,
                                                              .document = last.document },
                                    &how, &lse),
                       dt_attention(all.t,
                                    &(dt_attention_operands){ .q = all.q,
                                                              .k = of_all_k,
                                                              .v = all.v,
                                                              .key_mask = all.mask,
                                                              .document = all.document },
                                    &how, &of_all_lse) };
    dt_tensor *sums[] = { last.lse, lse, of_all_lse };
    const int64_t row = many->heads * many->width;
    for (int64_t b = 0; b < many->batch; b++) {
        const int64_t from = (b + 1) * many->queries - queries;
        const float *want = (const float *)dt_data(all.y) + from * row;
        const float *want_sums = (const float *)dt_data(all.lse) + from * many->heads;
        for (int i = 0; i < 3; i++) {
            const int64_t at = i == 2 ? from : b * queries;
            const float *got = (const float *)dt_data(y[i]) + at * row;
            const float *got_sums = (const float *)dt_data(sums[i]) + at * many->heads;
            TEST_EACH(
                memcmp(got, want, (size_t)(queries * row) * sizeof *got) == 0 &&
                    memcmp(got_sums, want_sums, (size_t)(queries * many->heads) * sizeof *got) == 0,
                "way %d: %lld of %lld queries, %lld keys, %lld/%lld heads of %lld", i,
                (long long)queries, (long long)many->queries, (long long)many->keys,
                (long long)many->heads, (long long)many->kv_heads, (long long)many->width);
        }
    }
    close_scene(&all);
    close_scene(&last);
}

/* One of so many shapes has other keys; one of so many numbers of queries is tried. */
static const test_draws few_steps = { .usual = 1, .sanitized = 3 };
static const test_draws query_steps = { .usual = 1, .sanitized = 2 };

START_TEST(few_rows_have_the_bits_of_many)
{
    uint64_t state = (uint64_t)_i * 53 + 11;
    const int64_t keys[] = { 9, 64, 65, 150, 512, 520, 1100 };
    for (int k = 0; k < 8; k++) {
        setup s = { .batch = 1 + k % 2, .range = 2, .threads = 1 + k % 3, .keys = keys[_i] };
        s.queries = dt__min_i64(s.keys, 6 + (int64_t)(40 * (draw(&state) + 1)));
        s.kv_heads = 1 + (int64_t)(draw(&state) + 1);
        s.heads = s.kv_heads * (1 + (int64_t)(2.5 * (draw(&state) + 1)));
        s.width = 1 + (int64_t)(35 * (draw(&state) + 1));
        if (k % 4 == 3) s.width = 16 * (1 + k / 4);
        s.causal = draw(&state) < 0.5;
        s.masked = draw(&state) < -0.4;
        s.documents = draw(&state) < -0.4;
        if (s.causal && k % 2 == 0)
            s.window = 1 + (int64_t)(0.3 * (draw(&state) + 1) * (double)s.keys);
        const int64_t by = test_count(query_steps);
        if ((k + _i) % test_count(few_steps) != 0) continue; /* drawn all the same */
        for (int64_t n = 1 + k % by; n < 6; n += by) check_few(&s, n);
    }
}
END_TEST

/* ---- threads, memory, masked keys ----------------------------------------------------------- */

START_TEST(threads_give_the_same_bits)
{
    const setup shapes[] = { { 1, 300, 300, 1, 1, 24, true, false, false, 1, 1, 0 },
                             { 3, 130, 130, 2, 1, 32, true, true, true, 1, 1, 0 },
                             { 1, 1, 2000, 2, 1, 32, true, false, false, 1, 1, 0 },
                             { 1, 300, 300, 1, 1, 24, true, false, false, 1, 1, 90 } };
    setup s = shapes[_i];
    scene one;
    open_scene(&s, &one);
    TEST_OK(one.ctx, dt_backward(one.t, one.y, one.up));
    for (int threads = 2; threads <= 5; threads++) {
        s.threads = threads;
        scene many;
        open_scene(&s, &many);
        TEST_OK(many.ctx, dt_backward(many.t, many.y, many.up));
        const size_t bytes = (size_t)dt_count(one.y) * sizeof(float);
        const size_t all = (size_t)dt_count(one.joint) * sizeof(float);
        ck_assert(memcmp(dt_data(one.y), dt_data(many.y), bytes) == 0);
        ck_assert(memcmp(dt_data(dt_grad(one.joint)), dt_data(dt_grad(many.joint)), all) == 0);
        close_scene(&many);
    }
    close_scene(&one);
}
END_TEST

static size_t peak_of(int64_t length)
{
    const setup s = { 1, length, length, 2, 1, 16, true, false, false, 1, 2, 0 };
    scene o;
    open_scene(&s, &o);
    TEST_OK(o.ctx, dt_backward(o.t, o.y, o.up));
    const size_t peak = dt_memory_of(o.ctx).peak;
    close_scene(&o);
    return peak;
}

START_TEST(memory_is_linear)
{
    const size_t short_one = peak_of(500), long_one = peak_of(2000);
    ck_assert_uint_lt(long_one, 5 * short_one);
    ck_assert_uint_lt(long_one, (size_t)2000 * 2000); /* a byte a pair */
}
END_TEST

START_TEST(a_hidden_key_may_hold_anything)
{
    const int64_t queries = _i == 0 ? 1 : 20;
    dt_ctx *ctx;
    dt_tape *t;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    scene o = { .ctx = ctx };
    dt_tensor *q = random_floats(&o, 4, (const int64_t[]){ 1, queries, 2, 8 }, 3), *mask, *lse;
    dt_tensor *k = random_floats(&o, 4, (const int64_t[]){ 1, 20, 1, 8 }, 4);
    dt_tensor *v = random_floats(&o, 4, (const int64_t[]){ 1, 20, 1, 8 }, 5);
    TEST_OK(ctx, dt_tensor_create(ctx, DT_BOOL, 2, (const int64_t[]){ 1, 20 }, &mask));
    memset(dt_data_mut(mask), 1, 20);
    ((uint8_t *)dt_data_mut(mask))[3] = 0;
    for (int i = 0; i < 8; i++) {
        ((float *)dt_data_mut(k))[3 * 8 + i] = NAN;
        ((float *)dt_data_mut(v))[3 * 8 + i] = INFINITY;
    }
    dt_tensor *all[] = { q, k, v };
    for (int i = 0; i < 3; i++) TEST_OK(ctx, dt_set_requires_grad(all[i], true));
    dt_tensor *y = dt_attention(
        t, &(dt_attention_operands){ .q = q, .k = k, .v = v, .key_mask = mask }, NULL, &lse);
    TEST_OK(ctx, dt_backward(t, dt_sum(t, y, NULL), NULL));
    for (int i = 0; i < 3; i++) {
        const float *d = dt_data(dt_grad(all[i]));
        for (int64_t e = 0; e < dt_count(all[i]); e++) TEST_EACH(isfinite(d[e]), "gradient %d", i);
        dt_tensor_free(all[i]);
    }
    dt_tensor_free(mask);
    dt_tape_free(t);
    dt_ctx_free(ctx);
}
END_TEST

static void check_sole_key(dt_ctx *c, int64_t queries, bool hidden)
{
    dt_tape *t;
    TEST_OK(c, dt_tape_create(c, &t));
    scene o = { .ctx = c };
    dt_tensor *q = random_floats(&o, 4, (const int64_t[]){ 1, queries, 2, 8 }, 3), *mask, *lse;
    dt_tensor *k = random_floats(&o, 4, (const int64_t[]){ 1, 600, 1, 8 }, 4);
    dt_tensor *v = random_floats(&o, 4, (const int64_t[]){ 1, 600, 1, 8 }, 5);
    TEST_OK(c, dt_tensor_create(c, DT_BOOL, 2, (const int64_t[]){ 1, 600 }, &mask));
    memset(dt_data_mut(mask), 0, 600);
    ((uint8_t *)dt_data_mut(mask))[530] = !hidden;
    ((float *)dt_data_mut(k))[530 * 8] = NAN;
    ((float *)dt_data_mut(q))[3] = NAN;
    const dt_attention_options how = { .causal = false };
    const dt_tensor *y = dt_attention(
        t, &(dt_attention_operands){ .q = q, .k = k, .v = v, .key_mask = mask }, &how, &lse);
    TEST_OK(c, dt_tape_status(t));
    const float *data = dt_data(y), *sums = dt_data(lse);
    for (int64_t e = 0; e < dt_count(y); e++) {
        TEST_EACH(hidden ? data[e] == 0 : isnan(data[e]) != 0, "element %lld is %g", (long long)e,
                  (double)data[e]);
    }
    for (int64_t r = 0; r < dt_count(lse); r++) {
        TEST_EACH(hidden ? sums[r] == -INFINITY : isnan(sums[r]) != 0, "lse %lld is %g",
                  (long long)r, (double)sums[r]);
    }
    dt_tensor_free(q);
    dt_tensor_free(k);
    dt_tensor_free(v);
    dt_tensor_free(mask);
    dt_tape_free(t);
}

/* A mask leaves one key, which is NaN, or none: then the result is 0, also of a query that is NaN.
 * _i: whether the key is hidden. */
START_TEST(a_bad_key_alone_is_no_hidden_key)
{
    dt_ctx *c;
    TEST_OK(NULL, dt_ctx_create(&c, NULL));
    for (int64_t queries = 1; queries < 90; queries += 29) check_sole_key(c, queries, _i == 1);
    dt_ctx_free(c);
}
END_TEST

/* ---- codes of keys and values ---------------------------------------------------------------- */

typedef struct coded_case {
    int64_t queries, keys, heads, kv_heads, width, window; /* window 0: none */
} coded_case;

/* x as codes times scales that are powers of two, and the same as floats. */
static void code_rows(dt_ctx *c, const coded_case *k, uint64_t seed, dt_tensor *out[3])
{
    const int64_t dims[] = { 1, k->keys, k->kv_heads, k->width };
    dt__stream s = dt__stream_of(seed, DT__FOR_USER);
    ck_assert_int_eq(dt_tensor_create(c, DT_I8, 4, dims, &out[0]), DT_OK);
    ck_assert_int_eq(dt_tensor_create(c, DT_F32, 3, dims, &out[1]), DT_OK);
    ck_assert_int_eq(dt_tensor_create(c, DT_F32, 4, dims, &out[2]), DT_OK);
    int8_t *codes = dt_data_mut(out[0]);
    float *scale = dt_data_mut(out[1]), *floats = dt_data_mut(out[2]);
    for (int64_t row = 0; row < out[1]->count; row++) {
        scale[row] = ldexpf(1, -(int)dt__random_below(&s, 8));
        for (int64_t i = row * k->width; i < (row + 1) * k->width; i++) {
            codes[i] = (int8_t)((int)dt__random_below(&s, 255) - 127);
            floats[i] = (float)codes[i] * scale[row];
        }
    }
}

/* Scales that are powers of two round nothing, so codes give the bits of their dequantized
 * values. */
START_TEST(codes_have_the_bits_of_their_floats)
{
    static const coded_case all[] = { { 1, 1, 1, 1, 1, 0 },      { 1, 70, 4, 1, 16, 0 },
                                      { 1, 530, 2, 2, 48, 0 },   { 5, 130, 6, 3, 20, 0 },
                                      { 70, 70, 2, 1, 16, 0 },   { 3, 600, 1, 1, 33, 0 },
                                      { 1, 700, 2, 1, 16, 140 }, { 70, 90, 2, 1, 16, 21 } };
    dt_ctx *c;
    ck_assert_int_eq(dt_ctx_create(&c, NULL), DT_OK);
    for (int i = 0; i < DT__COUNT_OF(all); i++) {
        const coded_case *k = &all[i];
        const int64_t dims[] = { 1, k->queries, k->heads, k->width };
        dt_tensor *q, *key[3], *value[3];
        dt_tape *tape;
        ck_assert_int_eq(dt_tape_create(c, &tape), DT_OK);
        ck_assert_int_eq(dt_tensor_create(c, DT_F32, 4, dims, &q), DT_OK);
        float *x = dt_data_mut(q);
        for (int64_t e = 0; e < q->count; e++) x[e] = (float)(e * 37 % 101) / 3000 - 0.015f;
        code_rows(c, k, 50 + (uint64_t)i, key);
        code_rows(c, k, 90 + (uint64_t)i, value);
        const dt_attention_operands coded = {
            .q = q, .k = key[0], .v = value[0], .k_scale = key[1], .v_scale = value[1]
        };
        const dt_attention_operands floats = { .q = q, .k = key[2], .v = value[2] };
        const dt_attention_options how = { .causal = true, .window = k->window };
        const dt_tensor *got = dt_attention(tape, &coded, &how, NULL);
        const dt_tensor *want = dt_attention(tape, &floats, &how, NULL);
        ck_assert_msg(got != NULL && want != NULL, "%s", dt_error(c));
        ck_assert_msg(memcmp(dt_data(got), dt_data(want), (size_t)got->count * 4) == 0, "case %d",
                      i);
        dt_tape_free(tape);
        dt_tensor_free(q);
        for (int n = 0; n < 3; n++) dt_tensor_free(key[n]);
        for (int n = 0; n < 3; n++) dt_tensor_free(value[n]);
    }
    dt_ctx_free(c);
}
END_TEST

/* Codes of 4 bits, packed, and the floats that they stand for, H codes scale / order. */
static void packed_rows(dt_ctx *c, const coded_case *k, uint64_t seed, dt_tensor *out[3])
{
    const int64_t half = (k->width + 1) / 2, order = k->width & -k->width;
    const int64_t dims[] = { 1, k->keys, k->kv_heads, k->width };
    dt__stream s = dt__stream_of(seed, DT__FOR_USER);
    TEST_OK(c, dt_tensor_create(c, DT_U8, 4, (int64_t[]){ 1, k->keys, k->kv_heads, half }, out));
    TEST_OK(c, dt_tensor_create(c, DT_F32, 3, dims, &out[1]));
    TEST_OK(c, dt_tensor_create(c, DT_F32, 4, dims, &out[2]));
    uint8_t *codes = dt_data_mut(out[0]);
    float *scale = dt_data_mut(out[1]), *floats = dt_data_mut(out[2]);
    for (int64_t row = 0; row < out[1]->count; row++, codes += half, floats += k->width) {
        scale[row] = (float)dt__random_unit(&s) - 0.5f;
        for (int64_t i = 0; i < k->width; i++) {
            const int code = (int)dt__random_below(&s, 16) - 8;
            codes[i % half] |= (uint8_t)((code & 15) << (i < half ? 0 : 4));
            for (int64_t j = i - i % order; j < i - i % order + order; j++) {
                const bool odd = __builtin_parityll((uint64_t)(i % order & j % order)) != 0;
                floats[j] += (odd ? -1.0f : 1.0f) * (float)code * scale[row] / (float)order;
            }
        }
    }
}

START_TEST(packed_codes_stand_for_rotated_rows)
{
    static const coded_case all[] = { { 1, 1, 1, 1, 1, 0 },      { 1, 70, 4, 1, 16, 0 },
                                      { 1, 530, 2, 2, 48, 0 },   { 5, 130, 6, 3, 20, 0 },
                                      { 70, 70, 2, 1, 64, 0 },   { 3, 600, 1, 1, 33, 0 },
                                      { 1, 700, 2, 1, 16, 140 }, { 70, 90, 2, 1, 6, 21 } };
    dt_ctx *c;
    TEST_OK(NULL, dt_ctx_create(&c, NULL));
    for (int i = 0; i < DT__COUNT_OF(all); i++) {
        const coded_case *k = &all[i];
        dt_tensor *q, *key[3], *value[3];
        dt_tape *tape;
        TEST_OK(c, dt_tape_create(c, &tape));
        TEST_OK(c, dt_tensor_create(c, DT_F32, 4, (int64_t[]){ 1, k->queries, k->heads, k->width },
                                    &q));
        float *x = dt_data_mut(q);
        for (int64_t e = 0; e < q->count; e++) x[e] = (float)(e * 37 % 101) / 50 - 1;
        packed_rows(c, k, 50 + (uint64_t)i, key);
        packed_rows(c, k, 90 + (uint64_t)i, value);
        const dt_attention_options how = { .causal = true, .window = k->window };
        const dt_tensor *got = dt_attention(
            tape,
            &(dt_attention_operands){
                .q = q, .k = key[0], .v = value[0], .k_scale = key[1], .v_scale = value[1] },
            &how, NULL);
        const dt_tensor *want = dt_attention(
            tape, &(dt_attention_operands){ .q = q, .k = key[2], .v = value[2] }, &how, NULL);
        ck_assert_msg(got != NULL && want != NULL, "%s", dt_error(c));
        const float *a = dt_data(got), *b = dt_data(want);
        for (int64_t e = 0; e < got->count; e++) {
            TEST_EACH(fabsf(a[e] - b[e]) < 1e-5f, "case %d, element %lld: %g, not %g", i,
                      (long long)e, (double)a[e], (double)b[e]);
        }
        dt_tape_free(tape);
        dt_tensor_free(q);
        for (int n = 0; n < 3; n++) dt_tensor_free(key[n]);
        for (int n = 0; n < 3; n++) dt_tensor_free(value[n]);
    }
    dt_ctx_free(c);
}
END_TEST

static void refuses(dt_ctx *c, const dt_attention_operands *x, dt_status status, const char *says)
{
    dt_tape *tape;
    ck_assert_int_eq(dt_tape_create(c, &tape), DT_OK);
    ck_assert_ptr_null(dt_attention(tape, x, NULL, NULL));
    ck_assert_int_eq(dt_tape_status(tape), status);
    ck_assert_msg(strstr(dt_error(c), says) != NULL, "%s", dt_error(c));
    dt_tape_free(tape);
}

START_TEST(codes_have_neither_masks_nor_gradients)
{
    const coded_case k = { 1, 3, 1, 1, 4, 0 };
    const int64_t dims[] = { 1, 1, 1, 4 }, mask_dims[] = { 1, 3 };
    dt_ctx *c;
    dt_tensor *q, *mask, *key[3];
    ck_assert_int_eq(dt_ctx_create(&c, NULL), DT_OK);
    ck_assert_int_eq(dt_tensor_create(c, DT_F32, 4, dims, &q), DT_OK);
    ck_assert_int_eq(dt_tensor_create(c, DT_U8, 2, mask_dims, &mask), DT_OK);
    code_rows(c, &k, 3, key);
    dt_attention_operands x = {
        .q = q, .k = key[0], .v = key[0], .k_scale = key[1], .v_scale = key[1], .key_mask = mask
    };
    refuses(c, &x, DT_ERR_ARG, "k_scale excludes masks");
    x.key_mask = NULL;
    dt_set_requires_grad(q, true);
    refuses(c, &x, DT_ERR_STATE, "with k_scale there is no gradient");
    dt_tensor_free(q);
    dt_tensor_free(mask);
    for (int n = 0; n < 3; n++) dt_tensor_free(key[n]);
    dt_ctx_free(c);
}
END_TEST

Suite *test_attention_suite(void)
{
    Suite *s = suite_create("attention");
    TCase *c = tcase_create("tiles");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, edges_of_tiles, 0, 12);
    tcase_add_loop_test(c, random_shapes, 0, 5);
    tcase_add_test(c, extreme_scores);
    tcase_add_test(c, parts_of_many_keys);
    tcase_add_loop_test(c, windows_of_keys, 0, (int)(sizeof windows / sizeof *windows));
    tcase_add_loop_test(c, few_rows_have_the_bits_of_many, 0, 7);
    tcase_add_loop_test(c, threads_give_the_same_bits, 0, 4);
    tcase_add_test(c, memory_is_linear);
    tcase_add_loop_test(c, a_hidden_key_may_hold_anything, 0, 2);
    tcase_add_loop_test(c, a_bad_key_alone_is_no_hidden_key, 0, 2);
    tcase_add_test(c, codes_have_the_bits_of_their_floats);
    tcase_add_test(c, packed_codes_stand_for_rotated_rows);
    tcase_add_test(c, codes_have_neither_masks_nor_gradients);
    suite_add_tcase(s, c);
    return s;
}
