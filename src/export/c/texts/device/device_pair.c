/* Two operands of one size and their result: zero points, multipliers with shifts, clamps. */
typedef struct device_pair {
    int32_t zero_a, zero_b, zero_y, a, shift_a, b, shift_b, y, shift_y, least, most;
} device_pair;
