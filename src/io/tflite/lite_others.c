/* Operators of TFLite that import reads, or refuses by name, and that the interpreter does not run:
 * their options. */
#include "io/tflite/lite.h"

#define OTHER(code, name, ...)                                                                     \
    {                                                                                              \
        code, name, 0, DT__VLITE_IN, NULL, { __VA_ARGS__ }, NULL                                   \
    }

const dt__vlite_operator dt__vlite_others[] = {
    OTHER(5, "DEPTH_TO_SPACE", 4),
    OTHER(8, "FLOOR", 0),
    OTHER(11, "L2_NORMALIZATION", 1),
    OTHER(20, "RELU_N1_TO_1", 0),
    OTHER(23, "RESIZE_BILINEAR", 0, 0, 1, 1),
    OTHER(26, "SPACE_TO_DEPTH", 4),
    OTHER(32, "CUSTOM", 0),
    OTHER(37, "BATCH_TO_SPACE_ND", 0),
    OTHER(38, "SPACE_TO_BATCH_ND", 0),
    OTHER(43, "SQUEEZE", 0),
    OTHER(44, "UNIDIRECTIONAL_SEQUENCE_LSTM", 1, 4, 4, 1, 1, 1),
    OTHER(56, "ARG_MAX", 1),
    OTHER(58, "LESS", 0),
    OTHER(63, "LESS_EQUAL", 0),
    OTHER(65, "SLICE", 0),
    OTHER(69, "TILE", 0),
    OTHER(70, "EXPAND_DIMS", 0),
    OTHER(71, "EQUAL", 0),
    OTHER(72, "NOT_EQUAL", 0),
    OTHER(77, "SHAPE", 1),
    OTHER(78, "POW", 0),
    OTHER(81, "REDUCE_PROD", 1),
    OTHER(83, "PACK", 4, 4),
    OTHER(84, "LOGICAL_OR", 0),
    OTHER(86, "LOGICAL_AND", 0),
    OTHER(87, "LOGICAL_NOT", 0),
    OTHER(88, "UNPACK", 4, 4),
    OTHER(89, "REDUCE_MIN", 1),
    OTHER(94, "FILL", 0),
    OTHER(99, "SQUARED_DIFFERENCE", 0),
    OTHER(102, "SPLIT_V", 4),
    OTHER(104, "CEIL", 0),
    OTHER(116, "ROUND", 0),
    OTHER(119, "WHILE", 4, 4),
    OTHER(128, "CUMSUM", 1, 1),
    OTHER(130, "BROADCAST_TO", 0),
    OTHER(152, "RELU_0_TO_1", 0),
    OTHER(158, "SIGN", 0),
    { .name = NULL },
};
