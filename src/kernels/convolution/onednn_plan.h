/* A plan: the primitives of one convolution problem, and the slices of its batch. */
#ifndef DT__KERNELS_ONEDNN_PLAN_H
#define DT__KERNELS_ONEDNN_PLAN_H

#include "kernels/convolution/conv_geometry.h"
#include "kernels/convolution/onednn_library.h"

enum { DT__DNNL_X, DT__DNNL_Y, DT__DNNL_W, DT__DNNL_OPERANDS };

typedef enum dt__dnnl_task {
    DT__DNNL_NONE,
    DT__DNNL_MAKE_Y,
    DT__DNNL_MAKE_X,
    DT__DNNL_MAKE_W
} dt__dnnl_task;

/* A primitive and the layout of each operand. `reorder` converts from row-major to that layout, or
 * back for the result; NULL if the layouts are equal. The primitives own the layouts. */
typedef struct dt__dnnl_step {
    dt__dnnl_task task;
    dnnl_primitive_t primitive;
    const dnnl_memory_desc_t *layout[DT__DNNL_OPERANDS], *scratch;
    dnnl_primitive_t reorder[DT__DNNL_OPERANDS];
} dt__dnnl_step;

/* The steps for one number of images. */
typedef struct dt__dnnl_slice {
    int64_t images;
    dnnl_memory_desc_t ours[DT__DNNL_OPERANDS]; /* row-major */
    dt__dnnl_step image, weight; /* computes y or x; computes w's gradient; either may be missing */
    bool shares;                 /* both steps read the same operand in the same layout */
} dt__dnnl_slice;

/* The key of the cache: all that primitives depend on. */
typedef struct dt__dnnl_key {
    dt__conv conv;
    int64_t image, weight, bias; /* the tasks, and whether y gets a bias */
} dt__dnnl_key;

typedef struct dt__dnnl_plan {
    dt__dnnl_key key;
    bool refused;               /* oneDNN has no fast primitive for it */
    dt__dnnl_slice whole, rest; /* rest.images is 0 where slices are equal */
    int64_t slices, parts;      /* a part is a run of slices that one thread computes */
    uint64_t used;              /* time of last use, by the cache's counter */
} dt__dnnl_plan;

typedef struct dt__dnnl_cache {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    uint64_t uses;
    int64_t count;
    dt__dnnl_plan *plans[];
} dt__dnnl_cache;

/* The plan of a work, from the cache or new; *plan NULL if oneDNN should not do it. Errors:
 * NOMEM. */
dt_status dt__dnnl_plan_of(dt_ctx *ctx, const dt__conv_work *work, dt__dnnl_plan **plan);

#endif
