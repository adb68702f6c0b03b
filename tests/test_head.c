/* The head of a language model: linear_cross_entropy against dt_linear and dt_cross_entropy with
 * every kind of product, whole and in blocks; an embedding table read as codes against its
 * dequantized value; a tied weight, which is both. */
#include "testing.h"

#include "autograd/codes.h"
#include "autograd/tape.h"
#include "core/core.h"
#include "qat/quantized.h"

#include <detent/experimental/nn.h>
#include <detent/experimental/ops.h>
#include <detent/qat.h>

#include <math.h>
#include <string.h>

enum { FLOATS, DOUBLES, INTEGER, SIMULATED, WEIGHTS_ONLY, INPUTS_ONLY, PATHS };

typedef struct setup {
    int64_t rows, width, classes;
    int path;
    int threads;
    dt_linear_cross_entropy_options options;
    bool teacher;
} setup;

enum { X, WEIGHT, BIAS, TEACHER_X, TEACHER_WEIGHT, OPERANDS };

typedef struct outcome {
    dt_ctx *ctx;
    dt_tape *t;
    dt_tensor *in[OPERANDS], *labels;
    dt_tensor *loss, *row_loss, *row_best;
    size_t peak;
} outcome;

static dt_tensor *operand(outcome *o, const setup *s, int64_t rows, int64_t columns)
{
    dt_tensor *x;
    const int64_t dims[2] = { rows, columns };
    const dt_dtype dtype = s->path == DOUBLES ? DT_F64 : DT_F32;
    TEST_OK(o->ctx, dt_tensor_create(o->ctx, dtype, columns == 0 ? 1 : 2, dims, &x));
    TEST_OK(o->ctx, dt_fill_normal(x, 0, 1));
    TEST_OK(o->ctx, dt_set_requires_grad(x, true));
    return x;
}

/* Every fifth row does not count. */
static void make_labels(outcome *o, const setup *s)
{
    TEST_OK(o->ctx, dt_tensor_create(o->ctx, DT_I32, 1, &s->rows, &o->labels));
    int32_t *label = dt_data_mut(o->labels);
    for (int64_t i = 0; i < s->rows; i++) {
        label[i] = i % 5 == 3 ? -100 : (int32_t)(i * 7919 % s->classes);
    }
}

static void open(const setup *s, outcome *o)
{
    dt_ctx_options options = dt_ctx_defaults();
    options.threads = s->threads;
    *o = (outcome){ 0 };
    TEST_OK(NULL, dt_ctx_create(&o->ctx, &options));
    TEST_OK(o->ctx, dt_tape_create(o->ctx, &o->t));
    dt_seed(o->ctx, 3);
    o->in[X] = operand(o, s, s->rows, s->width);
    o->in[WEIGHT] = operand(o, s, s->classes, s->width);
    o->in[BIAS] = operand(o, s, s->classes, 0);
    o->in[TEACHER_X] = operand(o, s, s->rows, s->width + 1);
    o->in[TEACHER_WEIGHT] = operand(o, s, s->classes, s->width + 1);
    make_labels(o, s);
    const dt_quant_spec quant = dt_weight_quant_defaults();
    if (s->path >= INTEGER && s->path != INPUTS_ONLY) {
        const dt__fq fq = { .quant = quant, .simulated = s->path == SIMULATED };
        TEST_OK(o->ctx, dt__fq_wrap(o->in[WEIGHT], &fq));
    }
}

static void close(outcome *o)
{
    for (int i = 0; i < OPERANDS; i++) dt_tensor_free(o->in[i]);
    dt_tensor_free(o->labels);
    dt_tape_free(o->t);
    dt_ctx_free(o->ctx);
}

