/* The context: allocator, pool, error message, log, random streams, threads. It is
 * reference-counted by tensors, tapes and modules, so objects may be freed in any order. */
#include "core/clock.h"
#include "core/names.h"
#include "core/system/regions.h"
#include "core/threads.h"

#include <stdio.h>
#include <string.h>

dt_status dt_set_products(dt_ctx *ctx, int products)
{
    DT__NEED(NULL, ctx);
    if (products < DT_PRODUCTS_F32 || products > DT_PRODUCTS_BF16_TILES) {
        return dt_fail(ctx, DT_ERR_ARG, "set_products: %d is none of DT_PRODUCTS_...", products);
    }
    ctx->products = products;
    return DT_OK;
}

/* ---- work ----------------------------------------------------------------------------------- */

void dt__begin_work(dt_ctx *ctx)
{
    ctx->began = dt__seconds();
    ctx->share = 0;
    dt__ledger_begin(&ctx->work, ctx->began);
}

void dt_set_progress(dt_ctx *ctx, dt_work_told told, void *user)
{
    if (ctx == NULL) return;
    ctx->told = told;
    ctx->told_user = user;
    if (told != NULL) dt__begin_work(ctx);
}

void dt__plan_work(dt_ctx *ctx, dt__work_of which, double amount)
{
    dt__ledger_plan(&ctx->work, which, amount);
}

void dt__expect_work(dt_ctx *ctx, dt__work_of which, double amount)
{
    ctx->work.kind[which].expected += amount;
}

void dt_expect_save(dt_ctx *ctx, double bytes)
{
    if (ctx == NULL || !(bytes > 0)) return;
    dt__expect_work(ctx, DT__HASH, bytes);
    dt__expect_work(ctx, DT__WRITE, bytes);
}

void dt__cut_work(dt_ctx *ctx, dt__work_of which) { dt__ledger_cut(&ctx->work, which); }

void dt__pass_work(dt_ctx *ctx) { dt__ledger_pass(&ctx->work, dt__seconds()); }

/* The share of the work that is done, by its time: elapsed / (elapsed + left). */
static void tell(dt_ctx *ctx)
{
    const double left = dt__ledger_left(&ctx->work);
    const double elapsed = ctx->work.mark - ctx->began;
    if (ctx->told == NULL || ctx->work.trying || left < 0) return;
    const double share = elapsed + left > 0 ? elapsed / (elapsed + left) : 1;
    if (share > ctx->share) ctx->share = share;
    const dt_work_state state = { .share = ctx->share,
                                  .seconds_left = left,
                                  .guessed = dt__ledger_guesses(&ctx->work) };
    ctx->told(ctx->told_user, &state);
}

/* Whether nothing of this kind was planned: its time then belongs to the work of which it is a
 * part. */
static bool is_unplanned(const dt_ctx *ctx, dt__work_of which)
{
    const dt__work_kind *k = &ctx->work.kind[which];
    return !ctx->work.trying && k->planned == 0 && k->expected == 0;
}

void dt__did_work(dt_ctx *ctx, dt__work_of which, double amount)
{
    if (is_unplanned(ctx, which)) return;
    dt__ledger_did(&ctx->work, which, amount, dt__seconds());
    tell(ctx);
}

void dt__did_part(dt_ctx *ctx, dt__work_of which, double amount)
{
    if (is_unplanned(ctx, which) || !dt__ledger_part(&ctx->work, which, amount)) return;
    dt__ledger_did_part(&ctx->work, which, dt__seconds());
    tell(ctx);
}

/* Reports nothing until work of this kind is planned, since the remaining time is not known
 * before. */
void dt__tried_work(dt_ctx *ctx, dt__work_of which, double amount)
{
    const bool before = ctx->work.trying;
    ctx->work.trying = true;
    dt__ledger_did(&ctx->work, which, amount, dt__seconds());
    ctx->work.trying = before;
    if (ctx->work.kind[which].planned > 0) tell(ctx);
}

/* ---- contexts ------------------------------------------------------------------------------- */

dt_ctx_options dt_ctx_defaults(void) { return (dt_ctx_options){ .seed = 0 }; }

dt_status dt_ctx_create(dt_ctx **out, const dt_ctx_options *options)
{
    if (out == NULL) return DT_ERR_ARG;
    *out = NULL;
    dt_ctx_options o = options == NULL ? dt_ctx_defaults() : *options;
    if (o.threads < 0 || o.threads > DT__MOST_THREADS) return DT_ERR_ARG;
    if ((o.allocator.allocate == NULL) != (o.allocator.release == NULL)) return DT_ERR_ARG;
    dt__regions *regions = NULL;
    if (o.allocator.allocate == NULL) {
        regions = dt__regions_create();
        if (regions == NULL) return DT_ERR_NOMEM;
        o.allocator = (dt_allocator){ dt__regions_allocate, dt__regions_release, regions };
    }
    dt_ctx *ctx = o.allocator.allocate(o.allocator.user, sizeof *ctx, DT__ALIGNMENT);
    if (ctx == NULL) {
        dt__regions_free(regions);
        return DT_ERR_NOMEM;
    }
    memset(ctx, 0, sizeof *ctx);
    ctx->regions = regions;
    atomic_init(&ctx->refs, 1);
    ctx->allocator = o.allocator;
    ctx->log = o.log;
    ctx->log_user = o.log_user;
    ctx->threads = o.threads > 0 ? o.threads : dt__threads_usual();
    ctx->team = dt__team_create(&ctx->allocator, ctx->threads);
    if (ctx->team == NULL) {
        o.allocator.release(o.allocator.user, ctx, sizeof *ctx);
        dt__regions_free(regions);
        return DT_ERR_NOMEM;
    }
    ctx->cpu_mask = o.cpu_mask == 0 ? UINT64_MAX : o.cpu_mask;
    ctx->leave_blas_threads = o.leave_blas_threads;
    dt_seed(ctx, o.seed);
    *out = ctx;
    return DT_OK;
}

