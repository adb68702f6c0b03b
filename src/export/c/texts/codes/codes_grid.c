/* How values become codes: u = rne(clamp(x * inverse, low, high)) + zero, a byte; a code stands for
 * (u - zero) * scale. */
typedef struct code_grid {
    float scale, inverse, low, high;
    int32_t zero;
} code_grid;
