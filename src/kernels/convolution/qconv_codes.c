/* Results of a convolution as codes: a tile's sums are requantized output by output, then go to the
 * images (qconv.h). */
#include "kernels/products/copy_few.h"
#include "kernels/convolution/qconv.h"

/* A line of bytes of a tile, to its places. */
static void write_line(const dt__code_tile *t, const uint8_t *line, const int64_t *at, uint8_t *to)
{
    for (int m = 0, past; m < t->rows; m = past) {
        for (past = m + 1; past < t->rows && at[past] == at[past - 1] + t->every;) past++;
        if (t->every == 1 && past - m > 1) dt__copy_few(to + at[m], line + m, past - m);
        else
            for (int i = m; i < past; i++) to[at[i]] = line[i];
    }
}

void dt__qconv_write_codes(const dt__kernels *kernels, const dt__qconv *q, const dt__code_tile *t)
{
    const dt__qconv_codes *c = q->codes;
    const int64_t sample = t->channels * t->plane;
    const bool direct = t->every == 1 && t->at[t->rows - 1] == t->at[0] + t->rows - 1;
    uint8_t line[DT__CODE_TILE];
    int8_t residual[DT__CODE_TILE];
    int64_t at[DT__CODE_TILE]; /* in u, whose samples may have room between them */
    for (int m = 0; m < t->rows; m++) {
        at[m] = t->at[m] / sample * c->ldu + t->at[m] % sample;
    }
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
            .u = direct ? u + at[0] : line,
            .residual = r == NULL ? NULL
                        : direct  ? r + t->at[0]
                                  : residual,
        });
        if (direct) continue;
        write_line(t, line, at, u);
        if (r != NULL) write_line(t, (const uint8_t *)residual, t->at, (uint8_t *)r);
    }
}
