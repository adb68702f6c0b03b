/* The gradients of a layer by integer products: all threads make the codes of dy and W^ and the
 * panels of x, then run both products. One thread computes a part, and every sum has a fixed order,
 * so the bits depend neither on threads nor on the division into parts. */
#include "core/threads.h"
#include "kernels/kernels.h"

#define ROWS 32    /* rows of dy, or of a product's first operand, per part */
#define PANELS 32  /* panels per part of a product */
#define TERMS 4096 /* terms of W^ that are dequantized at once */
#define READ 32    /* rows of x that are read at once */
/* Bytes of the panels of x in a slice. Each slice reads and writes all of dw. */
#define SLICE ((size_t)2 << 20)

/* Scratch, and the parts in which it is filled. The codes of blocks of rows are made and multiplied
 * one slice at a time. */
typedef struct work {
    const dt__q7_layer *l;
    const dt__kernels *kernels;
    int64_t first, blocks;   /* blocks of the current slice */
    int64_t all;             /* blocks in total */
    int64_t panels;          /* panels of k columns */
    int64_t row, step;       /* bytes of a row of dy's codes; of a word of all columns */
    size_t w_panel, x_panel; /* bytes of a panel of W^; of a block of x */
    int64_t parts[5];        /* first part of: rows, panels of W^, columns, panels of x; the end */
    /* for dx: codes, scales and corrections of rows of dy, panels and scales of W^ */
    int8_t *rows;
    float *row_scale, *lane_scale;
    int32_t *row_minus;
    uint8_t *w;
    /* for dw: codes of columns of dy, their scales and corrections [blocks][n], panels of x
     * [blocks][panels] */
    int8_t *columns;
    float *column_scale;
    int32_t *column_minus;
    uint8_t *x;
    char *room; /* one area per thread */
    size_t room_bytes;
    size_t bytes;
} work;

/* ---- scratch --------------------------------------------------------------------------------- */

static void *take(work *w, int64_t count, size_t element)
{
    return dt__scratch_take(w->l->scratch, &w->bytes, count, element);
}

static void open_x(work *w)
{
    const dt__q7_layer *l = w->l;
    w->row = dt__round_up(l->n, DT__Q7_WORD);
    w->w_panel = dt__q7_panel(l->n);
    w->rows = take(w, l->m * w->row, 1);
    w->row_scale = take(w, l->m, sizeof(float));
    w->row_minus = take(w, l->m, sizeof(int32_t));
    w->w = take(w, w->panels, w->w_panel);
    w->lane_scale = take(w, w->panels * DT__LANES, sizeof(float));
}

static void open_w(work *w)
{
    const dt__q7_layer *l = w->l;
    w->step = dt__round_up(l->n, DT__Q7_COLUMNS) * DT__Q7_WORD;
    w->x_panel = dt__q7_panel(DT__Q7_BLOCK);
    w->columns = take(w, w->blocks * DT__Q7_BLOCK / DT__Q7_WORD, (size_t)w->step);
    w->column_scale = take(w, w->blocks * l->n, sizeof(float));
    w->column_minus = take(w, w->blocks * l->n, sizeof(int32_t));
    w->x = take(w, w->blocks * w->panels, w->x_panel);
}

/* Bytes from one row of x in `room` to the next. */
static int64_t stride_of(const dt__q7_layer *l)
{
    return dt__round_up(l->k + DT__Q7_BEHIND, DT__ALIGNMENT);
}

static void open_work(work *w, const dt__q7_layer *l)
{
    *w = (work){ .l = l,
                 .all = dt__ceil_div(l->m, DT__Q7_BLOCK),
                 .panels = dt__ceil_div(l->k, DT__LANES) };
    const size_t block = (size_t)w->panels * dt__q7_panel(DT__Q7_BLOCK);
    w->blocks = dt__min_i64(w->all, dt__max_i64(1, (int64_t)(SLICE / (block + 1))));
    if (l->dx != NULL) open_x(w);
    if (l->dw != NULL) open_w(w);
    const size_t terms = l->dx != NULL ? TERMS * DT__LANES * sizeof(float) : 0;
    const size_t x = l->dw != NULL && l->u == NULL ? (size_t)(READ * stride_of(l)) : 0;
    w->room_bytes = terms > x ? terms : x;
    w->room = take(w, l->threads, w->room_bytes);
}

