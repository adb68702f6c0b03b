/* Shared by the readers of operators (lite_layers.c). Messages are UNSUPPORTED, about the operator
 * that is read. */
#ifndef DT__IO_LITE_LAYERS_H
#define DT__IO_LITE_LAYERS_H

#include "io/tflite/lite_import.h"

/* Order of dimensions of an image with channels last in the file, and of values with the same order
 * in file and model. */
extern const dt__lite_place dt__lite_image, dt__lite_row;

/* NULL: left out. */
const dt__vlite_tensor *dt__lite_tensor_of(const dt__lite_import *m, int tensor);
/* Input i of an operator: a value that has a layer; a constant; an image with channels last. */
dt_status dt__lite_value_of(dt__lite_import *m, const dt__vlite_op *o, int i, dt__lite_place **out);
dt_status dt__lite_constant_of(dt__lite_import *m, const dt__vlite_op *o, int i,
                               const dt__vlite_tensor **out);
dt_status dt__lite_image_of(dt__lite_import *m, const dt__vlite_op *o, int i, dt__onnx_layer **out);
/* The value flattened in the file's order of dimensions. */
dt_status dt__lite_file_row(dt__lite_import *m, const dt__lite_place *p, dt__onnx_layer **out);
/* A flattened value; for an image `flat` receives the extents that tell the order of its pixels in
 * the file. */
dt_status dt__lite_row_of(dt__lite_import *m, const dt__lite_place *p, int64_t flat[3],
                          dt__onnx_layer **out);
/* The operator that computes a tensor; NULL: none. */
const dt__vlite_op *dt__lite_maker_of(const dt__lite_import *m, int tensor);
/* Reads a RESHAPE or EXPAND_DIMS that repeats rows and columns (lite_repeats.c). False: it does
 * not. */
bool dt__lite_read_repeat(dt__lite_import *m, const dt__vlite_op *o, dt_status *s);
/* The tensor of codes from which a float ELU between DEQUANTIZE and QUANTIZE is computed, if it
 * computes `tensor`; NULL: it does not. */
const dt__vlite_tensor *dt__lite_codes_behind(const dt__lite_import *m, int tensor);
/* Sets the operator's result to a layer's, with the order of dimensions of `like`; its extents must
 * be those that the file declares. */
dt_status dt__lite_put(dt__lite_import *m, const dt__vlite_op *o, dt__onnx_layer *l,
                       dt__onnx_layer *source, const dt__lite_place *like);
/* dt__lite_put behind the operator's fused activation. */
dt_status dt__lite_put_activated(dt__lite_import *m, const dt__vlite_op *o, dt__onnx_layer *l,
                                 int64_t activation, const dt__lite_place *like);

/* The name of the operator's layer, for readers of several operators. */
const char *dt__lite_shared_layer(const dt__vlite_op *o);
/* Readers of operators (lite_operators.inc), in lite_elements.c, lite_repeats.c; lite_windows.c. */
typedef dt_status dt__lite_device_reader(dt__lite_import *m, const dt__vlite_op *o);
dt__lite_device_reader dt__lite_read_pair, dt__lite_read_map, dt__lite_read_gelu,
    dt__lite_read_leaky, dt__lite_read_prelu, dt__lite_read_mean, dt__lite_read_largest,
    dt__lite_read_softmax, dt__lite_read_same, dt__lite_read_reshape, dt__lite_read_transpose,
    dt__lite_read_concat, dt__lite_read_slice, dt__lite_read_pad, dt__lite_read_nearest,
    dt__lite_read_tile;
dt__lite_device_reader dt__lite_read_conv, dt__lite_read_transposed, dt__lite_read_linear,
    dt__lite_read_pool, dt__lite_read_blocks;

#endif
