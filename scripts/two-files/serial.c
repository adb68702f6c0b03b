/* Loops on the calling thread, in place of threads.c and wait.c, with DETENT_NO_THREADS. */
#include "core/threads.h"

struct dt__team {
    int threads;
};

dt__team *dt__team_create(const dt_allocator *a, int threads)
{
    dt__team *t = a->allocate(a->user, sizeof *t, DT__ALIGNMENT);
    if (t != NULL) t->threads = threads;
    return t;
}

void dt__team_free(const dt_allocator *a, dt__team *t) { a->release(a->user, t, sizeof *t); }

dt__team *dt__team_enter(dt__team *t)
{
    (void)t;
    return NULL;
}

void dt__parallel(int64_t n, int64_t work, dt__loop *body, const void *args)
{
    (void)work;
    if (n > 0) body(args, &(dt__share){ 0, n, 0 });
}

int dt__threads(void) { return 1; }

int dt__threads_usual(void) { return 1; }

void dt__lower(_Atomic int64_t *x, int64_t v)
{
    if (v < *x) *x = v;
}

void dt__raise(_Atomic int64_t *x, int64_t v)
{
    if (v > *x) *x = v;
}
