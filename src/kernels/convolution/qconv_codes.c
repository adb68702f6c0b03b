/* Results of a convolution as codes: a tile's sums are requantized output by output, then go to the
 * images (qconv.h). */
#include "kernels/products/copy_few.h"
#include "kernels/convolution/qconv.h"

/* Copies a line of a tile's bytes to the images at y, whose samples are `ld` bytes apart. */
static void write_line(const dt__code_tile *t, const void *line, int64_t ld, void *y)
{
    const int64_t sample = t->channels * t->plane;
    for (const dt__tile_run *r = t->run; r < t->run + t->runs; r++) {
        const uint8_t *from = (const uint8_t *)line + r->first;
        uint8_t *to = (uint8_t *)y + r->to / sample * ld + r->to % sample;
        const int n = r->past - r->first;
        if (t->every == 1) dt__copy_few(to, from, n);
        else
            for (int i = 0; i < n; i++) to[i * t->every] = from[i];
    }
}

void dt__qconv_write_codes(const dt__kernels *kernels, const dt__qconv *q, const dt__code_tile *t)
{
    const dt__qconv_codes *c = q->codes;
    const int64_t sample = t->channels * t->plane;
    const bool direct = t->every == 1 && t->runs == 1;
    const int64_t to = t->run->to / sample * c->ldu + t->run->to % sample; /* in u */
    uint8_t line[DT__CODE_TILE];
    int8_t residual[DT__CODE_TILE];
    for (int64_t o = 0; o < t->outputs; o++) {
        uint8_t *u = c->u + o * t->plane;
        int8_t *r = c->residual == NULL ? NULL : c->residual + o * t->plane;
        kernels->requantize(&(dt__requantizing){
            .n = t->rows,
            .sum = t->sum + o * t->ld,
            .offset = c->offset[t->first + o],
            .by = c->by[t->first + o],
            .zero = c->zero,
            .least = c->least,
            .most = c->most,
            .u = direct ? u + to : line,
            .residual = r == NULL ? NULL
                        : direct  ? r + t->run->to
                                  : residual,
        });
        if (direct) continue;
        write_line(t, line, c->ldu, u);
        if (r != NULL) write_line(t, residual, sample, r);
    }
}
