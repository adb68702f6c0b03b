/* Linear layers as MatMulNBits of com.microsoft (--ops nbits): activations in float, weights as
 * codes of 2, 4 or 8 bits plus 2^(bits-1), in blocks along a row.
 *
 *     B        uint8 [rows, blocks, block * bits / 8], low bits first; the last block is filled up
 *              with codes of zero
 *     scales   f32 [rows * blocks]
 *     zero points   uint8 [rows * bytes of a row's codes], absent: 2^(bits-1)
 *
 * A block has 16, 32, 64, 128 or 256 columns: a group of another length is divided into such
 * blocks; if that is impossible, the weight stays a float matrix. So does an 8-bit weight at
 * accuracy_level 0, as onnxruntime 1.32 would dequantize it at each call, which takes 20 to 80
 * times as long as the float product. */
#include "export/onnx/onnx_put_model.h"

/* The block length that divides a group; 0: none. A group that is a whole row may have any
 * length. */
static int64_t block_of(const dt__put_weight *w)
{
    for (int64_t block = 256; block >= 16; block /= 2) {
        const bool row = w->groups == 1 && (block <= w->columns || block == 16);
        if (row || w->group % block == 0) return block;
    }
    return 0;
}

/* 2, 4 or 8 bits per code; at level 0 only 4, as onnxruntime is slow with others. */
static int bits_of(const dt__put_weight *w, int64_t accuracy)
{
    return w->bits <= 2 && accuracy > 0 ? 2 : w->bits <= 4 ? 4 : 8;
}

bool dt__put_takes_nbits(const dt__put_weight *w, int64_t accuracy)
{
    const bool fast = accuracy > 0 || bits_of(w, accuracy) == 4;
    return fast && w->real == NULL && w->order == NULL && w->columns > 0 && block_of(w) > 0;
}

/* A weight divided into blocks. */
typedef struct blocked {
    const dt__put_weight *w;
    int bits;
    int64_t block, blocks; /* per row */
} blocked;

static void put_bits(uint8_t *to, int64_t at, int bits, int code)
{
    to[at * bits / 8] = (uint8_t)(to[at * bits / 8] | code << at * bits % 8);
}

static dt__value bytes(dt__put *p, const dt__put_weight *w, const uint8_t *data, int rank,
                       const int64_t *dims)
{
    size_t n = 1;
    for (int i = 0; i < rank; i++) n *= (size_t)dims[i];
    return dt__put_tensor(p, &(dt__put_array){ .name = w->name,
                                               .type = DT__PUT_UINT8,
                                               .rank = rank,
                                               .dims = dims,
                                               .data = data,
                                               .bytes = n,
                                               .lent = true });
}

static dt__value packed_codes(dt__put *p, const blocked *b)
{
    const dt__put_weight *w = b->w;
    const int bits = b->bits, offset = 1 << (bits - 1);
    const int64_t dims[] = { w->rows, b->blocks, b->block * bits / 8 }, row = b->blocks * dims[2];
    uint8_t *packed = dt__put_memory(p, w->rows * row, 1);
    for (int64_t n = 0; n < w->rows && packed != NULL; n++) {
        for (int64_t k = 0; k < b->blocks * b->block; k++) {
            const int code = k < w->columns ? w->codes[n * w->columns + k] : 0;
            put_bits(packed + n * row, k, bits, code + offset);
        }
    }
    return packed == NULL ? NULL : bytes(p, w, packed, 3, dims);
}

/* The group that contains a block. */
static int64_t group_at(const blocked *b, int64_t i)
{
    return dt__min_i64(i * b->block / b->w->group, b->w->groups - 1);
}

static dt__value block_scales(dt__put *p, const blocked *b)
{
    const dt__put_weight *w = b->w;
    const int64_t blocks = b->blocks, count = w->rows * blocks;
    float *scale = dt__put_memory(p, count, sizeof *scale);
    if (scale == NULL) return NULL;
    for (int64_t i = 0; i < count; i++) {
        scale[i] = w->scale[i / blocks * w->groups + group_at(b, i % blocks)];
    }
    return dt__put_tensor(p, &(dt__put_array){ .name = w->name,
                                               .type = DT__PUT_FLOAT,
                                               .rank = 1,
                                               .dims = &count,
                                               .data = scale,
                                               .lent = true,
                                               .bytes = (size_t)count * sizeof *scale });
}

static dt__value block_zeros(dt__put *p, const blocked *b)
{
    const dt__put_weight *w = b->w;
    const int bits = b->bits, offset = 1 << (bits - 1);
    const int64_t blocks = b->blocks, row = dt__ceil_div(blocks * bits, 8), count = w->rows * row;
    if (w->zero_point == NULL) return "";
    uint8_t *zero = dt__put_memory(p, count, 1);
    for (int64_t n = 0; n < w->rows && zero != NULL; n++) {
        for (int64_t i = 0; i < blocks; i++) {
            const int z = w->zero_point[n * w->groups + group_at(b, i)];
            put_bits(zero + n * row, i, bits, z + offset);
        }
    }
    return zero == NULL ? NULL : bytes(p, w, zero, 1, &count);
}

dt__value dt__put_nbits(dt__put *p, dt__value x, const dt__put_weight *w, int64_t accuracy)
{
    const int64_t block = block_of(w);
    const blocked b = { w, bits_of(w, accuracy), block, dt__ceil_div(w->columns, block) };
    dt__value codes = packed_codes(p, &b), scale = block_scales(p, &b), zero = block_zeros(p, &b);
    const char *const in[] = { x, codes, scale, zero };
    dt__value y = dt__put_node(p, "MatMulNBits", in, w->zero_point == NULL ? 3 : 4);
    if (y == NULL) return NULL;
    dt__put_microsoft(p);
    dt__put_attr_int(p, "K", w->columns);
    dt__put_attr_int(p, "N", w->rows);
    dt__put_attr_int(p, "bits", b.bits);
    dt__put_attr_int(p, "block_size", block);
    dt__put_attr_int(p, "accuracy_level", accuracy);
    return y;
}
