/* Expert parallelism: each rank computes the weight gradients of its experts, shard by shard, from
 * the rows that the shard's rank sent, and adds them in the tree of shards (core/ranks.h) as soon
 * as both children of a node are known:
 *     after shard i of each rank: leaves i, V/P + i, 2 V/P + i, ...
 * If a shard has a single batch, the leaves of a layer are added when its backward is done. So
 * these gradients are never sent, and their sum has the bits of one rank. */
#include "core/tensor.h"
#include "kernels/kernels.h"
#include "train/shards/shards.h"
#include "cluster/experts/spreading.h"

#include <string.h>

/* The parent of node [a, b). */
static void parent_of(int64_t shards, const int64_t child[2], int64_t parent[2])
{
    int64_t a = 0, b = shards;
    for (;;) {
        const int64_t m = a + (b - a) / 2;
        const bool left = child[0] == a && child[1] == m, right = child[0] == m && child[1] == b;
        if (left || right) break;
        if (child[1] <= m) b = m;
        else a = m;
    }
    parent[0] = a;
    parent[1] = b;
}

static int64_t find_node(const dt__own_experts *e, int64_t a, int64_t b)
{
    int64_t i = 0;
    while (i < e->n_nodes && (e->node[i].a != a || e->node[i].b != b)) i++;
    return i;
}

static void add(const dt__shards *s, const dt_tensor *from, dt_tensor *to)
{
    dt__team *const threads = dt__threads_enter(s->ctx);
    dt__kernels_of(s->ctx, DT_F32)->add_into(to->count, dt__values(from), dt__values_mut(to));
    dt__threads_leave(threads);
}

static int64_t bytes_of(const dt__own_experts *e) { return e->x->count * (int64_t)sizeof(float); }

/* Adds a leaf, of which it takes ownership, and all nodes above it whose children are known. */
static dt_status add_leaf(dt__shards *s, dt__own_experts *e, int64_t shard, dt_tensor *x)
{
    dt__own_node n = { shard, shard + 1, x };
    s->experts_bytes += bytes_of(e);
    s->experts_most = dt__max_i64(s->experts_most, s->experts_bytes);
    while (n.b - n.a < s->shards) {
        int64_t up[2];
        parent_of(s->shards, (const int64_t[]){ n.a, n.b }, up);
        const bool is_left = n.a == up[0];
        const int64_t i = is_left ? find_node(e, n.b, up[1]) : find_node(e, up[0], n.a);
        if (i == e->n_nodes) break;
        dt_tensor *const left = is_left ? n.x : e->node[i].x, *right = is_left ? e->node[i].x : n.x;
        e->node[i] = e->node[--e->n_nodes];
        add(s, right, left);
        dt_tensor_free(right);
        s->experts_bytes -= bytes_of(e);
        n = (dt__own_node){ up[0], up[1], left };
    }
    const dt_status status = DT__RESERVE(s->ctx, e->node, e->n_nodes, e->room_nodes);
    if (status == DT_OK) e->node[e->n_nodes++] = n;
    else dt_tensor_free(n.x);
    return status;
}

/* Moves the gradient *from to *out: copies it if others can write it; zeros if it is NULL. */
static dt_status take(const dt__shards *s, dt__own_experts *e, dt_tensor **from, dt_tensor **out)
{
    dt_tensor *const grad = *from;
    *from = NULL;
    *out = grad;
    if (grad != NULL) e->given = true;
    if (grad != NULL && dt__is_own(grad)) return DT_OK;
    const dt_status status = dt_tensor_create(s->ctx, DT_F32, e->x->rank, e->x->dims, out);
    if (status == DT_OK && grad != NULL) dt__copy_tensor(grad, *out);
    dt_tensor_free(grad);
    return status;
}

/* Adds the gradient of a rank's present shard as a leaf. */
static dt_status take_leaf(dt__shards *s, dt__own_experts *e, int rank, dt_tensor **from)
{
    dt_tensor *leaf;
    if (e->taken[rank] && *from == NULL) return DT_OK;
    if (e->taken[rank]) {
        return dt_fail(s->ctx, DT_ERR_STATE,
                       "%s has more than one gradient from a pass: experts that are spread over "
                       "ranks run once",
                       e->x->name == NULL ? "a parameter" : e->x->name);
    }
    DT__TRY(take(s, e, from, &leaf));
    e->taken[rank] = 1;
    return add_leaf(s, e, rank * s->own + s->experts_shard, leaf);
}

