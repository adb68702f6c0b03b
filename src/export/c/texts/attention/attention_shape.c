/* Attention of one query of `heads` heads, each `width` values; `kv_heads` heads of keys and values
 * have room for `capacity` tokens: [kv_heads][capacity][width]. The query attends to the last
 * `window` of them; 0: to all. */
typedef struct attention_shape {
    int32_t heads, kv_heads, width, capacity;
    float scale;
    int32_t window;
} attention_shape;