/* The loss by the two ops that it replaces. */
static dt_tensor *by_parts(const setup *s, outcome *o, dt_tensor *x)
{
    dt_tensor *z = dt_linear(o->t, x, o->in[WEIGHT], o->in[BIAS]);
    const dt_linear_cross_entropy_options *l = &s->options;
    const dt_cross_entropy_options entropy = { .reduction = l->reduction,
                                               .ignore_index = l->ignore_index,
                                               .label_smoothing = l->label_smoothing };
    dt_tensor *loss = dt_cross_entropy(o->t, z, o->labels, &entropy);
    if (!s->teacher) return loss;
    dt_tensor *taught = dt_linear(o->t, o->in[TEACHER_X], o->in[TEACHER_WEIGHT], NULL);
    const dt_distill_options distill = { l->reduction, l->ignore_index, l->temperature };
    dt_tensor *other = dt_distill(o->t, z, taught, o->labels, &distill);
    dt_tensor *share[2];
    for (int i = 0; i < 2; i++) {
        const double by = i == 0 ? 1 - l->distill : l->distill;
        TEST_OK(o->ctx, dt_tensor_create(o->ctx, dt_dtype_of(loss), 0, NULL, &share[i]));
        TEST_OK(o->ctx, dt_fill(share[i], by));
    }
    dt_tensor *y = dt_add(o->t, dt_mul(o->t, loss, share[0]), dt_mul(o->t, other, share[1]));
    for (int i = 0; i < 2; i++) dt_tensor_free(share[i]);
    return y;
}

static void run(const setup *s, bool whole, outcome *o)
{
    open(s, o);
    const dt__fq fq = { .quant = dt_activation_quant_defaults(),
                        .enabled = true,
                        .simulated = s->path == SIMULATED };
    dt_tensor *x = o->in[X];
    if (s->path >= INTEGER && s->path != WEIGHTS_ONLY) x = dt__fake_quant_as(o->t, x, &fq);
    const dt_head_operands in = { x,
                                  o->in[WEIGHT],
                                  o->in[BIAS],
                                  o->labels,
                                  s->teacher ? o->in[TEACHER_X] : NULL,
                                  s->teacher ? o->in[TEACHER_WEIGHT] : NULL,
                                  NULL };
    dt_memory_reset_peak(o->ctx);
    const size_t before = dt_memory_of(o->ctx).used;
    o->loss = whole ? by_parts(s, o, x)
                    : dt_linear_cross_entropy(o->t, &in, &s->options, &o->row_loss, &o->row_best);
    ck_assert_msg(o->loss != NULL, "%s", dt_error(o->ctx));
    TEST_OK(o->ctx, dt_backward(o->t, o->loss, NULL));
    o->peak = dt_memory_of(o->ctx).peak - before;
}

static bool same_bits(const dt_tensor *a, const dt_tensor *b)
{
    const size_t bytes = (size_t)dt_count(a) * dt_dtype_size(dt_dtype_of(a));
    return dt_count(a) == dt_count(b) && memcmp(dt_data(a), dt_data(b), bytes) == 0;
}

static double at(const dt_tensor *x, int64_t i)
{
    return dt_dtype_of(x) == DT_F64 ? ((const double *)dt_data(x))[i]
                                    : (double)((const float *)dt_data(x))[i];
}

static double apart(const dt_tensor *a, const dt_tensor *b)
{
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < dt_count(a); i++) {
        difference += pow(at(a, i) - at(b, i), 2);
        norm += pow(at(b, i), 2);
    }
    return norm == 0 ? difference : sqrt(difference / norm);
}

#define ENTROPY .options = { .ignore_index = -100, .temperature = 1 }

/* ---- one block has the bits of the two ops -------------------------------------------------- */

START_TEST(one_block_has_the_bits_of_linear_and_cross_entropy)
{
    for (int path = 0; path < PATHS; path++) {
        for (int few = 0; few < 2; few++) {
            const setup s = { few ? 7 : 90, 48, 65, path, 2, ENTROPY };
            outcome a, b;
            run(&s, false, &a);
            run(&s, true, &b);
            TEST_EACH(same_bits(a.loss, b.loss), "path %d: loss %.9g, not %.9g", path,
                      at(a.loss, 0), at(b.loss, 0));
            for (int i = X; i <= BIAS; i++) {
                TEST_EACH(same_bits(dt_grad(a.in[i]), dt_grad(b.in[i])),
                          "path %d: gradient of operand %d", path, i);
            }
            close(&a);
            close(&b);
        }
    }
}
END_TEST

/* ---- blocks --------------------------------------------------------------------------------- */