/* Numbers the parts of the slice that begins at block `first`; the parts of dx belong to the first
 * slice. */
static void open_slice(work *w, int64_t first)
{
    const dt__q7_layer *l = w->l;
    int64_t parts[4] = { 0 };
    w->first = first;
    w->blocks = dt__min_i64(w->blocks, w->all - first);
    if (l->dx != NULL && first == 0) {
        parts[0] = dt__ceil_div(l->m, ROWS);
        parts[1] = w->panels;
    }
    if (l->dw != NULL) {
        parts[2] = w->blocks * dt__ceil_div(l->n, DT__Q7_COLUMNS);
        parts[3] = w->blocks;
    }
    for (int i = 0; i < 4; i++) w->parts[i + 1] = w->parts[i] + parts[i];
}

size_t dt__q7_scratch(const dt__q7_layer *l)
{
    work w;
    dt__q7_layer sizes = *l;
    sizes.scratch = NULL;
    open_work(&w, &sizes);
    return w.bytes;
}

/* ---- making codes ---------------------------------------------------------------------------- */

static void make_rows(const work *w, int64_t part)
{
    const dt__q7_layer *l = w->l;
    const int64_t m = part * ROWS;
    w->kernels->q7_rows(&(dt__q7_rows){ .rows = dt__min_i64(ROWS, l->m - m),
                                        .n = l->n,
                                        .x = l->dy + m * l->ldy,
                                        .ldx = l->ldy,
                                        .codes = w->rows + m * w->row,
                                        .ld = w->row,
                                        .scale = w->row_scale + m,
                                        .sum128 = w->row_minus + m });
}

/* Dequantizes terms n ... n + count - 1 of a panel of W^; missing columns are 0. */
static void expand(const work *w, int64_t panel, int64_t n, int64_t count, float *to)
{
    const int64_t k = panel * DT__LANES, end = dt__min_i64(k + DT__LANES, w->l->k);
    if (end - k < DT__LANES) memset(to, 0, (size_t)(count * DT__LANES) * sizeof *to);
    const dt__source *from = w->l->weight;
    from->fill(from->from, &(dt__patch){ n, n + count, k, end, to, DT__LANES });
}

/* Quantizes a panel of W^. A long column is dequantized twice: for its scale, and for its codes. */
static void make_weight(const work *w, int64_t panel, float *room)
{
    const int64_t n = w->l->n;
    uint32_t most[DT__LANES] = { 0 };
    float inverse[DT__LANES];
    dt__q7_lanes lanes = { .w = room, .most = most, .inverse = inverse };
    for (int64_t i = 0; i < n; i += TERMS) {
        lanes.n = dt__min_i64(TERMS, n - i);
        expand(w, panel, i, lanes.n, room);
        w->kernels->q7_lane_most(&lanes);
    }
    float *scale = w->lane_scale + panel * DT__LANES;
    for (int j = 0; j < DT__LANES; j++) scale[j] = dt__q7_scale(most[j], 127, &inverse[j]);
    for (int64_t i = 0; i < n; i += TERMS) {
        lanes.n = dt__min_i64(TERMS, n - i);
        lanes.panel = w->w + (size_t)panel * w->w_panel + i * DT__LANES;
        if (n > TERMS) expand(w, panel, i, lanes.n, room);
        w->kernels->q7_lane_codes(&lanes);
    }
}

/* Block `block` of the slice: its first row, and its number of rows. */
static int64_t row_of(const work *w, int64_t block) { return (w->first + block) * DT__Q7_BLOCK; }

static int64_t rows_of(const work *w, int64_t block)
{
    return dt__min_i64(DT__Q7_BLOCK, w->l->m - row_of(w, block));
}

