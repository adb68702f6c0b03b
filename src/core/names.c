/* Places by names (names.h). At most half of the table is used, so every search ends. */
#include "core/names.h"

#include "core/core.h"

struct dt__name_place {
    uint64_t hash;
    int64_t at; /* the place plus 1; 0: free */
};

uint64_t dt__hash_name(const char *name, size_t n)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)name[i]) * UINT64_C(0x100000001b3);
    return h;
}

static void put(dt__names *t, struct dt__name_place p)
{
    uint64_t i = p.hash;
    while (t->place[i & (uint64_t)(t->room - 1)].at != 0) i++;
    t->place[i & (uint64_t)(t->room - 1)] = p;
}

static dt_status grow(dt_ctx *ctx, dt__names *t)
{
    const dt__names old = *t;
    const int64_t room = old.room == 0 ? 64 : 2 * old.room;
    struct dt__name_place *place = dt__alloc_zero(ctx, (uint64_t)room * sizeof *place);
    if (place == NULL) return DT_ERR_NOMEM;
    t->place = place;
    t->room = room;
    for (int64_t i = 0; i < old.room; i++) {
        if (old.place[i].at != 0) put(t, old.place[i]);
    }
    dt__release(ctx, old.place);
    return DT_OK;
}

dt_status dt__names_add(dt_ctx *ctx, dt__names *t, uint64_t hash, int64_t at)
{
    if (2 * t->used >= t->room) DT__TRY(grow(ctx, t));
    put(t, (struct dt__name_place){ hash, at + 1 });
    t->used++;
    return DT_OK;
}

int64_t dt__names_next(const dt__names *t, uint64_t hash, int64_t *probe)
{
    while (t->room > 0) {
        const uint64_t i = (hash + (uint64_t)(*probe)++) & (uint64_t)(t->room - 1);
        if (t->place[i].at == 0) return -1;
        if (t->place[i].hash == hash) return t->place[i].at - 1;
    }
    return -1;
}

void dt__names_free(dt_ctx *ctx, dt__names *t)
{
    dt__release(ctx, t->place);
    *t = (dt__names){ .place = NULL };
}
