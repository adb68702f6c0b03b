/* A weight of codes: rows of `columns`, one after the other, of 4 bits two in a byte, the first in
 * the low half. Output r is clamp(scaled(bias[r] + sum, multiplier[r], shift[r]) + zero). */
typedef struct device_matrix {
    const int8_t *codes;
    const int32_t *bias, *multiplier, *shift;
    int32_t columns, zero, least, most;
} device_matrix;
