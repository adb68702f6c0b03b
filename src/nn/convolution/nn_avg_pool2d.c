/* Average pooling of images. */
#include "nn/lists/layer_cases.h"
#include "nn/convolution/pool_layers.h"

DT__POOL_LAYER(avg_pool2d, 2, dt_avg_pool2d(t, x, dt_module_state(m)), "the mean of each window",
               DT__POOL_KEYS("avg_pool2d", DT_KEY_PAIR), DT__POOL_COUNT)

static const dt_pool_options strided = { .kernel = { 2, 2 }, .stride = { 2, 1 } },
                             flat = { .kernel = { 2, 0 } },
                             back = { .kernel = { 2, 2 }, .stride = { -1, 0 } };

DT__MAKE(make, dt_avg_pool2d_create(ctx, NULL, out))
DT__MAKE(make_strided, dt_avg_pool2d_create(ctx, &strided, out))
DT__MAKE(make_flat, dt_avg_pool2d_create(ctx, &flat, out))
DT__MAKE(make_back, dt_avg_pool2d_create(ctx, &back, out))

#define IMAGE DT__GIVEN(DT__LIST(1, 1, 2, 3), 1, 5, -2, 3, 4, 0)

static const dt__layer_case cases[] = {
    { "the defaults", make, .in = { IMAGE }, .n_y = 1, .y = { 3.25 } },
    { "strides", make_strided, .in = { IMAGE }, .n_y = 2, .y = { 3.25, 1.75 } },
    { "several images", make_strided, .in = { { { 2, 3, 5, 4 } } } },
    { "no kernel", make_flat, .fails = DT_ERR_ARG, .says = "kernel is 0" },
    { "a stride below 0", make_back, .fails = DT_ERR_ARG, .says = "below 0" },
    { "no image", make, .in = { { { 3, 4 } } }, .fails = DT_ERR_SHAPE, .says = "avg_pool2d" },
};
DT__LAYER_CASES(avg_pool2d, cases)
