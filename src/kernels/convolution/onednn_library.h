/* oneDNN's library, loaded when a network first convolves floats: linking to it would cost every
 * start of a program three milliseconds. */
#ifndef DT__KERNELS_ONEDNN_LIBRARY_H
#define DT__KERNELS_ONEDNN_LIBRARY_H

#include "core/core.h"

#include <dnnl.h>

#define DT__DNNL_FUNCTIONS(F)                                                                      \
    F(dilated_convolution_backward_data_desc_init)                                                 \
    F(dilated_convolution_backward_weights_desc_init)                                              \
    F(dilated_convolution_forward_desc_init)                                                       \
    F(engine_create)                                                                               \
    F(engine_destroy)                                                                              \
    F(memory_create)                                                                               \
    F(memory_desc_equal)                                                                           \
    F(memory_desc_get_size)                                                                        \
    F(memory_desc_init_by_tag)                                                                     \
    F(memory_destroy)                                                                              \
    F(primitive_attr_create)                                                                       \
    F(primitive_attr_destroy)                                                                      \
    F(primitive_attr_set_scratchpad_mode)                                                          \
    F(primitive_create)                                                                            \
    F(primitive_desc_create)                                                                       \
    F(primitive_desc_destroy)                                                                      \
    F(primitive_desc_query)                                                                        \
    F(primitive_desc_query_md)                                                                     \
    F(primitive_destroy)                                                                           \
    F(primitive_execute)                                                                           \
    F(primitive_get_primitive_desc)                                                                \
    F(reorder_primitive_desc_create)                                                               \
    F(stream_create)                                                                               \
    F(stream_destroy)                                                                              \
    F(version)

/* Its functions, by their names without "dnnl_". */
typedef struct dt__dnnl_library {
#define DT__DNNL_FUNCTION(name) __typeof__(dnnl_##name) *name;
    DT__DNNL_FUNCTIONS(DT__DNNL_FUNCTION)
#undef DT__DNNL_FUNCTION
} dt__dnnl_library;

extern dt__dnnl_library dt__dnnl; /* after dt__dnnl_load */

/* Loads the library once in a process. Errors: STATE where it is missing, or too old. */
dt_status dt__dnnl_load(dt_ctx *ctx);

/* Sets the number of threads of oneDNN's OpenMP for the calling thread, and returns the number
 * before; 0 and no effect if oneDNN was built without OpenMP. Our own loops run every primitive on
 * one thread. */
int dt__dnnl_threads(int threads);

#endif
