/* Small messages that ranks wait for: what each has, to all; what rank 0 has, to the others. */
#include "cluster/cluster.h"

#include <string.h>

#define PIECE ((size_t)1 << 30) /* most bytes of one message */

typedef struct sharing {
    const char *what;
    const char *own; /* NULL: nothing to send */
    char *all;
    size_t bytes;
    int rank, from; /* from: -1: each rank sends */
} sharing;

static void pieces(void *user, int k, dt__message *send, dt__message *receive)
{
    const sharing *s = user;
    const bool sends = s->from < 0 || s->rank == s->from;
    const bool receives = s->from < 0 || k == s->from;
    if (sends) *send = (dt__message){ .data = (char *)(uintptr_t)s->own, .bytes = s->bytes };
    if (!receives) return;
    char *at = s->all + (s->from < 0 ? (size_t)k * s->bytes : 0);
    *receive = (dt__message){ .data = at, .bytes = s->bytes };
}

static bool run(dt__cluster *c, void *user)
{
    sharing *s = user;
    const dt__exchange x = { s->what, s->from >= 0, pieces, s };
    return dt__cluster_exchange(c, &x);
}

static dt_status share(dt__cluster *c, sharing *s)
{
    dt__cluster_job job = { .run = run, .user = s };
    dt__cluster_post(c, &job);
    return dt__cluster_wait(c, &job);
}

dt_status dt__cluster_gather(dt__cluster *c, const char *what, const void *own, size_t bytes,
                             void *all)
{
    const int rank = dt__cluster_rank(c);
    sharing s = { what, own, all, bytes, rank, -1 };
    memcpy((char *)all + (size_t)rank * bytes, own, bytes);
    return c == NULL ? DT_OK : share(c, &s);
}

dt_status dt__cluster_tell(dt__cluster *c, const char *what, void *data, size_t bytes)
{
    char *at = data;
    if (c == NULL) return DT_OK;
    for (size_t n; bytes > 0; bytes -= n, at += n) {
        n = bytes < PIECE ? bytes : PIECE;
        sharing s = { what, at, at, n, dt__cluster_rank(c), 0 };
        DT__TRY(share(c, &s));
    }
    return DT_OK;
}
