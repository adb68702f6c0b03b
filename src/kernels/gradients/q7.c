/* Products of gradients as integers in plain C: q7.h. Faster kernels must give the same bits. */
#include "kernels/kernels.h"

#include <math.h>

#define Q7_NAME(name) dt__##name##__ref
#include "kernels/gradients/q7_loops.inc"

static void add_word(const int8_t *a, const uint8_t *lanes, int32_t *sum)
{
    for (int j = 0; j < DT__LANES; j++, lanes += DT__Q7_WORD) {
        sum[j] += a[0] * lanes[0] + a[1] * lanes[1] + a[2] * lanes[2] + a[3] * lanes[3];
    }
}

static void add_panel(const dt__q7_product *p, int64_t r, int64_t j0, const uint8_t *panel)
{
    int32_t sum[DT__LANES] = { 0 };
    const int8_t *a = p->a + r * p->row_step;
    for (int64_t d = 0; d < p->depth; d += DT__Q7_WORD, a += p->word_step) {
        add_word(a, panel + d * DT__LANES, sum);
    }
    const int64_t n = dt__min_i64(DT__LANES, p->columns - j0);
    float *c = p->c + r * p->ldc + j0;
    for (int64_t j = 0; j < n; j++) {
        float whole = (float)(sum[j] - p->minus[r]);
        if (p->lane != NULL) whole = whole * p->lane[j0 + j];
        c[j] = fmaf(whole, p->row[r], p->add ? c[j] : 0);
    }
}

void dt__q7_gemm__ref(const dt__q7_product *p)
{
    const uint8_t *panel = p->panels;
    for (int64_t j = 0; j < p->columns; j += DT__LANES, panel += p->panel_step) {
        for (int64_t r = 0; r < p->rows; r++) add_panel(p, r, j, panel);
    }
}

static void add_tap(const dt__q7_taps *t, int64_t k, int64_t j, int32_t *sum)
{
    for (int64_t w = 0; w < t->words; w++) {
        const uint8_t *u = t->at[w] + t->offset[k];
        const int8_t *a = t->codes + w * t->step + j * DT__Q7_WORD;
        for (int i = 0; i < DT__Q7_OUTPUTS; i++, a += DT__Q7_WORD) {
            sum[i] += a[0] * u[0] + a[1] * u[1] + a[2] * u[2] + a[3] * u[3];
        }
    }
}

void dt__q7_taps__ref(const dt__q7_taps *t)
{
    for (int64_t k = 0; k < t->columns; k++) {
        for (int64_t j = 0; j < t->outputs; j += DT__Q7_OUTPUTS) {
            int32_t sum[DT__Q7_OUTPUTS] = { 0 };
            float *c = t->c + k * t->ldc + j;
            add_tap(t, k, j, sum);
            for (int i = 0; i < DT__Q7_OUTPUTS; i++) {
                c[i] = fmaf((float)(sum[i] - t->minus[j + i]), t->scale[j + i], c[i]);
            }
        }
    }
}
