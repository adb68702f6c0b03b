/* Resizes images of bytes, one axis at a time. From n to m pixels:
 *     m < n    area: pixel i is the mean over i n/m ... (i + 1) n/m, pixels at the ends in part
 *     m >= n   bilinear: pixel i lies at s = (i + 1/2) n/m - 1/2, clamped to 0 ... n - 1
 * Weights are integers over a common divisor (n; 2 m), so the result is exact, rounded half up, and
 * the same on every machine:
 *     y = floor((sum of weights p + D/2) / D),  D the product of both divisors */
#include "data/images/resize.h"

/* The input pixels of output pixel i: `count` from `first` on. */
typedef struct span {
    int64_t first, count;
} span;

typedef struct axis {
    int64_t n, m, divisor;
} axis;

static axis axis_of(int64_t n, int64_t m) { return (axis){ n, m, m < n ? n : 2 * m }; }

static span span_of(const axis *a, int64_t i)
{
    if (a->m < a->n) {
        const int64_t first = i * a->n / a->m;
        return (span){ first, ((i + 1) * a->n + a->m - 1) / a->m - first };
    }
    const int64_t at = (2 * i + 1) * a->n - a->m; /* 2 m s */
    const int64_t first = at < 0 ? 0 : at / a->divisor;
    return (span){ first, at > 0 && first + 1 < a->n ? 2 : 1 };
}

/* The weight of input pixel k in output pixel i. */
static int64_t weight_of(const axis *a, int64_t i, int64_t k)
{
    if (a->m < a->n) {
        const int64_t begin = i * a->n > k * a->m ? i * a->n : k * a->m;
        const int64_t end = (i + 1) * a->n < (k + 1) * a->m ? (i + 1) * a->n : (k + 1) * a->m;
        return end - begin;
    }
    const span s = span_of(a, i);
    if (s.count == 1) return a->divisor;
    const int64_t above = (2 * i + 1) * a->n - a->m - s.first * a->divisor;
    return k == s.first ? a->divisor - above : above;
}

/* Weighted sums along the rows, [height][m]. */
static void sum_columns(const axis *a, int64_t height, const uint8_t *x, uint32_t *sums)
{
    for (int64_t i = 0; i < a->m; i++) {
        const span s = span_of(a, i);
        for (int64_t r = 0; r < height; r++) {
            sums[r * a->m + i] = 0;
        }
        for (int64_t k = s.first; k < s.first + s.count; k++) {
            const uint32_t weight = (uint32_t)weight_of(a, i, k);
            for (int64_t r = 0; r < height; r++) sums[r * a->m + i] += weight * x[r * a->n + k];
        }
    }
}

static void sum_rows(const axis *a, int64_t width, uint64_t divisor, const uint32_t *sums,
                     uint8_t *y)
{
    for (int64_t i = 0; i < a->m; i++) {
        const span s = span_of(a, i);
        for (int64_t c = 0; c < width; c++) {
            uint64_t sum = divisor / 2;
            for (int64_t k = s.first; k < s.first + s.count; k++) {
                sum += (uint64_t)weight_of(a, i, k) * sums[k * width + c];
            }
            y[i * width + c] = (uint8_t)(sum / divisor);
        }
    }
}

dt_status dt__resize(dt_ctx *ctx, int64_t channels, dt__size from, const uint8_t *x, dt__size to,
                     uint8_t *y)
{
    const axis rows = axis_of(from.height, to.height), columns = axis_of(from.width, to.width);
    uint32_t *sums = dt__alloc_array(ctx, from.height, (size_t)to.width * sizeof *sums);
    if (sums == NULL) return DT_ERR_NOMEM;
    for (int64_t c = 0; c < channels; c++) {
        sum_columns(&columns, from.height, x + c * from.height * from.width, sums);
        sum_rows(&rows, to.width, (uint64_t)(rows.divisor * columns.divisor), sums,
                 y + c * to.height * to.width);
    }
    dt__release(ctx, sums);
    return DT_OK;
}
