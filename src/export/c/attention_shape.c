/* Attention of one query of `heads` heads, each `width` values; `kv_heads` heads of keys and values
 * have room for `capacity` tokens: [kv_heads][capacity][width]. */
typedef struct attention_shape {
    int32_t heads, kv_heads, width, capacity;
    float scale;
} attention_shape;