void dt__ctx_retain(dt_ctx *ctx) { atomic_fetch_add(&ctx->refs, 1); }

void dt__ctx_release(dt_ctx *ctx)
{
    if (atomic_fetch_sub(&ctx->refs, 1) != 1) return;
    if (ctx->convs != NULL) ctx->free_convs(ctx);
    static const int owned[] = { DT__NAMED_METRICS, DT__PLUGINS };
    for (int k = 0; k < DT__COUNT_OF(owned); k++) {
        for (int64_t i = 0; i < ctx->registry[owned[k]].n; i++) {
            dt__release(ctx, (void *)(uintptr_t)ctx->registry[owned[k]].item[i]);
        }
    }
    for (int i = 0; i < DT__REGISTRIES; i++) dt__release(ctx, ctx->registry[i].item);
    dt__pool_trim(ctx);
    const dt_allocator allocator = ctx->allocator;
    dt__regions *regions = ctx->regions;
    dt__team_free(&allocator, ctx->team);
    allocator.release(allocator.user, ctx, sizeof *ctx);
    dt__regions_free(regions);
}

const void *dt__registered_named(const dt_ctx *ctx, dt__registered which, const char *name)
{
    const dt__registry *r = &ctx->registry[which];
    for (int64_t i = 0; i < r->n; i++) {
        if (strcmp(*(const char *const *)r->item[i], name) == 0) return r->item[i];
    }
    return NULL;
}

dt_status dt__register(dt_ctx *ctx, dt__registered which, const void *item)
{
    dt__registry *r = &ctx->registry[which];
    DT__TRY(DT__RESERVE(ctx, r->item, r->n, r->room));
    r->item[r->n++] = item;
    return DT_OK;
}

const dt_item_kind *dt__item_kind_named(const dt_ctx *ctx, const dt_key *key, const char *name)
{
    const dt_item_kind *kind = NULL;
    for (int i = 0; (kind = key->kinds(i)) != NULL; i++) {
        if (strcmp(kind->name, name) == 0) return kind;
    }
    /* a registered kind is the first field of its dt_layer_type, so the pointers are equal */
    return key->own_kinds ? dt__registered_named(ctx, DT__LAYERS, name) : NULL;
}

void dt_ctx_free(dt_ctx *ctx)
{
    if (ctx != NULL) dt__ctx_release(ctx);
}

dt_memory dt_memory_of(const dt_ctx *ctx)
{
    if (ctx == NULL) return (dt_memory){ 0 };
    return ctx->pool.count;
}
void dt_memory_reset_peak(dt_ctx *ctx)
{
    if (ctx == NULL) return;
    ctx->pool.count.peak = ctx->pool.count.used;
}
void dt_memory_trim(dt_ctx *ctx)
{
    if (ctx == NULL) return;
    dt__pool_trim(ctx);
}
int dt_threads(const dt_ctx *ctx) { return ctx == NULL ? 0 : ctx->threads; }

dt__team *dt__threads_enter(const dt_ctx *ctx) { return dt__team_enter(ctx->team); }

void dt__threads_leave(dt__team *before) { dt__team_enter(before); }

dt_status dt__threads_set(dt_ctx *ctx, int threads)
{
    if (threads == ctx->threads) return DT_OK;
    dt__team *const team = dt__team_create(&ctx->allocator, threads);
    if (team == NULL)
        return dt_fail(ctx, DT_ERR_NOMEM, "out of memory: the threads cannot be set up");
    dt__team_free(&ctx->allocator, ctx->team);
    ctx->team = team;
    ctx->threads = threads;
    return DT_OK;
}

void dt__say(dt_ctx *ctx, const char *format, ...)
{
    if (ctx->log == NULL) return;
    char line[DT__MESSAGE_SIZE];
    DT__FORMAT(line, sizeof line, format);
    ctx->log(ctx->log_user, line);
}

void dt__say_once(dt_ctx *ctx, const char *format, ...)
{
    if (ctx->log == NULL) return;
    char line[DT__MESSAGE_SIZE];
    DT__FORMAT(line, sizeof line, format);
    const uint64_t hash = dt__hash_name(line, strlen(line)) | 1; /* never 0 */
    for (int i = 0; i < DT__SAID; i++) {
        if (ctx->said[i] == hash) return;
    }
    memmove(ctx->said + 1, ctx->said, (DT__SAID - 1) * sizeof ctx->said[0]);
    ctx->said[0] = hash;
    ctx->log(ctx->log_user, line);
}
