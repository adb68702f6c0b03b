/* Operators of TFLite that import reads, or refuses by name, and that the interpreter does not run:
 * their options. */
#include "io/tflite/lite.h"

#define OTHER(name, ...)                                                                           \
    {                                                                                              \
        DT__VLITE_ROW(name), 0, DT__VLITE_IN, NULL, { __VA_ARGS__ }, NULL                          \
    }

const dt__vlite_operator dt__vlite_others[] = {
    OTHER(DEPTH_TO_SPACE, 4),
    OTHER(FLOOR, 0),
    OTHER(L2_NORMALIZATION, 1),
    OTHER(RELU_N1_TO_1, 0),
    OTHER(RESIZE_BILINEAR, 0, 0, 1, 1),
    OTHER(SPACE_TO_DEPTH, 4),
    OTHER(CUSTOM, 0),
    OTHER(BATCH_TO_SPACE_ND, 0),
    OTHER(SPACE_TO_BATCH_ND, 0),
    OTHER(SQUEEZE, 0),
    OTHER(UNIDIRECTIONAL_SEQUENCE_LSTM, 1, 4, 4, 1, 1, 1),
    OTHER(ARG_MAX, 1),
    OTHER(LESS, 0),
    OTHER(LESS_EQUAL, 0),
    OTHER(SLICE, 0),
    OTHER(TILE, 0),
    OTHER(EXPAND_DIMS, 0),
    OTHER(EQUAL, 0),
    OTHER(NOT_EQUAL, 0),
    OTHER(SHAPE, 1),
    OTHER(POW, 0),
    OTHER(REDUCE_PROD, 1),
    OTHER(PACK, 4, 4),
    OTHER(LOGICAL_OR, 0),
    OTHER(LOGICAL_AND, 0),
    OTHER(LOGICAL_NOT, 0),
    OTHER(UNPACK, 4, 4),
    OTHER(REDUCE_MIN, 1),
    OTHER(FILL, 0),
    OTHER(SQUARED_DIFFERENCE, 0),
    OTHER(SPLIT_V, 4),
    OTHER(CEIL, 0),
    OTHER(ROUND, 0),
    OTHER(WHILE, 4, 4),
    OTHER(CUMSUM, 1, 1),
    OTHER(BROADCAST_TO, 0),
    OTHER(RELU_0_TO_1, 0),
    OTHER(SIGN, 0),
    { .name = NULL },
};