/* More classes than a block holds, and more rows: integer products, and so the loss of each row,
 * have the same bits for any division into blocks. */
START_TEST(blocks_change_no_bit_of_an_integer_head)
{
    const setup s = { 400, 24, 9001, INTEGER, 2, ENTROPY };
    outcome a, b;
    run(&s, false, &a);
    run(&s, true, &b);
    ck_assert_msg(same_bits(a.loss, b.loss), "loss %.9g, not %.9g", at(a.loss, 0), at(b.loss, 0));
    for (int i = X; i <= BIAS; i++) {
        TEST_EACH(apart(dt_grad(a.in[i]), dt_grad(b.in[i])) < 2e-6, "gradient of operand %d", i);
    }
    close(&a);
    close(&b);
}
END_TEST

/* Under a sanitizer as many rows as two blocks have in floats; half as many in doubles or with a
 * teacher. */
static const test_draws rows = { .usual = 300, .sanitized = 132 };
static const test_draws wide_rows = { .usual = 300, .sanitized = 70 };
static const test_draws kinds = { .usual = 1, .sanitized = 2 }; /* with a teacher or without */

START_TEST(blocks_agree_on_every_path)
{
    for (int path = 0; path < PATHS; path++) {
        const int step = (int)test_count(kinds);
        for (int teacher = path % step; teacher < 2; teacher += step) {
            const bool wide = path == DOUBLES || teacher == 1;
            setup s = { test_count(wide ? wide_rows : rows),
                        12,
                        8705,
                        path,
                        2,
                        ENTROPY,
                        .teacher = teacher == 1 };
            s.options.label_smoothing = 0.1;
            s.options.distill = teacher == 1 ? 0.3 : 0;
            s.options.temperature = 2;
            outcome a, b;
            run(&s, false, &a);
            run(&s, true, &b);
            const double within = path == DOUBLES ? 1e-12 : 5e-6;
            TEST_EACH(apart(a.loss, b.loss) < within, "path %d: loss %.9g, not %.9g", path,
                      at(a.loss, 0), at(b.loss, 0));
            for (int i = X; i <= BIAS; i++) {
                TEST_EACH(apart(dt_grad(a.in[i]), dt_grad(b.in[i])) < within,
                          "path %d: gradient of operand %d, %g apart", path, i,
                          apart(dt_grad(a.in[i]), dt_grad(b.in[i])));
            }
            close(&a);
            close(&b);
        }
    }
}
END_TEST

static const test_draws path_steps = { .usual = 1, .sanitized = INTEGER - FLOATS };

START_TEST(threads_change_no_bit)
{
    for (int path = FLOATS; path <= INTEGER; path += (int)test_count(path_steps)) {
        setup s = { test_count((test_draws){ .usual = 132, .sanitized = 70 }),
                    20,
                    8705,
                    path,
                    1,
                    ENTROPY,
                    .teacher = true };
        s.options.distill = 0.5;
        outcome a, b;
        run(&s, false, &a);
        s.threads = 3;
        run(&s, false, &b);
        TEST_EACH(same_bits(a.loss, b.loss) && same_bits(a.row_loss, b.row_loss), "path %d", path);
        for (int i = X; i <= BIAS; i++) {
            TEST_EACH(same_bits(dt_grad(a.in[i]), dt_grad(b.in[i])), "path %d, operand %d", path,
                      i);
        }
        close(&a);
        close(&b);
    }
}
END_TEST

/* Rows one by one: the loss is their mean, and the best class is the first of the largest
 * logits. */
