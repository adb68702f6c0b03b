/* Values that are held as bf16 until backward: halves.h. */
#include "autograd/halves.h"

#include "autograd/op.h"
#include "core/text/half.h"
#include "core/threads.h"
#include "kernels/kernels.h"

#define CHUNK 4096 /* values of an item of a loop */

static int64_t chunks_of(const dt__halves *h) { return dt__ceil_div(h->count, CHUNK); }

static int64_t values_of(const dt__halves *h, int64_t chunk)
{
    return dt__min_i64(CHUNK, h->count - chunk * CHUNK);
}

DT__EACH(round_values, i, const dt__kernels *kernels; const dt__halves *h; const float *from;)
{
    const int64_t n = values_of(a.h, i);
    a.kernels->bf16_row(&(dt__bf16_rows){ .rows = 1, .n = n, .step = 1, .x = a.from + i * CHUNK },
                        a.h->x + i * CHUNK);
}

DT__EACH(widen_values, i, const dt__halves *h; float *to;)
{
    const int64_t n = values_of(a.h, i);
    for (int64_t k = i * CHUNK; k < i * CHUNK + n; k++) a.to[k] = dt__bf16_to_f32(a.h->x[k]);
}

/* Makes room for the rounded values of s. */
static dt__halves *open_halves(dt__storage *s)
{
    const int64_t count = (int64_t)(s->bytes / sizeof(float));
    dt__halves *h = dt__alloc(s->ctx, DT__ALIGNMENT + (size_t)(count + 1) * sizeof *h->x);
    if (h == NULL) return NULL;
    *h = (dt__halves){ 1, s->version, count, (uint16_t *)(void *)((char *)h + DT__ALIGNMENT) };
    dt__halves_release(s->ctx, s->halves);
    s->halves = h;
    return h;
}

/* The rounded values of s as it is now. */
static dt__halves *halves_of(dt_tape *t, dt__storage *s)
{
    if (s->halves != NULL && s->halves->version == s->version) return s->halves;
    dt__halves *h = open_halves(s);
    if (h == NULL) return NULL;
    const round_values_args args = { t->ctx->kernels[DT_F32], h, s->data };
    dt__team *const threads = dt__threads_enter(t->ctx);
    dt__parallel(chunks_of(h), CHUNK, round_values_share, &args);
    dt__threads_leave(threads);
    return h;
}

/* Only within a scope, whose end drops the operand: without it both would be held. */
uint16_t *dt__halves_of(const dt_call *c, int i)
{
    const dt_tensor *x = c->arg[i], *in = c->in[i];
    dt__storage *s = x->storage;
    if (!c->recording || in->tape != c->tape || in->scope == 0) return NULL;
    if (s == NULL || s->ctx != c->ctx || s->halves != NULL) return NULL;
    if (atomic_load(&s->needed) > 0 || s->bytes != dt__bytes_of(x)) return NULL;
    if (x->offset != 0 || !dt_is_contiguous(x)) return NULL;
    const dt__halves *h = open_halves(s);
    return h != NULL ? h->x : NULL;
}

/* The next saved value in storage s, going back from record *at; NULL: there is none. *i: its
 * place, behind which the search goes on. */
static dt__saved *next_of(const dt_tape *t, const dt__storage *s, int64_t *at, int *i)
{
    for (; *at >= 0; (*at)--, *i = 0) {
        dt__record *r = t->records[*at];
        for (; *i < r->n_in + r->n_out; (*i)++) {
            if (r->kept[*i].storage == s) return &r->kept[(*i)++];
        }
    }
    return NULL;
}

/* Whether the records that need s, `needed` of them, all read it rounded, as it is now. */
static bool is_rounded(const dt_tape *t, const dt__storage *s, int needed)
{
    int64_t at = t->n_records - 1;
    int found = 0, i = 0;
    while (found < needed) {
        const dt__saved *k = next_of(t, s, &at, &i);
        if (k == NULL || k->precision == DT_EXACT || k->version != s->version) return false;
        found++;
    }
    return needed > 0;
}

void dt__halves_hold(dt_tape *t, const dt_tensor *x)
{
    dt__storage *s = x->storage;
    if (s == NULL || s->data == NULL || s->ctx != t->ctx) return;
    if (t->ctx->products == DT_PRODUCTS_F32) return;
    const int needed = atomic_load(&s->needed);
    if (atomic_load(&s->refs) != needed + 1) return;
    dt__halves *h = is_rounded(t, s, needed) ? halves_of(t, s) : NULL;
    int64_t at = t->n_records - 1;
    int i = 0;
    for (int n = 0; h != NULL && n < needed; n++) {
        dt__saved *k = next_of(t, s, &at, &i);
        k->halves = h;
        h->refs++;
        k->storage = NULL;
        atomic_fetch_sub(&s->needed, 1);
        dt__storage_release(s);
    }
    dt__halves_release(t->ctx, s->halves);
    s->halves = NULL;
}

dt_status dt__halves_widen(dt_ctx *ctx, dt__record *r)
{
    for (int i = 0; i < r->n_in; i++) {
        dt__saved *k = &r->kept[i];
        if (k->halves == NULL || k->precision == DT_BF16) continue;
        dt__storage *s = dt__storage_create(ctx, (uint64_t)k->halves->count * sizeof(float));
        if (s == NULL) return DT_ERR_NOMEM;
        const widen_values_args args = { k->halves, s->data };
        dt__team *const threads = dt__threads_enter(ctx);
        dt__parallel(chunks_of(k->halves), CHUNK, widen_values_share, &args);
        dt__threads_leave(threads);
        atomic_fetch_add(&s->needed, 1);
        k->storage = s;
        k->version = s->version;
    }
    return DT_OK;
}