static dt_status on_gradient(void *shards, int rank, int64_t i, dt_tensor **grad)
{
    dt__shards *s = shards;
    const dt_tensor *x = dt__spreading_of(s->ctx)->tensor[i];
    for (int64_t k = 0; k < s->n_experts; k++) {
        if (s->experts[k].x == x) return take_leaf(s, &s->experts[k], rank, grad);
    }
    return DT_OK;
}

static void own_watch(dt__run *r, const dt__batch_range *p, int64_t i)
{
    dt__spreading *spreading = dt__spreading_of(r->ctx);
    r->ranks.shards->experts_shard = i;
    spreading->on_gradient = p->batches == 1 ? on_gradient : NULL;
    spreading->on_gradient_user = r->ranks.shards;
}

/* The index of x in the session's list. */
static int64_t number_of(const dt__spreading *s, const dt_tensor *x)
{
    int64_t i = 0;
    while (i < s->n_tensors && s->tensor[i] != x) i++;
    return i;
}

/* Bytes of gradients that are not leaves of the tree yet. */
static int64_t count_waiting(const dt__shards *s, int ranks)
{
    int64_t bytes = 0;
    for (int64_t k = 0; k < s->n_experts; k++) {
        for (int rank = 0; rank < ranks; rank++) {
            if (!s->experts[k].taken[rank]) bytes += bytes_of(&s->experts[k]);
        }
    }
    return bytes;
}

static dt_status own_take(dt__shards *s)
{
    const dt__spreading *spreading = dt__spreading_of(s->ctx);
    const int ranks = spreading->ranks;
    const int64_t now = s->experts_bytes + count_waiting(s, ranks);
    s->experts_most = dt__max_i64(s->experts_most, now);
    for (int64_t k = 0; k < s->n_experts; k++) {
        dt__own_experts *e = &s->experts[k];
        const int64_t number = number_of(spreading, e->x);
        for (int rank = 0; rank < ranks; rank++) {
            dt_tensor **slot = &spreading->slot[rank * spreading->n_tensors + number];
            const bool own = rank == spreading->rank;
            DT__TRY(take_leaf(s, e, rank, own ? &e->x->grad : slot));
        }
        memset(e->taken, 0, (size_t)ranks);
    }
    return DT_OK;
}

static void own_begin(dt__shards *s)
{
    for (int64_t k = 0; k < s->n_experts; k++) {
        dt__own_experts *e = &s->experts[k];
        for (int64_t i = 0; i < e->n_nodes; i++) dt_tensor_free(e->node[i].x);
        e->n_nodes = 0;
        e->given = false;
        memset(e->taken, 0, (size_t)dt__cluster_ranks(s->cluster));
    }
    s->experts_bytes = s->experts_shard = 0;
}

static void own_put(dt__shards *s)
{
    for (int64_t k = 0; k < s->n_experts; k++) {
        dt__own_experts *e = &s->experts[k];
        if (!e->given || e->n_nodes != 1) continue;
        e->x->grad = e->node[0].x;
        e->n_nodes = 0;
        s->experts_bytes -= bytes_of(e);
    }
    own_begin(s);
}

static dt_status own_add(dt__shards *s, dt_tensor *x)
{
    DT__TRY(DT__RESERVE(s->ctx, s->experts, s->n_experts, s->room_experts));
    dt__own_experts *e = &s->experts[s->n_experts];
    *e = (dt__own_experts){ .x = x };
    e->taken = dt__alloc_zero(s->ctx, (size_t)dt__cluster_ranks(s->cluster));
    if (e->taken == NULL) return DT_ERR_NOMEM;
    s->n_experts++;
    return DT_OK;
}

static void own_forget(dt__shards *s)
{
    own_begin(s);
    for (int64_t k = 0; k < s->n_experts; k++) {
        DT__RELEASE(s->ctx, s->experts[k].node, s->experts[k].taken);
    }
    dt__release(s->ctx, s->experts);
    s->experts = NULL;
    s->n_experts = s->room_experts = s->experts_most = 0;
}

const dt__experts_hooks dt__ranks_experts = {
    .open = dt__spreading_open,
    .add = own_add,
    .forget = own_forget,
    .begin = own_begin,
    .watch = own_watch,
    .take = own_take,
    .put = own_put,
};
