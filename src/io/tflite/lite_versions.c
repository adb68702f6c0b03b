/* The newest version of each operator of TFLite that LiteRT 2.3.0's default kernels have: what its
 * interpreter accepted of files with every version from 1 to 19. All older ones are there as well.
 * TFLite Micro does not read versions. */
#include "io/tflite/lite_graph.h"

static const struct {
    int code, newest;
} versions[] = {
    { 0, 6 },   /* ADD */
    { 1, 3 },   /* AVERAGE_POOL_2D */
    { 2, 7 },   /* CONCATENATION */
    { 3, 8 },   /* CONV_2D */
    { 4, 7 },   /* DEPTHWISE_CONV_2D */
    { 6, 9 },   /* DEQUANTIZE */
    { 9, 14 },  /* FULLY_CONNECTED */
    { 14, 3 },  /* LOGISTIC */
    { 17, 3 },  /* MAX_POOL_2D */
    { 18, 8 },  /* MUL */
    { 19, 3 },  /* RELU */
    { 21, 3 },  /* RELU6 */
    { 22, 1 },  /* RESHAPE */
    { 25, 4 },  /* SOFTMAX */
    { 28, 3 },  /* TANH */
    { 34, 6 },  /* PAD */
    { 36, 8 },  /* GATHER */
    { 39, 9 },  /* TRANSPOSE */
    { 40, 3 },  /* MEAN */
    { 41, 5 },  /* SUB */
    { 42, 2 },  /* DIV */
    { 45, 8 },  /* STRIDED_SLICE */
    { 47, 2 },  /* EXP */
    { 49, 5 },  /* SPLIT */
    { 50, 2 },  /* LOG_SOFTMAX */
    { 53, 9 },  /* CAST */
    { 54, 1 },  /* PRELU */
    { 55, 4 },  /* MAXIMUM */
    { 57, 4 },  /* MINIMUM */
    { 59, 1 },  /* NEG */
    { 60, 6 },  /* PADV2 */
    { 61, 2 },  /* GREATER */
    { 62, 3 },  /* GREATER_EQUAL */
    { 67, 5 },  /* TRANSPOSE_CONV */
    { 73, 2 },  /* LOG */
    { 74, 2 },  /* SUM */
    { 75, 2 },  /* SQRT */
    { 76, 3 },  /* RSQRT */
    { 82, 3 },  /* REDUCE_MAX */
    { 92, 1 },  /* SQUARE */
    { 97, 4 },  /* RESIZE_NEAREST_NEIGHBOR */
    { 98, 2 },  /* LEAKY_RELU */
    { 100, 3 }, /* MIRROR_PAD */
    { 101, 5 }, /* ABS */
    { 111, 1 }, /* ELU */
    { 114, 6 }, /* QUANTIZE */
    { 117, 1 }, /* HARD_SWISH */
    { 123, 2 }, /* SELECT_V2 */
    { 126, 4 }, /* BATCH_MATMUL */
    { 150, 3 }, /* GELU */
};

int dt__vlite_newest(int64_t code)
{
    for (int i = 0; i < DT__COUNT_OF(versions); i++) {
        if (versions[i].code == code) return versions[i].newest;
    }
    return 0;
}
