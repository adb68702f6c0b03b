/* Drawing tokens: against an independent selection of candidates and their probabilities; ties,
 * reproducible draws, and logits that are NaN or infinite. */
#include "testing.h"

#include "core/core.h"

#include <detent/experimental/nn.h>

#include <math.h>
#include <string.h>

#define VOCAB 50

static dt_ctx *ctx;

static void setup(void) { ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK); }
static void teardown(void) { dt_ctx_free(ctx); }

static dt_tensor *logits_of(int64_t n, const float *x)
{
    dt_tensor *out;
    ck_assert_int_eq(dt_tensor_from(ctx, DT_F32, 1, &n, x, &out), DT_OK);
    return out;
}

static int32_t draw(const dt_sampling *s, int64_t k, const dt_tensor *logits)
{
    int32_t id = -1;
    ck_assert_msg(dt_sample(ctx, s, k, logits, &id) == DT_OK, "%s", dt_error(ctx));
    return id;
}

/* How many ids are more likely than id. */
static int64_t rank_of(const float *x, int32_t id)
{
    int64_t rank = 0;
    for (int32_t i = 0; i < VOCAB; i++) rank += x[i] > x[id] || (x[i] == x[id] && i < id);
    return rank;
}

/* The shares of all ids, slowly: by rank, one after the other. */
static void shares(const float *x, const dt_sampling *s, double share[VOCAB])
{
    double weight[VOCAB], sum = 0, before[VOCAB + 1] = { 0 }, whole = 0;
    const int64_t most = s->top_k > 0 && s->top_k < VOCAB ? s->top_k : VOCAB;
    int32_t at[VOCAB];
    for (int32_t i = 0; i < VOCAB; i++) at[rank_of(x, i)] = i;
    for (int64_t r = 0; r < VOCAB; r++) {
        weight[r] = exp(((double)x[at[r]] - (double)x[at[0]]) / s->temperature);
        if (r < most) sum += weight[r];
        before[r + 1] = before[r] + weight[r];
    }
    for (int64_t r = 0; r < VOCAB; r++) {
        share[at[r]] = r < most && (s->top_p == 1 || before[r] < s->top_p * sum) ? weight[r] : 0;
        whole += share[at[r]];
    }
    for (int i = 0; i < VOCAB; i++) share[i] /= whole;
}

static void random_logits(uint64_t seed, float x[VOCAB])
{
    dt__stream s = dt__stream_of(seed, DT__FOR_USER);
    for (int i = 0; i < VOCAB; i++) x[i] = (float)(int)(dt__random_unit(&s) * 24 - 12) / 4;
}

/* Frequencies of tokens match their probabilities within 5 deviations; tokens of probability 0 are
 * never drawn. */
START_TEST(shares_are_those_of_the_definition)
{
    enum { DRAWS = 20000 };
    const dt_sampling how[] = {
        { .temperature = 1, .top_p = 1, .seed = 1 },
        { .temperature = 0.5, .top_p = 1, .seed = 2 },
        { .temperature = 2, .top_p = 1, .top_k = 7, .seed = 3 },
        { .temperature = 1, .top_p = 0.6, .seed = 4 },
        { .temperature = 3, .top_p = 0.5, .top_k = 20, .seed = 5 },
        { .temperature = 1, .top_p = 1e-9, .seed = 6 },
        { .temperature = 1, .top_p = 0.9, .top_k = 1000, .seed = 7 },
    };
    for (int c = 0; c < DT__COUNT_OF(how); c++) {
        float x[VOCAB];
        double share[VOCAB];
        int64_t count[VOCAB] = { 0 };
        random_logits((uint64_t)c, x);
        shares(x, &how[c], share);
        dt_tensor *logits = logits_of(VOCAB, x);
        for (int64_t k = 0; k < DRAWS; k++) count[draw(&how[c], k, logits)]++;
        for (int i = 0; i < VOCAB; i++) {
            const double want = share[i] * DRAWS, off = fabs((double)count[i] - want);
            TEST_EACH(share[i] > 0 ? off <= 5 * sqrt(want) + 3 : count[i] == 0,
                      "settings %d, id %d: drawn %lld times, not %.1f", c, i, (long long)count[i],
                      want);
        }
        dt_tensor_free(logits);
    }
}
END_TEST

/* A top_k that keeps all tokens is no top_k: the draws are the same. */
START_TEST(all_tokens_are_one_setting)
{
    static const int64_t all[] = { VOCAB, VOCAB + 1, 1 << 20, INT64_MAX };
    for (int c = 0; c < 8; c++) {
        float x[VOCAB];
        random_logits((uint64_t)(100 + c), x);
        dt_tensor *logits = logits_of(VOCAB, x);
        dt_sampling s = { .temperature = 0.25 * (c + 1), .top_p = c % 2 == 0 ? 1 : 0.8 };
        s.seed = (uint64_t)c;
        for (int64_t k = 0; k < 200; k++) {
            s.top_k = 0;
            const int32_t id = draw(&s, k, logits);
            s.top_k = all[k % 4];
            TEST_EACH(draw(&s, k, logits) == id, "top_k %lld, draw %lld", (long long)s.top_k,
                      (long long)k);
        }
        dt_tensor_free(logits);
    }
}
END_TEST

