/* Integer products compared with OpenBLAS's fp32 product of the same shape, with up to as many
 * threads; with detent's own fp32 product; and with another library's, if there is one.
 *
 * A product of [m, k] by [n, k] counts m n k multiply-adds. The last comparison multiplies one row
 * with weights that no cache holds: it cycles through so many copies that they exceed the last
 * cache. Its limit is reading memory. */
#include "bench/measure.h"
#include "kernels/products/blas_library.h"
#include "kernels/kernels.h"

#include <string.h>

/* ---- weights and their products ------------------------------------------------------------- */

typedef struct form {
    const char *name;
    int bits;
    int64_t group; /* 0: one group per row */
} form;

static const form forms[] = { { "int4-group32", 4, 32 },
                              { "int4-group128", 4, 128 },
                              { "int4-row", 4, 0 },
                              { "int8-row", 8, 0 } };
#define FORMS DT__COUNT_OF(forms)

typedef struct weight {
    dt__panel_layout layout;
    char *panels;
    int64_t copies;
} weight;

/* The operands of all products of a shape, up to some m. */
typedef struct operands {
    dt__bench *b;
    int64_t m, n, k;
    weight w[FORMS];
    uint8_t *u;
    float *sx, *x, *dense, *y; /* dense, too, has `copies` copies */
    void *room;                /* scratch of the fp32 product */
    int64_t copies;
    int32_t *zu;
} operands;

typedef struct subject {
    operands *o;
    int form;
    int64_t turn; /* number of runs so far, which selects the copy */
    void *rival;
} subject;

static dt_status run_integer(void *user)
{
    subject *s = user;
    const operands *o = s->o;
    const weight *w = &o->w[s->form];
    const dt__kernels *kernels = dt__kernels_of(o->b->ctx, DT_F32);
    const dt__qgemm g = { .layout = &w->layout,
                          .panels = w->panels + (size_t)(s->turn++ % w->copies) * w->layout.bytes,
                          .m = o->m,
                          .u = o->u,
                          .ldu = o->k,
                          .sx = o->sx,
                          .zu = o->zu,
                          .y = o->y,
                          .ldy = o->n };
    (w->layout.nibbles ? kernels->qd8_qb4_gemm : kernels->qd8_qb8_gemm)(&g);
    return DT_OK;
}

/* y = x W^T in floats; the caller sets W. */
static dt__gemm own_product(const operands *o)
{
    return (dt__gemm){ .trans_b = true,
                       .m = o->m,
                       .n = o->n,
                       .k = o->k,
                       .a = o->x,
                       .lda = o->k,
                       .ldb = o->k,
                       .c = o->y,
                       .ldc = o->n,
                       .scratch = o->room };
}

static dt_status run_own_f32(void *user)
{
    subject *s = user;
    const operands *o = s->o;
    dt__gemm g = own_product(o);
    g.b = o->dense + s->turn++ % o->copies * o->n * o->k;
    dt__kernels_of(o->b->ctx, DT_F32)->gemm(&g);
    return DT_OK;
}

static dt_status run_openblas(void *user)
{
    subject *s = user;
    const operands *o = s->o;
    const int m = (int)o->m, n = (int)o->n, k = (int)o->k, threads = dt_threads(o->b->ctx);
    const float *dense = o->dense + s->turn++ % o->copies * o->n * o->k;
    if (threads > 1) dt__blas.openblas_set_num_threads(threads);
    dt__blas.cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1, o->x, k, dense, k, 0,
                         o->y, n);
    if (threads > 1) dt__blas.openblas_set_num_threads(1);
    return DT_OK;
}

static dt_status run_rival(void *user)
{
    const subject *s = user;
    s->o->b->options.rival.run(s->rival);
    return DT_OK;
}

/* ---- operands ------------------------------------------------------------------------------- */

