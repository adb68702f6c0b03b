/* The convolutional networks of part `step`, and their convolutions without the rest of the
 * network. */
#ifndef DT__BENCH_NETS_H
#define DT__BENCH_NETS_H

#include "bench/measure.h"
#include "kernels/convolution/conv_geometry.h"

#include <detent/experimental/nn.h>

#define DT__MOST_CONVS 24

typedef struct dt__net {
    const char *name;
    int64_t image[3];          /* channels, height, width */
    int64_t classes, features; /* of the head: outputs and inputs */
    dt_status (*create)(dt_ctx *ctx, dt_module **out);
    int (*list)(dt__conv *convs); /* writes its convolutions for one image, in order */
} dt__net;

/* A network conv-norm-relu 1 -> 16, 16 -> 32 by stride 2, 32 -> 32, 32 -> 48 by stride 2, max pool,
 * linear: 32,378 parameters. And He et al.'s residual network of 20 layers for images of 32 x
 * 32. */
extern const dt__net dt__net_cnn, dt__net_resnet20;
/* The networks of the recipes sounds-dscnn and digits-mobilenet (nets_lists.c): 6,060 and 8,250
 * parameters. */
extern const dt__net dt__net_dscnn, dt__net_mobilenet;

/* The number of operations of all products of a step; a multiply-add counts as two. */
double dt__net_operations(const dt__net *net, int64_t batch);

/* The convolutions of a float step, forward and backward. */
typedef struct dt__convs {
    dt_ctx *ctx;
    int n;
    dt__conv conv[DT__MOST_CONVS];
    float *x, *y, *w, *to_x, *to_y, *to_w; /* as large as the largest convolution needs */
    void *scratch;
} dt__convs;

/* Creates them with their own context; call the free function even after an error. */
dt_status dt__convs_make(dt__bench *b, const dt__net *net, int64_t batch, dt__convs *out);
dt_status dt__convs_run(void *convs);
void dt__convs_free(dt__convs *convs);

#endif
