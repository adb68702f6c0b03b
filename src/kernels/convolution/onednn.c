/* Convolutions of floats by oneDNN, a slice of the batch at a time.
 *
 *     image step     row-major x (or y) -> its layout -> y (or x) -> row-major; w is
 *                    converted once, before the loop
 *     weight step    row-major x, y -> their layouts -> the slice's gradient, added to its part's
 *
 * An operand that both steps read is converted once. A tree of fixed shape sums the parts'
 * gradients. */
#include "kernels/convolution/float_convs.h"

#include "kernels/kernels.h"

#if defined DETENT_ONEDNN
#include "kernels/convolution/onednn_plan.h"

#include <stdatomic.h>
#include <string.h>

enum { X = DT__DNNL_X, Y = DT__DNNL_Y, W = DT__DNNL_W };

/* ---- scratch -------------------------------------------------------------------------------- */

/* Offsets in scratch: the weight and the parts' gradients, shared by all threads; then for each
 * thread images in the layouts of the steps, images of a source, a gradient, and the primitives'
 * scratch. */
typedef struct layout {
    size_t weight, gradients, gradient_bytes, threads, thread_bytes;
    size_t image[2], sums[2], filled[2], gradient, own; /* offsets within a thread's room */
} layout;

static size_t size_of(const dnnl_memory_desc_t *d)
{
    return d == NULL
               ? 0
               : (size_t)dt__round_up((int64_t)dt__dnnl.memory_desc_get_size(d), DT__ALIGNMENT);
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static const dnnl_memory_desc_t *own_of(dnnl_primitive_t primitive)
{
    const_dnnl_primitive_desc_t how;
    if (primitive == NULL ||
        dt__dnnl.primitive_get_primitive_desc(primitive, &how) != dnnl_success) {
        return NULL;
    }
    return dt__dnnl.primitive_desc_query_md(how, dnnl_query_scratchpad_md, 0);
}

static size_t own_bytes(const dt__dnnl_step *s)
{
    size_t bytes = size_of(own_of(s->primitive));
    for (int i = 0; i < DT__DNNL_OPERANDS; i++)
        bytes = larger(bytes, size_of(own_of(s->reorder[i])));
    return bytes;
}

/* The larger size in both kinds of slices. */
static size_t image_bytes(const dt__dnnl_plan *p, bool of_weight, int i)
{
    const dt__dnnl_step *a = of_weight ? &p->whole.weight : &p->whole.image;
    const dt__dnnl_step *b = of_weight ? &p->rest.weight : &p->rest.image;
    return larger(a->reorder[i] != NULL ? size_of(a->layout[i]) : 0,
                  b->reorder[i] != NULL ? size_of(b->layout[i]) : 0);
}

static size_t put(size_t *end, size_t bytes)
{
    const size_t at = *end;
    *end += bytes;
    return at;
}

static layout lay_out(const dt__dnnl_plan *p, const dt__conv_work *w)
{
    layout l = { 0 };
    size_t end = 0, own = 0;
    const dt__source *const sources[] = { w->x_source, w->y_source };
    for (int i = X; i <= Y; i++) {
        l.image[i] = put(&end, image_bytes(p, false, i));
        l.sums[i] = put(&end, image_bytes(p, true, i));
        l.filled[i] = put(&end, sources[i] != NULL ? size_of(&p->whole.ours[i]) : 0);
    }
    own = larger(larger(own_bytes(&p->whole.image), own_bytes(&p->whole.weight)),
                 larger(own_bytes(&p->rest.image), own_bytes(&p->rest.weight)));
    l.own = put(&end, own);
    l.gradient_bytes = size_of(p->whole.weight.layout[W]);
    l.gradient = put(&end, l.gradient_bytes);
    l.thread_bytes = end;
    end = 0;
    l.weight = put(&end, image_bytes(p, false, W));
    l.gradients = put(&end, (size_t)p->parts * l.gradient_bytes);
    l.threads = end;
    return l;
}

static size_t scratch_of(const dt_ctx *ctx, const dt__dnnl_plan *p, const layout *l)
{
    const int threads = p->parts > 1 ? dt_threads(ctx) : 1; /* any thread may compute a part */
    return l->threads + (size_t)threads * l->thread_bytes;
}

/* ---- running a primitive -------------------------------------------------------------------- */

typedef struct run {
    const dt__dnnl_cache *cache;
    const dt__dnnl_plan *plan;
    const dt__conv_work *work;
    layout l;
    char *scratch;
} run;

typedef struct operand {
    int name;
    const dnnl_memory_desc_t *layout;
    const void *data;
} operand;

#define MOST_OPERANDS 5

/* Executes a primitive; adds its scratch as the last operand. */
static bool execute(const run *r, dnnl_primitive_t primitive, int n, const operand *o)
{
    dnnl_exec_arg_t arguments[MOST_OPERANDS];
    int made = 0;
    for (; made < n; made++) {
        if (o[made].layout == NULL) break;
        arguments[made].arg = o[made].name;
        if (dt__dnnl.memory_create(&arguments[made].memory, o[made].layout, r->cache->engine,
                                   (void *)(uintptr_t)o[made].data) != dnnl_success) {
            break;
        }
    }
    const bool ran = made == n && dt__dnnl.primitive_execute(primitive, r->cache->stream, n,
                                                             arguments) == dnnl_success;
    for (int i = 0; i < made; i++) dt__dnnl.memory_destroy(arguments[i].memory);
    return ran;
}

static bool reorder(const run *r, dnnl_primitive_t primitive, const operand *from,
                    const operand *to, char *own)
{
    const operand o[] = { { DNNL_ARG_FROM, from->layout, from->data },
                          { DNNL_ARG_TO, to->layout, to->data },
                          { DNNL_ARG_SCRATCHPAD, own_of(primitive), own } };
    return execute(r, primitive, 3, o);
}

/* ---- a slice -------------------------------------------------------------------------------- */

/* A thread's current slice, from image n0 on, with its row-major operands. */
typedef struct piece {
    const dt__dnnl_slice *slice;
    const char *ours[DT__DNNL_OPERANDS];
    char *made[DT__DNNL_OPERANDS];
    char *room; /* the thread's */
} piece;

static const char *part_of(const void *data, int64_t n0, int64_t elements)
{
    return data == NULL ? NULL : (const char *)data + (size_t)(n0 * elements) * sizeof(float);
}

/* Fills a slice of a source into scratch, or points at what is in memory. */
static const char *read_images(const run *r, const piece *p, int i, int64_t n0, int64_t elements)
{
    const dt__source *source = i == X ? r->work->x_source : r->work->y_source;
    if (source == NULL) return part_of(i == X ? r->work->x : r->work->y, n0, elements);
    char *to = p->room + r->l.filled[i];
    source->fill(source->from,
                 &(dt__patch){ n0, n0 + p->slice->images, 0, elements, to, elements });
    return to;
}

static piece piece_of(const run *r, int64_t slice, char *room)
{
    const dt__conv *c = r->work->conv;
    const int64_t n0 = slice * r->plan->whole.images;
    const int64_t x = c->in * dt__conv_x_plane(c), y = c->out * dt__conv_y_plane(c);
    piece p = { .slice = n0 + r->plan->whole.images > c->batch ? &r->plan->rest : &r->plan->whole,
                .room = room };
    p.made[X] = (char *)(uintptr_t)part_of(r->work->to_x, n0, x);
    p.made[Y] = (char *)(uintptr_t)part_of(r->work->to_y, n0, y);
    p.ours[X] = read_images(r, &p, X, n0, x);
    p.ours[Y] = read_images(r, &p, Y, n0, y);
    return p;
}

/* Returns an operand of a step in the step's layout: in place, or converted to offset `at` of the
 * thread's room. */
static bool to_layout(const run *r, const piece *p, const dt__dnnl_step *s, int i, size_t at,
                      const void **out)
{
    *out = p->ours[i];
    if (s->reorder[i] == NULL) return true;
    *out = p->room + at;
    return reorder(r, s->reorder[i], &(operand){ .layout = &p->slice->ours[i], .data = p->ours[i] },
                   &(operand){ .layout = s->layout[i], .data = *out }, p->room + r->l.own);
}

static void add_bias(const run *r, const piece *p)
{
    const dt__conv *c = r->work->conv;
    const float *bias = r->work->bias;
    const int64_t plane = dt__conv_x_plane(c);
    for (int64_t i = 0; i < p->slice->images * c->in; i++) {
        float *x = (float *)(void *)p->made[X] + i * plane;
        for (int64_t j = 0; j < plane; j++) x[j] += bias[i % c->in];
    }
}

/* Computes y from x, or x from y. *read becomes the operand that it read, in the step's layout. */
static bool run_image(const run *r, const piece *p, const void **read)
{
    const dt__dnnl_step *s = &p->slice->image;
    const bool makes_y = s->task == DT__DNNL_MAKE_Y;
    const int from = makes_y ? X : Y, to = makes_y ? Y : X;
    if (!to_layout(r, p, s, from, r->l.image[from], read)) return false;
    char *result = s->reorder[to] != NULL ? p->room + r->l.image[to] : p->made[to];
    const void *w = s->reorder[W] != NULL ? r->scratch + r->l.weight : r->work->w;
    operand o[MOST_OPERANDS] = {
        { makes_y ? DNNL_ARG_SRC : DNNL_ARG_DIFF_DST, s->layout[from], *read },
        { DNNL_ARG_WEIGHTS, s->layout[W], w },
        { makes_y ? DNNL_ARG_DST : DNNL_ARG_DIFF_SRC, s->layout[to], result },
        { DNNL_ARG_SCRATCHPAD, own_of(s->primitive), p->room + r->l.own },
    };
    int n = 4;
    const bool biased = r->work->bias != NULL;
    if (biased && makes_y) {
        const_dnnl_primitive_desc_t how;
        if (dt__dnnl.primitive_get_primitive_desc(s->primitive, &how) != dnnl_success) return false;
        o[n++] = (operand){ DNNL_ARG_BIAS,
                            dt__dnnl.primitive_desc_query_md(how, dnnl_query_weights_md, 1),
                            r->work->bias };
    }
    if (!execute(r, s->primitive, n, o)) return false;
    if (s->reorder[to] != NULL &&
        !reorder(r, s->reorder[to], &(operand){ .layout = s->layout[to], .data = result },
                 &(operand){ .layout = &p->slice->ours[to], .data = p->made[to] },
                 p->room + r->l.own)) {
        return false;
    }
    if (biased && !makes_y) add_bias(r, p);
    return true;
}

/* Computes the slice's gradient at `to`. `read` is the image step's operand, if both share it. */
static bool run_weight(const run *r, const piece *p, const void *read, void *to)
{
    const dt__dnnl_step *s = &p->slice->weight;
    const int shared = p->slice->image.task == DT__DNNL_MAKE_Y ? X : Y;
    const void *in[2];
    for (int i = X; i <= Y; i++) {
        if (p->slice->shares && i == shared) in[i] = read;
        else if (!to_layout(r, p, s, i, r->l.sums[i], &in[i])) return false;
    }
    const operand o[] = {
        { DNNL_ARG_SRC, s->layout[X], in[X] },
        { DNNL_ARG_DIFF_DST, s->layout[Y], in[Y] },
        { DNNL_ARG_DIFF_WEIGHTS, s->layout[W], to },
        { DNNL_ARG_SCRATCHPAD, own_of(s->primitive), p->room + r->l.own },
    };
    return execute(r, s->primitive, 4, o);
}

/* ---- the batch ------------------------------------------------------------------------------ */

static void add(size_t bytes, const void *from, void *to)
{
    const float *x = from;
    float *y = to;
    for (size_t i = 0; i < bytes / sizeof(float); i++) y[i] += x[i];
}

/* Runs the slices of a part, one after the other. */
static bool run_part(const run *r, int64_t part, char *room)
{
    const int64_t slices = r->plan->slices, parts = r->plan->parts;
    const int64_t first = part * slices / parts, past = (part + 1) * slices / parts;
    char *sum = r->scratch + r->l.gradients + (size_t)part * r->l.gradient_bytes;
    for (int64_t i = first; i < past; i++) {
        const piece p = piece_of(r, i, room);
        const void *read = NULL;
        if (p.slice->image.task != DT__DNNL_NONE && !run_image(r, &p, &read)) return false;
        if (p.slice->weight.task == DT__DNNL_NONE) continue;
        char *to = i == first ? sum : room + r->l.gradient;
        if (!run_weight(r, &p, read, to)) return false;
        if (i > first) add(r->l.gradient_bytes, to, sum);
    }
    return true;
}

/* Sums the parts' gradients by a tree, chunk by chunk, into the first one. */
static void sum_chunks(const void *args, const dt__share *share)
{
    const run *r = args;
    char *const first = r->scratch + r->l.gradients;
    const size_t bytes = r->l.gradient_bytes, chunk = DT__CHUNK;
    const size_t past = (size_t)share->past * chunk < bytes ? (size_t)share->past * chunk : bytes;
    for (size_t at = (size_t)share->first * chunk; at < past; at += chunk) {
        const size_t width = at + chunk < past ? chunk : past - at;
        for (int64_t step = 1; step < r->plan->parts; step *= 2) {
            for (int64_t i = 0; i + step < r->plan->parts; i += 2 * step) {
                add(width, first + (size_t)(i + step) * bytes + at, first + (size_t)i * bytes + at);
            }
        }
    }
}

/* The sum of the parts' gradients, converted to row-major. */
static bool finish_weight(const run *r)
{
    const dt__dnnl_step *s = &r->plan->whole.weight;
    if (s->task == DT__DNNL_NONE) return true;
    char *const first = r->scratch + r->l.gradients;
    const int64_t chunks = dt__ceil_div((int64_t)r->l.gradient_bytes, DT__CHUNK);
    dt__parallel(chunks, r->plan->parts * DT__CHUNK / 4, sum_chunks, r);
    const operand from = { .layout = s->layout[W], .data = first };
    const operand to = { .layout = &r->plan->whole.ours[W], .data = r->work->to_w };
    if (s->reorder[W] != NULL) {
        return reorder(r, s->reorder[W], &from, &to, r->scratch + r->l.threads + r->l.own);
    }
    memcpy(r->work->to_w, first, dt__dnnl.memory_desc_get_size(s->layout[W]));
    return true;
}

static bool take_weight(const run *r)
{
    const dt__dnnl_step *s = &r->plan->whole.image;
    if (s->task == DT__DNNL_NONE || s->reorder[W] == NULL) return true;
    const operand from = { .layout = &r->plan->whole.ours[W], .data = r->work->w };
    const operand to = { .layout = s->layout[W], .data = r->scratch + r->l.weight };
    return reorder(r, s->reorder[W], &from, &to, r->scratch + r->l.threads + r->l.own);
}

dt_status dt__onednn_open(dt_ctx *ctx, const dt__conv_work *work, size_t *scratch)
{
    dt__dnnl_plan *p;
    *scratch = SIZE_MAX;
    DT__TRY(dt__dnnl_plan_of(ctx, work, &p));
    if (p == NULL) return DT_OK;
    const layout l = lay_out(p, work);
    *scratch = scratch_of(ctx, p, &l);
    return DT_OK;
}

DT__SHARE(run, const run *r; atomic_bool *const failed;)
{
    char *room = a.r->scratch + a.r->l.threads + (size_t)share->thread * a.r->l.thread_bytes;
    dt__dnnl_threads(1);
    for (int64_t part = share->first; part < share->past; part++) {
        if (!run_part(a.r, part, room)) atomic_store(a.failed, true);
    }
}

/* oneDNN uses one thread here, as on every helper. */
static bool run_all(const run *r)
{
    const int before = dt__dnnl_threads(1);
    atomic_bool failed = false;
    bool good = take_weight(r);
    if (good)
        dt__parallel(r->plan->parts, DT__WORTH_A_THREAD, run_share, &(run_args){ r, &failed });
    good = good && !failed && finish_weight(r);
    dt__dnnl_threads(before);
    return good;
}

bool dt__onednn_run(dt_ctx *ctx, const dt__conv_work *work)
{
    dt__dnnl_plan *p;
    if (dt__dnnl_plan_of(ctx, work, &p) != DT_OK || p == NULL) return false;
    return run_all(&(run){ ctx->convs, p, work, lay_out(p, work), work->scratch });
}

#else

dt_status dt__onednn_open(dt_ctx *ctx, const dt__conv_work *work, size_t *scratch)
{
    (void)ctx;
    (void)work;
    *scratch = SIZE_MAX;
    return DT_OK;
}

bool dt__onednn_run(dt_ctx *ctx, const dt__conv_work *work)
{
    (void)ctx;
    (void)work;
    return false;
}

#endif
