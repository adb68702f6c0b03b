/* The gradient dw of a convolution (q7_conv.h). For a slice of blocks all threads make the codes of
 * dy, then multiply them, each thread its own columns of dw. Blocks are added in ascending order,
 * so the bits depend neither on threads nor on the division. Sums are kept by column, [k][n], and
 * transposed at the end. */
#include "kernels/gradients/q7_conv.h"

#include "core/threads.h"

#define SLICE ((int64_t)1 << 18) /* bytes of codes per slice */
#define COLUMNS 12               /* columns per thread, at least */

/* A block of positions: their words, and the runs of neighbours in them. */
typedef struct block {
    const uint8_t **at; /* address of each word */
    dt__q7_span *run;
    float *factor; /* [4 * words], like zero */
    int32_t *zero;
    int64_t words, runs;
} block;

typedef struct work {
    const dt__q7_conv *c;
    const dt__kernels *kernels;
    int64_t positions, lanes; /* positions of all samples; outputs, rounded up to whole vectors */
    int64_t words, runs;      /* per block, at most */
    int64_t first, blocks;    /* blocks of the current slice */
    int8_t *codes;            /* [blocks][words][lanes][4] */
    float *scale;             /* [blocks][lanes], like minus */
    int32_t *minus;
    const uint8_t **at; /* [blocks][words] */
    int64_t *count;     /* [blocks]: number of words */
    float *sums;        /* [k][lanes] */
    char *room;         /* one area per thread */
    size_t room_bytes;
    size_t bytes;
} work;

static void *take(work *w, int64_t count, size_t element)
{
    return dt__scratch_take(w->c->scratch, &w->bytes, count, element);
}

/* The positions of a row form one run; those of a sample do, if its rows end where words end. */
static int64_t run_length(const dt__q7_conv *c)
{
    const bool joined = c->across % DT__Q7_WORD == 0 || c->row == c->across;
    return joined ? c->rows * c->across : c->across;
}

static void open_work(work *w, const dt__q7_conv *c)
{
    *w = (work){ .c = c,
                 .positions = c->batch * c->rows * c->across,
                 .lanes = dt__round_up(c->n, DT__Q7_OUTPUTS) };
    const int64_t run = dt__max_i64(1, run_length(c)), full = DT__Q7_BLOCK / DT__Q7_WORD;
    w->runs = dt__min_i64(DT__Q7_BLOCK, DT__Q7_BLOCK / run + 2);
    w->words = dt__min_i64(DT__Q7_BLOCK, full + w->runs);
    const int64_t all = dt__ceil_div(w->positions, DT__Q7_BLOCK);
    const int64_t bytes = w->words * w->lanes * DT__Q7_WORD;
    w->blocks = dt__min_i64(all, dt__max_i64(1, SLICE / dt__max_i64(1, bytes)));
    w->codes = take(w, w->blocks * bytes, 1);
    w->scale = take(w, w->blocks * w->lanes, sizeof(float));
    w->minus = take(w, w->blocks * w->lanes, sizeof(int32_t));
    w->at = take(w, w->blocks * w->words, sizeof *w->at);
    w->count = take(w, w->blocks, sizeof *w->count);
    w->sums = take(w, c->k * w->lanes, sizeof(float));
    const size_t position = sizeof(float) + sizeof(int32_t);
    w->room_bytes =
        (size_t)(w->words * DT__Q7_WORD) * position + (size_t)w->runs * sizeof(dt__q7_span);
    w->room_bytes = dt__scratch_part(w->room_bytes);
    w->room = take(w, c->threads, w->room_bytes);
}

size_t dt__q7_conv_scratch(const dt__q7_conv *c)
{
    work w;
    dt__q7_conv sizes = *c;
    sizes.scratch = NULL;
    open_work(&w, &sizes);
    return w.bytes;
}

/* Adds n positions of `sample` from p on, which are neighbours in memory. */
static void add_run(const dt__q7_conv *c, int64_t sample, int64_t p, int64_t n, block *b)
{
    const int64_t to = b->words * DT__Q7_WORD, words = dt__ceil_div(n, DT__Q7_WORD);
    b->run[b->runs++] = (dt__q7_span){ sample * c->dy_sample + p, to, n };
    for (int64_t i = 0; i < words; i++, p += DT__Q7_WORD) {
        b->at[b->words + i] =
            c->images + sample * c->sample + p / c->across * c->row + p % c->across;
    }
    b->words += words;
    for (int64_t i = to; i < b->words * DT__Q7_WORD; i++) {
        b->factor[i] = c->sx[sample];
        b->zero[i] = c->zu[sample];
    }
}