START_TEST(losses_and_classes_are_given_row_by_row)
{
    const setup s = { 260, 16, 8705, INTEGER, 2, ENTROPY };
    outcome a, b;
    run(&s, false, &a);
    open(&s, &b);
    const dt_quant_spec quant = dt_activation_quant_defaults();
    dt_tensor *x = dt_fake_quant(b.t, b.in[X], &quant, true), *best;
    dt_tensor *z = dt_linear(b.t, x, b.in[WEIGHT], b.in[BIAS]);
    ck_assert_ptr_nonnull(dt_max(b.t, z, -1, false, &best));
    double sum = 0, counted = 0;
    for (int64_t i = 0; i < s.rows; i++) {
        const bool counts = ((const int32_t *)dt_data(b.labels))[i] != -100;
        const int32_t want = counts ? ((const int32_t *)dt_data(best))[i] : -1;
        const int32_t got = ((const int32_t *)dt_data(a.row_best))[i];
        TEST_EACH(got == want, "row %d: %d, not %d", (int)i, got, want);
        TEST_EACH(counts || at(a.row_loss, i) == 0, "row %d does not count", (int)i);
        sum += at(a.row_loss, i);
        counted += counts;
    }
    ck_assert_double_eq_tol(sum / counted, at(a.loss, 0), 1e-6 * fabs(at(a.loss, 0)));
    close(&a);
    close(&b);
}
END_TEST

/* 4 MiB of logits, where all of them are 34. */
START_TEST(logits_never_exist_whole)
{
    const setup s = { 1000, 8, 9001, FLOATS, 1, ENTROPY };
    outcome a, b;
    run(&s, false, &a);
    run(&s, true, &b);
    ck_assert_uint_lt(a.peak, (size_t)6 << 20);
    ck_assert_uint_gt(b.peak, (size_t)34 << 20);
    close(&a);
    close(&b);
}
END_TEST

/* ---- tables --------------------------------------------------------------------------------- */

typedef struct table {
    dt_ctx *ctx;
    dt_tape *t;
    dt_module *m; /* tokens, and a head that reads the same weight */
    dt_tensor *ids;
} table;

enum { COUNT = 3001, WIDTH = 72 };

static dt_module *part(table *k, const char *path)
{
    dt_module *m = dt_module_at(k->m, path);
    ck_assert_ptr_nonnull(m);
    return m;
}

static void open_table(table *k, const dt_quant_spec *quant)
{
    dt_module *tokens, *head;
    *k = (table){ 0 };
    TEST_OK(NULL, dt_ctx_create(&k->ctx, NULL));
    TEST_OK(k->ctx, dt_tape_create(k->ctx, &k->t));
    TEST_OK(k->ctx, dt_sequential_create(k->ctx, &k->m));
    TEST_OK(k->ctx, dt_embedding_create(k->ctx, COUNT, WIDTH, &tokens));
    TEST_OK(k->ctx, dt_linear_create(k->ctx, WIDTH, COUNT, false, &head));
    TEST_OK(k->ctx, dt_module_add(k->m, "tokens", tokens));
    TEST_OK(k->ctx, dt_module_add(k->m, "head", head));
    TEST_OK(k->ctx, dt_module_tie(k->m, "head.weight", "tokens.weight"));
    int32_t id[40];
    for (int i = 0; i < 40; i++) id[i] = i * 977 % COUNT;
    id[39] = COUNT - 1;
    TEST_OK(k->ctx, dt_tensor_from(k->ctx, DT_I32, 2, (const int64_t[]){ 4, 10 }, id, &k->ids));
    TEST_OK(k->ctx, dt__fq_wrap(dt_param(k->m, "tokens.weight"), &(dt__fq){ .quant = *quant }));
}

static void close_table(table *k)
{
    dt_tensor_free(k->ids);
    dt_module_free(k->m);
    dt_tape_free(k->t);
    dt_ctx_free(k->ctx);
}

/* Rows read from codes equal rows of the dequantized table, which is never made: 11 of 860 KB are
 * read. */
static void check_rows(table *k)
{
    dt_tensor *w = dt_param(k->m, "tokens.weight"), *image;
    ck_assert_ptr_nonnull(dt_embedding(k->t, w, k->ids)); /* codes are made */
    dt_memory_reset_peak(k->ctx);
    const size_t before = dt_memory_of(k->ctx).used;
    dt_tensor *y = dt_embedding(k->t, w, k->ids);
    ck_assert_msg(y != NULL, "%s", dt_error(k->ctx));
    ck_assert_uint_lt(dt_memory_of(k->ctx).peak - before, (size_t)COUNT * WIDTH);
    TEST_OK(k->ctx, dt_dequantize(w, &image));
    ck_assert(same_bits(y, dt_embedding(k->t, image, k->ids)));
    dt_tensor_free(image);
    dt_tape_reset(k->t);
}

