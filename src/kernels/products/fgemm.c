/* A few rows of floats times packed codes in plain C, by the formula of dt__fgemm in panels.h
 * (numerics §2). The faster kernels must give the same bits. */
#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

typedef float chains[2][DT__LANES];

/* Unpacks the codes of a step: k = 0 ... 3 of each lane, then k = 4 ... 7. */
static void unpack_step(const dt__panel_layout *l, const uint8_t *from, int8_t to[8][DT__LANES])
{
    for (int j = 0; j < DT__LANES; j++) {
        const uint8_t *lane = from + (size_t)(j / 16) * (l->step_bytes / 2) + (size_t)(j % 16) * 4;
        for (int i = 0; i < 4; i++) {
            to[i][j] = (int8_t)(l->nibbles ? ((lane[i] & 15) ^ 8) - 8 : (int8_t)lane[i]);
            to[4 + i][j] = (int8_t)(l->nibbles ? (lane[i] >> 4 ^ 8) - 8 : (int8_t)lane[64 + i]);
        }
    }
}

static void add_piece(const dt__panel_layout *l, const dt__piece *p, const uint8_t *panel,
                      const float *x, float acc[DT__LANES])
{
    chains part = { 0 };
    float scale[DT__LANES];
    int8_t codes[8][DT__LANES];
    for (int64_t k = 0; k < p->length; k++) {
        if (k % 8 == 0) unpack_step(l, panel + p->codes + (size_t)(k / 8) * l->step_bytes, codes);
        float *sum = part[k / 4 % 2];
        for (int j = 0; j < DT__LANES; j++) {
            sum[j] = fmaf(x[p->start + k], (float)codes[k % 8][j], sum[j]);
        }
    }
    dt__panel_scales(l->scale_dtype, panel + p->scales, scale);
    for (int j = 0; j < DT__LANES; j++) acc[j] = fmaf(part[0][j] + part[1][j], scale[j], acc[j]);
}

static void run_panel(const dt__fgemm *g, int64_t panel)
{
    const dt__panel_layout *l = g->layout;
    const uint8_t *from = (const uint8_t *)g->panels + (size_t)panel * l->panel_bytes;
    const int64_t n0 = dt__panel_row(l, panel);
    const int lanes = dt__panel_lanes(l, panel);
    for (int64_t m = 0; m < g->m; m++) {
        float acc[DT__LANES] = { 0 };
        for (int64_t i = 0; i < l->pieces; i++) {
            const dt__piece piece = dt__piece_of(l, i);
            add_piece(l, &piece, from, g->x + m * g->ldx, acc);
        }
        memcpy(g->y + m * g->ldy + n0, acc, (size_t)lanes * sizeof(float));
    }
}

DT__LOOP(run_share, dt__fgemm, g, i)
{
    int64_t panel = i;
    const dt__fgemm *of = dt__fgemm_at(g, &panel);
    run_panel(of, panel);
}

static void run(const dt__fgemm *g)
{
    const int64_t panels = dt__fgemm_panels(g);
    dt__parallel(panels, g->alone ? 0 : DT__LANES * g->layout->depth * g->m, run_share, g);
}

void dt__f32_qb4_gemm__ref(const dt__fgemm *g) { run(g); }
void dt__f32_qb8_gemm__ref(const dt__fgemm *g) { run(g); }