static dt_status make_weight(operands *o, const form *f, weight *w)
{
    dt_ctx *ctx = o->b->ctx;
    const dt__panel_shape shape = { o->n,    o->k,          f->group > 0 ? f->group : o->k,
                                    f->bits, DT__SCALE_F32, 0 };
    if (!dt__panel_layout_of(&shape, &w->layout)) return dt_fail(ctx, DT_ERR_SHAPE, "no panels");
    w->copies = (int64_t)((size_t)(o->copies > 1 ? o->b->memory : 1) / w->layout.bytes) + 1;
    int8_t *codes = dt__random_bytes(o->b, (size_t)(o->n * o->k));
    float *scales = dt__random_floats(o->b, o->n * w->layout.groups);
    w->panels = dt__alloc_array(ctx, w->copies, w->layout.bytes);
    const bool ok = codes != NULL && scales != NULL && w->panels != NULL;
    for (int64_t i = 0; ok && i < o->n * o->k; i++) {
        codes[i] = (int8_t)(codes[i] >> (8 - f->bits));
    }
    for (int64_t i = 0; ok && i < o->n * w->layout.groups; i++) {
        scales[i] = 0.001F * (1.5F + scales[i]);
    }
    if (ok) {
        const dt__code_matrix from = { codes, o->k, scales, w->layout.groups };
        dt__panel_pack(&w->layout, &from, w->panels);
    }
    for (int64_t i = 1; ok && i < w->copies; i++) {
        memcpy(w->panels + (size_t)i * w->layout.bytes, w->panels, w->layout.bytes);
    }
    dt__release(ctx, codes);
    dt__release(ctx, scales);
    return ok ? DT_OK : DT_ERR_NOMEM;
}

static void free_operands(operands *o)
{
    dt_ctx *ctx = o->b->ctx;
    for (int i = 0; i < FORMS; i++) dt__release(ctx, o->w[i].panels);
    dt__release(ctx, o->u);
    dt__release(ctx, o->sx);
    dt__release(ctx, o->x);
    dt__release(ctx, o->dense);
    dt__release(ctx, o->y);
    dt__release(ctx, o->zu);
    dt__release(ctx, o->room);
}

/* Operands for products of up to `m` rows by n x n weights; with `many`, enough copies to exceed
 * all caches. */
static dt_status make_operands(dt__bench *b, int64_t m, int64_t n, bool many, operands *o)
{
    *o = (operands){ .b = b, .m = m, .n = n, .k = n, .copies = 1 };
    if (many) o->copies = 1 + (int64_t)(b->memory / sizeof(float)) / (n * n);
    if (many && o->copies == 1) o->copies = 2;
    for (int i = 0; i < FORMS; i++) DT__TRY(make_weight(o, &forms[i], &o->w[i]));
    o->u = dt__random_bytes(b, (size_t)(m * n));
    o->sx = dt__random_floats(b, m);
    o->x = dt__random_floats(b, m * n);
    o->dense = dt__random_floats(b, o->copies * n * n);
    o->y = dt__random_floats(b, m * n);
    o->zu = dt__alloc_array(b->ctx, m, sizeof *o->zu);
    const dt__gemm product = own_product(o);
    o->room = dt__alloc(b->ctx, dt__gemms_scratch(&product, sizeof(float), dt_threads(b->ctx)));
    if (o->u == NULL || o->sx == NULL || o->x == NULL || o->dense == NULL || o->y == NULL ||
        o->zu == NULL || o->room == NULL) {
        return DT_ERR_NOMEM;
    }
    for (int64_t i = 0; i < m; i++) {
        o->sx[i] = 0.01F * (1.5F + o->sx[i]);
        o->zu[i] = 100 + (int32_t)(i % 50);
    }
    return DT_OK;
}

/* ---- comparisons ---------------------------------------------------------------------------- */

enum { LIMIT, OPENBLAS, OWN, FIRST, TRIALS = FIRST + FORMS + 1 };

static dt__trial trial_of(subject *s, dt_status (*run)(void *subject))
{
    const operands *o = s->o;
    return (dt__trial){ .unit = "GMAC/s",
                        .work = (double)o->m * (double)o->n * (double)o->k,
                        .run = run,
                        .subject = s,
                        .limit = DT__NO_TRIAL };
}