START_TEST(a_table_is_read_as_codes)
{
    const int granularity[] = { DT_PER_GROUP, DT_PER_CHANNEL, DT_PER_TENSOR };
    const int bits[] = { 2, 4, 8 };
    for (int i = 0; i < 3 * DT__COUNT_OF(granularity); i++) {
        dt_quant_spec quant = dt_weight_quant_defaults();
        quant.granularity = granularity[i % 3];
        quant.bits = bits[i / 3];
        quant.group_size = 32;
        table k;
        open_table(&k, &quant);
        check_rows(&k);
        TEST_OK(k.ctx, dt_convert(k.m, NULL, NULL));
        check_rows(&k);
        close_table(&k);
    }
}
END_TEST

/* The gradient of a table is that of its dequantized value, masked if the straight-through
 * estimator is `clipped`. */
START_TEST(a_table_gets_its_gradient)
{
    dt_quant_spec quant = dt_weight_quant_defaults();
    quant.ste = DT_STE_CLIPPED;
    table k;
    open_table(&k, &quant);
    dt_tensor *w = dt_param(k.m, "tokens.weight");
    dt_tensor *y = dt_embedding(k.t, w, k.ids);
    TEST_OK(k.ctx, dt_backward(k.t, dt_sum(k.t, y, NULL), NULL));
    double sum = 0;
    for (int64_t i = 0; i < dt_count(dt_grad(w)); i++) sum += at(dt_grad(w), i);
    ck_assert_double_gt(sum, 0.95 * 40 * WIDTH);
    ck_assert_double_le(sum, 40 * WIDTH);
    close_table(&k);
}
END_TEST

/* Embedding and head use the same codes, made once, in training and after convert. */
static void check_shared(table *k, bool converted)
{
    dt_tensor *w = dt_param(k->m, "tokens.weight"), *labels;
    ck_assert_ptr_eq(w, dt_param(k->m, "head.weight"));
    TEST_OK(k->ctx, dt_tensor_create(k->ctx, DT_I32, 2, (const int64_t[]){ 4, 10 }, &labels));
    dt_tensor *x = dt_forward(k->t, part(k, "tokens"), k->ids);
    dt__codes *first = NULL, *second = NULL;
    TEST_OK(k->ctx, dt__kind_of(w)->codes(k->t, w, &first));
    const dt_head_operands in = { .x = x, .weight = w, .labels = labels };
    dt_tensor *loss = dt_linear_cross_entropy(k->t, &in, NULL, NULL, NULL);
    ck_assert_msg(loss != NULL, "%s", dt_error(k->ctx));
    if (!converted) TEST_OK(k->ctx, dt_backward(k->t, loss, NULL));
    TEST_OK(k->ctx, dt__kind_of(w)->codes(k->t, w, &second));
    ck_assert_ptr_eq(first, second);
    dt__codes_release(first);
    dt__codes_release(second);
    dt_tensor_free(labels);
    dt_tape_reset(k->t);
}

START_TEST(a_tied_weight_is_quantized_once)
{
    const dt_quant_spec quant = dt_weight_quant_defaults();
    table k;
    open_table(&k, &quant);
    check_shared(&k, false);
    TEST_OK(k.ctx, dt_convert(k.m, NULL, NULL));
    check_shared(&k, true);
    close_table(&k);
}
END_TEST

Suite *test_head_suite(void)
{
    Suite *s = suite_create("head");
    TCase *c = tcase_create("loss");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, one_block_has_the_bits_of_linear_and_cross_entropy);
    tcase_add_test(c, blocks_change_no_bit_of_an_integer_head);
    tcase_add_test(c, blocks_agree_on_every_path);
    tcase_add_test(c, threads_change_no_bit);
    tcase_add_test(c, losses_and_classes_are_given_row_by_row);
    tcase_add_test(c, logits_never_exist_whole);
    suite_add_tcase(s, c);
    c = tcase_create("tables");
    tcase_add_test(c, a_table_is_read_as_codes);
    tcase_add_test(c, a_table_gets_its_gradient);
    tcase_add_test(c, a_tied_weight_is_quantized_once);
    suite_add_tcase(s, c);
    return s;
}
