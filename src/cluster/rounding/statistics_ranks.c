/* Statistics that several ranks sum: every rank gets all samples, each sums its tiles of the
 * products, and in the end all ranks get all tiles. A tile is summed in the order of samples, so
 * its bits do not depend on the rank that computes it. */
#include "cluster/cluster.h"
#include "ptq/statistics.h"

#include <string.h>

/* The sums of one kind of a group, and the messages that tiles are packed into. */
typedef struct joining {
    const dt_statistics *s;
    int which;
    double *sums;
    dt__segment *part; /* [ranks] */
} joining;

static double *row_of(const joining *g, int64_t i)
{
    return g->sums + (g->which == DT__OF_C ? i * (i + 1) / 2 : i * g->s->layer.columns);
}

/* Count of elements in row i of a tile that begins at column j; in C up to the diagonal. */
static int64_t width_of(const joining *g, int64_t i, int64_t j)
{
    const int64_t past = g->which == DT__OF_C ? i + 1 : g->s->layer.columns;
    return dt__max_i64(0, dt__min_i64(g->s->side, past - j));
}

typedef enum task { COUNT, PACK, UNPACK } task;

/* Visits tile (i, j), whose elements are at *used in the message. */
static void walk_tile(const joining *g, task what, const int64_t at[2], dt__segment *m)
{
    const int64_t side = g->s->side, n = g->s->layer.columns;
    for (int64_t i = at[0] * side; i < dt__min_i64(n, (at[0] + 1) * side); i++) {
        const int64_t j = at[1] * side;
        const size_t bytes = (size_t)width_of(g, i, j) * sizeof(double);
        char *packed = m->data;
        if (what == PACK) memcpy(packed + m->bytes, row_of(g, i) + j, bytes);
        if (what == UNPACK) memcpy(row_of(g, i) + j, packed + m->bytes, bytes);
        m->bytes += bytes;
    }
}

/* Visits the tiles of all ranks, or of this one. */
static void walk(const joining *g, task what)
{
    const int64_t across = dt__ceil_div(g->s->layer.columns, g->s->side);
    const int rank = dt__cluster_rank(g->s->cluster);
    for (int k = 0; k < dt__cluster_ranks(g->s->cluster); k++) g->part[k].bytes = 0;
    for (int64_t i = 0; i < across; i++) {
        for (int64_t j = 0; j < across; j++) {
            const int k = dt__tile_owner(g->s, g->which, i, j);
            const task does = (what == PACK) == (k == rank) ? what : COUNT;
            if (k >= 0) walk_tile(g, does, (const int64_t[]){ i, j }, &g->part[k]);
        }
    }
}

static dt_status join(joining *g)
{
    dt_ctx *ctx = g->s->ctx;
    const int ranks = dt__cluster_ranks(g->s->cluster);
    dt_status s = DT_OK;
    for (int k = 0; k < ranks; k++) g->part[k].data = NULL;
    walk(g, COUNT);
    for (int k = 0; k < ranks && s == DT_OK; k++) {
        g->part[k].data = dt__alloc(ctx, g->part[k].bytes);
        if (g->part[k].data == NULL) s = DT_ERR_NOMEM;
    }
    s = dt__cluster_meet(g->s->cluster, DT__MEETING, s);
    if (s == DT_OK) walk(g, PACK);
    if (s == DT_OK) {
        s = dt__cluster_gather_parts(g->s->cluster, "sums of a layer's inputs", g->part, -1);
    }
    if (s == DT_OK) walk(g, UNPACK);
    for (int k = 0; k < ranks; k++) dt__release(ctx, g->part[k].data);
    return s;
}

static dt_status join_group(const dt_statistics *s, const dt__moments *m, dt__segment *part)
{
    double *const sums[] = { [DT__OF_H] = m->h, [DT__OF_G] = m->g, [DT__OF_C] = m->c };
    for (int which = 0; which < DT__COUNT_OF(sums); which++) {
        joining g = { s, which, sums[which], part };
        if (g.sums != NULL) DT__TRY(join(&g));
    }
    return DT_OK;
}

dt_status dt__ranks_join_statistics(dt_statistics *s)
{
    for (int64_t e = 0; s->expert != NULL && e < s->layer.groups; e++) {
        if (s->expert[e] != NULL) DT__TRY(dt__ranks_join_statistics(s->expert[e]));
    }
    if (s->expert != NULL) return DT_OK;
    dt__statistics_flush(s);
    dt__segment *part = dt__alloc_array(s->ctx, dt__cluster_ranks(s->cluster), sizeof *part);
    if (part == NULL) return DT_ERR_NOMEM;
    dt_status status = DT_OK;
    for (int64_t g = 0; g < s->layer.groups && status == DT_OK; g++) {
        status = join_group(s, &s->moments[g], part);
    }
    dt__release(s->ctx, part);
    return status;
}
