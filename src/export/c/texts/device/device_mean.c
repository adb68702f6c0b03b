/* Means of n codes that lie `inner` apart: zeros, multiplier and shift. */
typedef struct device_means {
    int32_t outer, n, inner, zero_x, zero_y, by, shift;
} device_means;
static void device_mean(const device_means *s, const int8_t *x, int8_t *y)
{
    int32_t i, j, k;
    for (i = 0; i < s->outer; i++, x += s->n * s->inner) {
        for (j = 0; j < s->inner; j++) {
            int32_t sum = 0;
            for (k = 0; k < s->n; k++) sum += x[k * s->inner + j] - s->zero_x;
            *y++ = clamped(scaled(sum, s->by, s->shift) + s->zero_y, -128, 127);
        }
    }
}