static void name_of(const operands *o, const char *what, char name[DT__BENCH_NAME])
{
    dt__bench_name(o->b, name, "products/m%lld/n%lld/k%lld/%s%s", (long long)o->m, (long long)o->n,
                   (long long)o->k, what, o->copies > 1 ? "-memory" : "");
}

static void fill_trials(operands *o, subject *s, int rival, dt__trial *t)
{
    t[OPENBLAS] = trial_of(&s[OPENBLAS], run_openblas);
    t[OPENBLAS].spins = true;
    name_of(o, "f32-openblas", t[OPENBLAS].name);
    t[OWN] = trial_of(&s[OWN], run_own_f32);
    t[OWN].ratio[0].trial = OPENBLAS;
    t[OWN].ratio[0].name = "openblas-f32";
    name_of(o, "f32", t[OWN].name);
    for (int i = FIRST; i < FIRST + FORMS; i++) {
        s[i].form = i - FIRST;
        t[i] = trial_of(&s[i], run_integer);
        t[i].limit = LIMIT;
        if (o->copies > 1) t[i].limit_work = (double)o->w[s[i].form].layout.bytes;
        t[i].ratio[0].trial = OPENBLAS;
        t[i].ratio[0].name = "openblas-f32";
        t[i].ratio[1].trial = rival;
        t[i].ratio[1].name = rival > 0 ? o->b->options.rival.name : NULL;
        name_of(o, forms[s[i].form].name, t[i].name);
    }
}

static dt_status compare(operands *o, int64_t m)
{
    dt__bench *b = o->b;
    const dt_bench_rival *r = &b->options.rival;
    o->m = m;
    subject s[TRIALS];
    dt__trial t[TRIALS];
    for (int i = 0; i < TRIALS; i++) s[i] = (subject){ .o = o };
    dt__limit_subject limit;
    dt_status status =
        dt__limit_trial(b, o->copies > 1 ? DT__LIMIT_READ : DT__LIMIT_INT8, &limit, &t[LIMIT]);
    const int last = FIRST + FORMS;
    if (r->name != NULL && o->copies == 1) {
        s[last].rival = r->open(r->user, dt_threads(b->ctx), (int64_t[]){ m, o->n, o->k });
    }
    const bool rival = s[last].rival != NULL;
    fill_trials(o, s, rival ? last : 0, t);
    if (rival) {
        t[last] = trial_of(&s[last], run_rival);
        t[last].spins = true;
        name_of(o, r->name, t[last].name);
    }
    if (status == DT_OK) status = dt__measure(b, rival ? TRIALS : last, t);
    if (rival) r->close(s[last].rival);
    dt__limit_free(&limit);
    return status;
}

static dt_status with_weights(dt__bench *b, int64_t n, bool many)
{
    static const int64_t rows[] = { 1, 4, 16, 96, 512 };
    const bool quick = b->options.quick;
    operands o;
    dt_status s = make_operands(b, many ? 1 : quick ? 16 : 512, n, many, &o);
    for (int i = 0; s == DT_OK && i < DT__COUNT_OF(rows); i++) {
        if ((many && rows[i] > 1) || (quick && rows[i] != 1 && rows[i] != 16)) continue;
        s = compare(&o, rows[i]);
    }
    free_operands(&o);
    dt_memory_trim(b->ctx);
    return s;
}

dt_status dt__bench_products(dt__bench *b)
{
    static const int64_t sizes[] = { 256, 1024, 4096 };
    dt__team *const threads = dt__threads_enter(b->ctx);
    dt_status s = DT_OK;
    for (int i = 0; s == DT_OK && i < DT__COUNT_OF(sizes); i++) {
        if (!b->options.quick || i == 0) s = with_weights(b, sizes[i], false);
    }
    if (s == DT_OK) s = with_weights(b, b->options.quick ? 256 : 4096, true);
    dt__threads_leave(threads);
    return s;
}
