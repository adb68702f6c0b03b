/* What families of convolutional networks are made of: a convolution, its norm and its activation
 * as one unit, and the size of images on their way through the layers. */
#ifndef DT__NN_BLOCKS_H
#define DT__NN_BLOCKS_H

#include "nn/unit.h"

/* Keys that such families share. */
#define DT__IMAGE_KEY(options)                                                                     \
    {                                                                                              \
        "image", DT_KEY_INTS, offsetof(options, image),                                            \
            .least = 1, .most = 1 << 20, .fallback = "!", .fewest = 3,                             \
            .text = "channels, height and width of what goes in"                                   \
    }
#define DT__NORM_KEYS(options)                                                                     \
    { "norm_groups",                                                                               \
      DT_KEY_INT,                                                                                  \
      offsetof(options, norms.groups),                                                             \
      .least = 1,                                                                                  \
      .most = 1 << 16,                                                                             \
      .fallback = "4",                                                                             \
      .text = "parts of the channels in a group norm" },                                           \
        { "momentum",                                                                              \
          DT_KEY_REAL,                                                                             \
          offsetof(options, norms.momentum),                                                       \
          .most = 1,                                                                               \
          .fallback = "0.1",                                                                       \
          .text = "batch norm: weight of a batch in the running statistics" },                     \
    {                                                                                              \
        "eps", DT_KEY_REAL, offsetof(options, norms.eps), .most = 1, .fallback = "1e-5",           \
                                                          .text = "norms: added to the variance"   \
    }

/* The size of an image on its way. */
typedef struct dt__frame {
    int64_t channels, height, width;
} dt__frame;

/* Reads an option [channels, height, width]. ARG where it is none. */
dt_status dt__frame_of(dt_ctx *ctx, const char *family, const dt_ints *option, dt__frame *image);
/* What becomes of it: a window of `kernel` pixels, moved by `stride` over the padded image. ARG,
 * naming `what`, where not even one fits. */
dt_status dt__frame_windows(dt_ctx *ctx, const char *what, const dt_conv_layer *layer,
                            dt__frame *image);
/* The shape of an example, as a family tells it. */
dt_example dt__frame_example(const char *key, const dt_ints *image);

/* A square convolution with the settings of a recipe. */
dt_conv_layer dt__square_conv(int64_t in, int64_t out, int64_t kernel, int64_t stride,
                              int64_t padding);

typedef struct dt__unit_plan {
    const char *conv, *norm; /* the names of the children */
    dt_conv_layer layer;
    int kind; /* dt_norm_kind of what follows it */
    const dt_norm_options *norms;
} dt__unit_plan;

/* Makes the convolution and the norm of a unit, as children of m. u->activation stays as it is. */
dt_status dt__add_unit(dt_module *m, const dt__unit_plan *plan, dt__unit *u);
/* Makes child `activation` of m. */
dt_status dt__add_activation(dt_module *m, int activation, dt_module **lent);

/* A child of m with zeroed state; an item of a list is named by its number. */
dt_status dt__add_child(dt_module *m, const char *name, const dt_module_type *type,
                        size_t state_bytes, dt_module **lent);
dt_status dt__add_item(dt_module *list, const dt_module_type *type, size_t state_bytes,
                       dt_module **lent);

/* A module that is a unit: its state is a dt__unit. */
extern const dt_module_type dt__unit_type;
/* Its children, with `activation` among them unless that is below 0. */
dt_status dt__build_unit(dt_module *m, const dt__unit_plan *plan, int activation);

/* ARG where a choice is not among `names`, ended by NULL. */
dt_status dt__want_choice(dt_ctx *ctx, const char *family, const char *what, int choice,
                          const char *const *names);

#endif