/* Collects positions first ... past - 1 of all samples. */
static void open_block(const dt__q7_conv *c, int64_t first, int64_t past, block *b)
{
    const int64_t each = c->rows * c->across, run = run_length(c);
    b->words = b->runs = 0;
    while (first < past) {
        const int64_t p = first % each, end = dt__min_i64(past, first - p % run + run);
        add_run(c, first / each, p, end - first, b);
        first = end;
    }
}

static void make_block(const work *w, int64_t i, char *room)
{
    const dt__q7_conv *c = w->c;
    const int64_t first = (w->first + i) * DT__Q7_BLOCK, lanes = w->lanes;
    block b = { .at = w->at + i * w->words, .run = (dt__q7_span *)(void *)room };
    b.factor = (float *)(void *)(b.run + w->runs);
    b.zero = (int32_t *)(void *)(b.factor + w->words * DT__Q7_WORD);
    open_block(c, first, dt__min_i64(first + DT__Q7_BLOCK, w->positions), &b);
    w->count[i] = b.words;
    w->kernels->q7_lines(&(dt__q7_lines){ .n = c->n,
                                          .words = b.words,
                                          .runs = b.runs,
                                          .run = b.run,
                                          .x = c->dy,
                                          .ldx = c->rows * c->across,
                                          .factor = b.factor,
                                          .zero = b.zero,
                                          .codes = w->codes + i * w->words * lanes * DT__Q7_WORD,
                                          .step = lanes * DT__Q7_WORD,
                                          .scale = w->scale + i * lanes,
                                          .sum = w->minus + i * lanes });
}

static void make(const void *args, const dt__share *s)
{
    const work *w = args;
    char *room = w->room + (size_t)s->thread * w->room_bytes;
    for (int64_t i = s->first; i < s->past; i++) make_block(w, i, room);
}

static void multiply(const void *args, const dt__share *s)
{
    const work *w = args;
    const int64_t lanes = w->lanes, k = s->first * COLUMNS;
    const int64_t columns = dt__min_i64(s->past * COLUMNS, w->c->k) - k;
    for (int64_t i = 0; i < w->blocks; i++) {
        w->kernels->q7_taps(&(dt__q7_taps){ .words = w->count[i],
                                            .outputs = lanes,
                                            .columns = columns,
                                            .at = w->at + i * w->words,
                                            .offset = w->c->offset + k,
                                            .codes = w->codes + i * w->words * lanes * DT__Q7_WORD,
                                            .step = lanes * DT__Q7_WORD,
                                            .minus = w->minus + i * lanes,
                                            .scale = w->scale + i * lanes,
                                            .c = w->sums + k * lanes,
                                            .ldc = lanes });
    }
}

static void run_slice(work *w, int64_t all)
{
    const dt__q7_conv *c = w->c;
    w->blocks = dt__min_i64(w->blocks, all - w->first);
    dt__parallel(w->blocks, 2 * DT__Q7_BLOCK * c->n, make, w);
    const int64_t products = w->blocks * DT__Q7_BLOCK * w->lanes * COLUMNS;
    dt__parallel(dt__ceil_div(c->k, COLUMNS), products / DT__CODE_PRODUCTS, multiply, w);
}

void dt__q7_conv_run(const dt__kernels *kernels, const dt__q7_conv *c)
{
    work w;
    open_work(&w, c);
    w.kernels = kernels;
    if (w.lanes > c->n) { /* clears the lanes behind the last output */
        memset(w.codes, 0, (size_t)((char *)w.at - (char *)w.codes));
    }
    memset(w.sums, 0, (size_t)(c->k * w.lanes) * sizeof *w.sums);
    const int64_t all = dt__ceil_div(w.positions, DT__Q7_BLOCK), slice = w.blocks;
    for (; w.first < all; w.first += slice) run_slice(&w, all);
    kernels->transpose(&(dt__transpose){
        .rows = c->k, .columns = c->n, .x = w.sums, .ldx = w.lanes, .y = c->dw, .ldy = c->k });
}
