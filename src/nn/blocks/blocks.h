/* Building blocks of convolutional networks: convolution, norm and activation as one unit, and the
 * image size after each layer. */
#ifndef DT__NN_BLOCKS_H
#define DT__NN_BLOCKS_H

#include "nn/blocks/unit.h"

/* Keys that families of convolutional networks share. */
#define DT__IMAGE_KEY(options)                                                                     \
    {                                                                                              \
        "image", DT_KEY_INTS, offsetof(options, image),                                            \
            .least = 1, .most = 1 << 20, .fallback = "!", .fewest = 3,                             \
            .text = "channels, height and width of the input"                                      \
    }
#define DT__NORM_KEYS(options)                                                                     \
    { "norm_groups",                                                                               \
      DT_KEY_INT,                                                                                  \
      offsetof(options, norms.groups),                                                             \
      .least = 1,                                                                                  \
      .most = 1 << 16,                                                                             \
      .fallback = "4",                                                                             \
      .text = "group norm: number of groups of channels" },                                        \
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

/* The size of an image: of the input, or after some layers. */
typedef struct dt__frame {
    int64_t channels, height, width;
} dt__frame;

/* Reads an option [channels, height, width]. ARG if it is not three extents in range. */
dt_status dt__frame_of(dt_ctx *ctx, const char *family, const dt_ints *option, dt__frame *image);
/* Updates the size to that after a convolution or pooling `layer`. ARG, naming `what`, if the
 * window is larger than the padded image. */
dt_status dt__frame_windows(dt_ctx *ctx, const char *what, const dt_conv_layer *layer,
                            dt__frame *image);
/* The dt_example of an option [channels, height, width]. */
dt_example dt__frame_example(const char *key, const dt_ints *image);

/* A square convolution, dilation 1, one group. */
dt_conv_layer dt__square_conv(int64_t in, int64_t out, int64_t kernel, int64_t stride,
                              int64_t padding);

typedef struct dt__unit_plan {
    const char *conv, *norm; /* names of the children */
    dt_conv_layer layer;
    int kind; /* dt_norm_kind of the norm */
    const dt_norm_options *norms;
} dt__unit_plan;

/* Makes the convolution and the norm of a unit, as children of m. Does not set u->activation. */
dt_status dt__add_unit(dt_module *m, const dt__unit_plan *plan, dt__unit *u);
/* Adds a child `activation` to m, given by its index into dt_activation_names. */
dt_status dt__add_activation(dt_module *m, int activation, dt_module **lent);

/* Adds a child with a zeroed state to m, under a name or, in a list, under its number. */
dt_status dt__add_child(dt_module *m, const char *name, const dt_module_type *type,
                        size_t state_bytes, dt_module **lent);
dt_status dt__add_item(dt_module *list, const dt_module_type *type, size_t state_bytes,
                       dt_module **lent);

/* A unit as a module of its own, whose state is a dt__unit. */
extern const dt_module_type dt__unit_type;
/* Makes the children of such a module; without activation if `activation` is negative. */
dt_status dt__build_unit(dt_module *m, const dt__unit_plan *plan, int activation);

/* ARG if `choice` is not an index into `names`, a list that ends with NULL. */
dt_status dt__want_choice(dt_ctx *ctx, const char *family, const char *what, int choice,
                          const char *const *names);

#endif
