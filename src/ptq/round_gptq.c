/* GPTQ: later columns compensate the error of each column, by the inputs' second moments.
 *
 *     H = 2/n sum Xq Xq^T      U^T U = (H + lambda mean(diag H) I)^-1, U upper      then diffuse.c
 *
 * lambda, 10 lambda and 100 lambda are tried. If none makes the matrix positive definite, it is
 * rounded to nearest. [Frantar et al., GPTQ, 2022] */
#include "ptq/matrix.h"

static dt_status prepare(dt__matrix *m)
{
    const dt_rounding *r = &m->options->rounding;
    const bool absolute = r->damping_absolute > 0;
    const double scale = 2 / (double)m->moments->n;
    double share = absolute ? 0 : r->damping;
    for (int tries = absolute || share == 0 ? 1 : 3; tries > 0; tries--, share *= 10) {
        m->damping_share = share;
        m->damping = absolute ? r->damping_absolute : share * m->mean;
        DT__TRY(dt__make_factor(m, scale, m->damping));
        if (m->factor != NULL) return DT_OK;
    }
    m->damping_share = m->damping = 0;
    m->fallback = true;
    return DT_OK;
}

static void round_rows(dt__row_block *s) { dt__diffuse(s, 0); }

const dt__rounder dt__round_gptq = {
    .reads = DT__READS_DATA | DT__READS_DAMPING | DT__READS_DAMPING_ABSOLUTE | DT__READS_BLOCK |
             DT__READS_GROUP_SCALES,
    .diffuses = true,
    .scratch = dt__diffuse_scratch,
    .prepare = prepare,
    .round = round_rows,
};