static int8_t *columns_of(const work *w, int64_t block)
{
    return w->columns + block * (DT__Q7_BLOCK / DT__Q7_WORD) * w->step;
}

static void make_columns(const work *w, int64_t part)
{
    const dt__q7_layer *l = w->l;
    const int64_t across = dt__ceil_div(l->n, DT__Q7_COLUMNS);
    const int64_t block = part / across, n = part % across * DT__Q7_COLUMNS;
    const int64_t m = row_of(w, block);
    w->kernels->q7_columns(&(dt__q7_columns){ .rows = rows_of(w, block),
                                              .n = dt__min_i64(DT__Q7_COLUMNS, l->n - n),
                                              .x = l->dy + m * l->ldy + n,
                                              .ldx = l->ldy,
                                              .factor = l->sx + m,
                                              .zero = l->zu + m,
                                              .codes = columns_of(w, block) + DT__Q7_WORD * n,
                                              .step = w->step,
                                              .scale = w->column_scale + block * l->n + n,
                                              .sum = w->column_minus + block * l->n + n });
}

static uint8_t *panels_of(const work *w, int64_t block)
{
    return w->x + (size_t)(block * w->panels) * w->x_panel;
}

/* Writes `rows` rows of a block, at `from`, as words from the block's row `first` on. Missing rows
 * repeat the last one: their codes of dy are 0. */
static void join_rows(const work *w, int64_t block, int64_t first, int64_t rows,
                      const uint8_t *from, int64_t stride)
{
    for (int64_t i = 0; i < rows; i += DT__Q7_WORD) {
        dt__q7_words words = { .n = w->l->k,
                               .to = panels_of(w, block) + (first + i) * DT__LANES,
                               .panel_step = w->x_panel };
        for (int64_t j = 0; j < DT__Q7_WORD; j++) {
            words.row[j] = from + dt__min_i64(i + j, rows - 1) * stride;
        }
        w->kernels->q7_words(&words);
    }
}

static void make_x(const work *w, int64_t block, uint8_t *room)
{
    const dt__q7_layer *l = w->l;
    const int64_t rows = rows_of(w, block), m = row_of(w, block), stride = stride_of(l);
    if (l->u != NULL) {
        join_rows(w, block, 0, rows, l->u + m * l->ldu, l->ldu);
        return;
    }
    for (int64_t i = 0; i < rows; i += READ) {
        const int64_t count = dt__min_i64(READ, rows - i);
        l->read(l->from, m + i, count, room, stride);
        join_rows(w, block, i, count, room, stride);
    }
}

static void make(const void *args, const dt__share *s)
{
    const work *w = args;
    void *room = w->room + (size_t)s->thread * w->room_bytes;
    for (int64_t i = s->first; i < s->past; i++) {
        if (i < w->parts[1]) make_rows(w, i);
        else if (i < w->parts[2]) make_weight(w, i - w->parts[1], room);
        else if (i < w->parts[3]) make_columns(w, i - w->parts[2]);
        else make_x(w, i - w->parts[3], room);
    }
}

/* ---- products -------------------------------------------------------------------------------- */

static int64_t parts_of(const work *w, int64_t rows)
{
    return dt__ceil_div(rows, ROWS) * dt__ceil_div(w->panels, PANELS);
}

/* Rows and panels of part i of a product with so many rows. */
typedef struct place {
    int64_t row, rows, panel, k, columns;
} place;

static place place_of(const work *w, int64_t rows, int64_t i)
{
    const int64_t chunks = dt__ceil_div(rows, ROWS), panel = i / chunks * PANELS;
    place p = { .row = i % chunks * ROWS, .panel = panel, .k = panel * DT__LANES };
    p.rows = dt__min_i64(ROWS, rows - p.row);
    p.columns = dt__min_i64(PANELS * DT__LANES, w->l->k - p.k);
    return p;
}

