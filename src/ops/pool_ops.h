/* The common part of the pooling ops: keys, shape function, and the geometry for kernels. */
#ifndef DT__OPS_POOL_OPS_H
#define DT__OPS_POOL_OPS_H

#include "autograd/op.h"
#include "kernels/planes.h"

extern const dt_pool_options dt__pool_defaults;

/* Keys of a dt_pool_options that is the first member of an op's options. */
#define DT__POOL_PAIR(name, fallback_, text_)                                                      \
    {                                                                                              \
#name, DT_KEY_PAIR, .offset = offsetof(dt_pool_options, name), .fallback = fallback_,      \
                            .text = text_                                                          \
    }
#define DT__POOL_KEYS                                                                              \
    DT__POOL_PAIR(kernel, "2, 2", "height and width of a window"),                                 \
        DT__POOL_PAIR(stride, "0, 0", "from one window to the next; 0: the window's extent"),      \
        DT__POOL_PAIR(padding, "0, 0", "rows and columns around the image, at each side"),         \
        DT__POOL_PAIR(dilation, "1, 1", "from one pixel of a window to the next; 0: 1"),           \
    {                                                                                              \
        "ceil_mode", DT_KEY_BOOL,                                                                  \
            .offset = offsetof(dt_pool_options, ceil_mode), .fallback = "false",                   \
            .text = "a last window may reach past the image, if it begins in it or left of it"     \
    }

/* Checks x [N, C, H, W] and the options, and makes result 0. */
dt_status dt__windows_shape(dt_call *c, const dt_pool_options *o);
/* The windows of that call, for forward and backward. The caller sets x, y and at. */
dt__windows dt__windows_of(const dt_call *c, const dt_pool_options *o);

#endif
