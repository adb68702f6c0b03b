/* How many samples a layer has per example, which determines its time, compared with the sizes of
 * the layers' outputs. */
#include "ptq/positions.h"
#include "sample.h"

#include <detent/nn.h>
#include <stdio.h>
#include <stdlib.h>

enum { LAYERS = 5, BATCH = 3 };

static int64_t below(int64_t n) { return rand() % n; }

/* Layers that follow one another: convolutions of drawn sizes, a transposed one, a linear one. */
static dt_module *draw(dt_ctx *ctx, const dt_tensor *x, double wanted[LAYERS])
{
    dt_module *m = NULL, *part = NULL;
    int64_t channels = x->dims[1], height = x->dims[2], width = x->dims[3];
    TEST_OK(ctx, dt_sequential_create(ctx, &m));
    for (int i = 0; i < LAYERS - 1; i++) {
        dt_conv_layer l = { .in = channels, .out = 1 + below(4), .kernel = { 3, 3 }, .bias = true };
        l.conv = dt_conv_defaults();
        l.conv.padding[0] = l.conv.padding[1] = 1;
        l.conv.stride[0] = 1 + below(2);
        l.conv.stride[1] = 1 + below(2);
        const bool transposed = i == 2;
        TEST_OK(ctx, (transposed ? dt_conv_transpose2d_create : dt_conv2d_create)(ctx, &l, &part));
        char name[16];
        snprintf(name, sizeof name, "c%d", i);
        TEST_OK(ctx, dt_module_add(m, name, part));
        height =
            transposed ? (height - 1) * l.conv.stride[0] + 1 : (height - 1) / l.conv.stride[0] + 1;
        width =
            transposed ? (width - 1) * l.conv.stride[1] + 1 : (width - 1) / l.conv.stride[1] + 1;
        channels = l.out;
        wanted[i] = (double)(height * width);
    }
    TEST_OK(ctx, dt_linear_create(ctx, width, 4, true, &part));
    TEST_OK(ctx, dt_module_add(m, "l", part));
    wanted[LAYERS - 1] = (double)(channels * height);
    return m;
}

START_TEST(of_layers)
{
    srand(11 + (unsigned)_i);
    dt_ctx *ctx = sample_context(1);
    const int64_t dims[] = { BATCH, 1 + below(3), 8 + below(9), 8 + below(9) };
    dt_tensor *x = NULL;
    double wanted[LAYERS], products = 0;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 4, dims, &x));
    dt_module *m = draw(ctx, x, wanted);
    dt__positions p;
    dt_tape *t = NULL;
    TEST_OK(ctx, dt__positions_begin(m, &p));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    ck_assert_ptr_nonnull(dt_forward(t, m, x));
    dt__positions_end(&p);
    dt_tape_reset(t);
    ck_assert_ptr_nonnull(dt_forward(t, m, x)); /* is not counted */
    for (int i = 0; i < LAYERS; i++) {
        char name[16];
        snprintf(name, sizeof name, i < LAYERS - 1 ? "c%d" : "l", i);
        TEST_EACH(dt__positions_of(&p, name) == wanted[i], "%s: %g, not %g", name,
                  dt__positions_of(&p, name), wanted[i]);
        products += BATCH * wanted[i] * (double)p.at[i].layer->entries[0].x->count;
    }
    ck_assert(dt__positions_of(&p, "nowhere") == 0);
    ck_assert(dt__positions_products(&p) == products);
    dt__positions_free(&p);
    dt_tape_free(t);
    dt_module_free(m);
    dt_tensor_free(x);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_positions_suite(void)
{
    Suite *s = suite_create("positions");
    TCase *t = tcase_create("positions");
    tcase_add_loop_test(t, of_layers, 0, 12);
    suite_add_tcase(s, t);
    return s;
}