static void multiply_x(const work *w, int64_t i)
{
    const dt__q7_layer *l = w->l;
    const place p = place_of(w, l->m, i);
    w->kernels->q7_gemm(&(dt__q7_product){ .rows = p.rows,
                                           .columns = p.columns,
                                           .depth = w->row,
                                           .a = w->rows + p.row * w->row,
                                           .row_step = w->row,
                                           .word_step = DT__Q7_WORD,
                                           .panels = w->w + (size_t)p.panel * w->w_panel,
                                           .panel_step = w->w_panel,
                                           .minus = w->row_minus + p.row,
                                           .row = w->row_scale + p.row,
                                           .lane = w->lane_scale + p.k,
                                           .add = l->add_x,
                                           .c = l->dx + p.row * l->k + p.k,
                                           .ldc = l->k });
}

static void multiply_w(const work *w, int64_t i)
{
    const dt__q7_layer *l = w->l;
    const place p = place_of(w, l->n, i);
    for (int64_t b = 0; b < w->blocks; b++) {
        w->kernels->q7_gemm(
            &(dt__q7_product){ .rows = p.rows,
                               .columns = p.columns,
                               .depth = dt__round_up(rows_of(w, b), DT__Q7_WORD),
                               .a = columns_of(w, b) + DT__Q7_WORD * p.row,
                               .row_step = DT__Q7_WORD,
                               .word_step = w->step,
                               .panels = panels_of(w, b) + (size_t)p.panel * w->x_panel,
                               .panel_step = w->x_panel,
                               .minus = w->column_minus + b * l->n + p.row,
                               .row = w->column_scale + b * l->n + p.row,
                               .add = w->first + b > 0 || l->add_w,
                               .c = l->dw + p.row * l->k + p.k,
                               .ldc = l->k });
    }
}

/* Without terms the sum is 0. */
static void clear(const dt__q7_layer *l)
{
    if (l->dx != NULL && l->n == 0 && !l->add_x) {
        memset(l->dx, 0, (size_t)(l->m * l->k) * sizeof *l->dx);
    }
    if (l->dw != NULL && l->m == 0 && !l->add_w) {
        memset(l->dw, 0, (size_t)(l->n * l->k) * sizeof *l->dw);
    }
}

/* The parts of the products: those of dx, then those of dw. */
static int64_t parts_of_x(const work *w)
{
    return w->l->dx != NULL && w->first == 0 ? parts_of(w, w->l->m) : 0;
}

static void multiply(const void *args, const dt__share *s)
{
    const work *w = args;
    const int64_t of_x = parts_of_x(w);
    for (int64_t i = s->first; i < s->past; i++) {
        if (i < of_x) multiply_x(w, i);
        else multiply_w(w, i - of_x);
    }
}

/* A multiply-add takes a hundredth of the time of an element (dt__parallel). */
static void run_slice(work *w, int64_t first)
{
    const dt__q7_layer *l = w->l;
    open_slice(w, first);
    const int64_t rows = dt__min_i64(l->m, w->blocks * DT__Q7_BLOCK);
    const int64_t elements = 2 * rows * l->n + l->n * l->k + rows * l->k / 4;
    const int64_t of_x = parts_of_x(w), of_w = l->dw != NULL ? parts_of(w, l->n) : 0;
    const int64_t products = ((of_x > 0 ? l->m : 0) + (of_w > 0 ? rows : 0)) * l->n * l->k / 100;
    dt__parallel(w->parts[4], elements / dt__max_i64(1, w->parts[4]), make, w);
    dt__parallel(of_x + of_w, products / dt__max_i64(1, of_x + of_w), multiply, w);
}

void dt__q7_run(const dt__kernels *kernels, const dt__q7_layer *l)
{
    if (l->m == 0 || l->n == 0 || l->k == 0) {
        clear(l);
        return;
    }
    work w;
    open_work(&w, l);
    w.kernels = kernels;
    run_slice(&w, 0);
    for (int64_t b = w.blocks; l->dw != NULL && b < w.all; b += w.blocks) run_slice(&w, b);
}