START_TEST(a_draw_depends_on_seed_number_and_logits)
{
    float x[VOCAB];
    random_logits(9, x);
    dt_tensor *logits = logits_of(VOCAB, x);
    dt_sampling s = { .temperature = 1, .top_p = 0.95, .top_k = 40, .seed = 3 };
    int32_t first[200];
    int64_t moved = 0;
    for (int k = 0; k < 200; k++) first[k] = draw(&s, k, logits);
    dt_seed(ctx, 77);
    for (int k = 199; k >= 0; k--) TEST_EACH(draw(&s, k, logits) == first[k], "draw %d", k);
    s.seed = 4;
    for (int k = 0; k < 200; k++) moved += draw(&s, k, logits) != first[k];
    ck_assert_int_gt(moved, 100);
    dt_tensor_free(logits);
}
END_TEST

START_TEST(ties_go_to_the_lower_id)
{
    dt_tensor *logits = logits_of(5, (const float[]){ 1, 3, 3, -INFINITY, 3 });
    const dt_sampling greedy = { .temperature = 0, .top_p = 1 };
    const dt_sampling one = { .temperature = 1, .top_k = 1, .top_p = 1 };
    const dt_sampling two = { .temperature = 1, .top_k = 2, .top_p = 1 };
    for (int64_t k = 0; k < 100; k++) {
        ck_assert_int_eq(draw(&greedy, k, logits), 1);
        ck_assert_int_eq(draw(&one, k, logits), 1);
        const int32_t id = draw(&two, k, logits);
        ck_assert(id == 1 || id == 2);
    }
    dt_tensor_free(logits);
}
END_TEST

START_TEST(mistakes_are_refused)
{
    static const struct {
        dt_sampling s;
        float x[3];
        int64_t k;
        dt_status status;
        const char *says;
    } bad[] = {
        { { 1, 0, 1, 0 }, { 0, NAN, 1 }, 0, DT_ERR_NUMERIC, "token 1 is NaN" },
        { { 0, 0, 1, 0 }, { 0, 1, NAN }, 0, DT_ERR_NUMERIC, "token 2 is NaN" },
        { { 1, 0, 1, 0 }, { 0, INFINITY, 1 }, 0, DT_ERR_NUMERIC, "token 1 is infinite" },
        { { 1, 0, 1, 0 }, { -INFINITY, -INFINITY, -INFINITY }, 0, DT_ERR_NUMERIC, "every logit" },
        { { -1, 0, 1, 0 }, { 0 }, 0, DT_ERR_ARG, "temperature -1" },
        { { NAN, 0, 1, 0 }, { 0 }, 0, DT_ERR_ARG, "temperature" },
        { { 1, -1, 1, 0 }, { 0 }, 0, DT_ERR_ARG, "top_k -1" },
        { { 1, 0, 0, 0 }, { 0 }, 0, DT_ERR_ARG, "top_p 0" },
        { { 1, 0, 1.5, 0 }, { 0 }, 0, DT_ERR_ARG, "top_p 1.5" },
        { { 1, 0, 1, 0 }, { 0 }, -1, DT_ERR_ARG, "draw -1" },
    };
    int32_t id;
    for (int i = 0; i < DT__COUNT_OF(bad); i++) {
        dt_tensor *logits = logits_of(3, bad[i].x);
        const dt_status s = dt_sample(ctx, &bad[i].s, bad[i].k, logits, &id);
        TEST_EACH(s == bad[i].status && strstr(dt_error(ctx), bad[i].says) != NULL, "case %d: %s",
                  i, dt_error(ctx));
        dt_tensor_free(logits);
    }
    dt_tensor *square;
    ck_assert_int_eq(dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ 2, 2 }, &square), DT_OK);
    ck_assert_int_eq(dt_sample(ctx, NULL, 0, square, &id), DT_ERR_SHAPE);
    dt_tensor_free(square);
}
END_TEST

Suite *test_sampling_suite(void);
Suite *test_sampling_suite(void)
{
    Suite *s = suite_create("sampling");
    TCase *c = tcase_create("sampling");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, shares_are_those_of_the_definition);
    tcase_add_test(c, all_tokens_are_one_setting);
    tcase_add_test(c, a_draw_depends_on_seed_number_and_logits);
    tcase_add_test(c, ties_go_to_the_lower_id);
    tcase_add_test(c, mistakes_are_refused);
    suite_add_tcase(s, c);
    return s;
}
