/* Attention of one query of `heads` heads, each `width` values; `kv_heads` heads of keys and values
 * have room for `capacity` tokens: [kv_heads][capacity][width]. How sums are divided decides the
 * last bits: `lanes` (1 or 16) partial sums of a score, `part` keys whose results are joined. */
typedef struct attention_shape {
    int32_t heads, kv_heads, width, capacity, lanes, part;
    float scale;
} attention_shape;
