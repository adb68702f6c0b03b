/* Max pooling of signals [N, C, L]. */
#include "nn/lists/layer_cases.h"
#include "nn/convolution/pool_layers.h"

DT__POOL_LAYER(max_pool1d, 1, dt_max_pool1d(t, x, dt_module_state(m), NULL),
               "the largest value of each window", DT__POOL_KEYS("max_pool1d", DT_KEY_INT),
               DT__POOL_DILATION(DT_KEY_INT))

static const dt_pool_options strided = { .kernel = { 2 }, .stride = { 1 } },
                             none = { .kernel = { 0, 2 } },
                             back = { .kernel = { 2 }, .padding = { -1 } };

DT__MAKE(make, dt_max_pool1d_create(ctx, NULL, out))
DT__MAKE(make_strided, dt_max_pool1d_create(ctx, &strided, out))
DT__MAKE(make_none, dt_max_pool1d_create(ctx, &none, out))
DT__MAKE(make_back, dt_max_pool1d_create(ctx, &back, out))

#define SIGNAL DT__GIVEN(DT__LIST(1, 1, 5), 1, 5, -2, 4, 3)

static const dt__layer_case cases[] = {
    { "the defaults", make, .in = { SIGNAL }, .n_y = 2, .y = { 5, 4 } },
    { "strides", make_strided, .in = { SIGNAL }, .n_y = 4, .y = { 5, 5, 4, 4 } },
    { "several signals", make_strided, .in = { { { 2, 3, 7 } } } },
    { "no kernel", make_none, .fails = DT_ERR_ARG, .says = "kernel is 0" },
    { "padding below 0", make_back, .fails = DT_ERR_ARG, .says = "below 0" },
    { "no signal", make, .in = { { { 3, 4 } } }, .fails = DT_ERR_SHAPE, .says = "max_pool1d" },
};
DT__LAYER_CASES(max_pool1d, cases)
