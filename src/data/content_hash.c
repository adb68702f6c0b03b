/* A hash of the content of datasets (content_hash.h): XXH3 of each part in memory or in a mapped
 * file, seeded with the hash of the parts before it. If all parts together exceed 256 MiB, only
 * every k-th block of 4096 bytes of each part is read, beginning with the first. */
#include "data/content_hash.h"

#include "data/arrays.h"
#include "data/joined.h"

#include <xxhash.h>

#define WHOLE ((int64_t)256 << 20)
#define BLOCK 4096
#define AT_ONCE 1024 /* token ids read from a file at a time */

typedef struct hashing {
    uint64_t hash;
    int64_t step; /* every `step`-th block is read */
} hashing;

static hashing begin(uint64_t hash, int64_t all)
{
    return (hashing){ XXH3_64bits_withSeed(&all, sizeof all, hash), 1 + all / WHOLE };
}

static void add(hashing *h, const void *data, int64_t bytes)
{
    const int64_t each = h->step == 1 ? dt__max_i64(bytes, 1) : BLOCK;
    h->hash = XXH3_64bits_withSeed(&bytes, sizeof bytes, h->hash);
    for (int64_t at = 0; at < bytes; at += h->step * each) {
        const size_t n = (size_t)dt__min_i64(each, bytes - at);
        h->hash = XXH3_64bits_withSeed((const uint8_t *)data + at, n, h->hash);
    }
}

/* Adds the first n elements of a storage, which may be larger. */
static void add_storage(hashing *h, const dt__storage *s, int64_t n, int64_t each)
{
    if (s != NULL) add(h, s->data, n * each);
}

static uint64_t hash_arrays(const dt_dataset *d, uint64_t hash)
{
    const dt__array_store *s = d->arrays;
    const int64_t examples = s->n_recordings == 0 ? 0 : s->recording[s->n_recordings - 1].end;
    int64_t all = 0;
    const int64_t form[] = { s->rank, s->row, s->length, s->stride, s->n_recordings, s->outputs };
    for (int64_t i = 0; i < s->n_recordings; i++) {
        const dt__recording *r = &s->recording[i];
        all += r->rows * s->row * dt__array_dtype_of(r->dtype)->bytes;
    }
    hashing h = begin(XXH3_64bits_withSeed(form, sizeof form, hash), all);
    for (int64_t i = 0; i < s->n_recordings; i++) {
        const dt__recording *r = &s->recording[i];
        add(&h, r->data, r->rows * s->row * dt__array_dtype_of(r->dtype)->bytes);
    }
    add_storage(&h, s->targets, s->target_each_recording ? s->n_recordings : examples,
                dt__array_cells(d) * (int64_t)sizeof(float));
    return h.hash;
}

static uint64_t hash_images(const dt_dataset *d, uint64_t hash)
{
    const int64_t form[] = { d->channels, d->height, d->width };
    const int64_t n = d->first + d->count, each = dt__dataset_image_bytes(d);
    hashing h = begin(XXH3_64bits_withSeed(form, sizeof form, hash), n * each);
    add_storage(&h, d->pixels, n, each);
    add_storage(&h, d->targets, n, dt__dataset_target_bytes(d));
    return h.hash;
}

static void add_ids(hashing *h, const dt_tokens *file)
{
    int32_t ids[AT_ONCE];
    const int64_t n = dt_tokens_count(file);
    for (int64_t at = 0; at < n; at += h->step * AT_ONCE) {
        const int64_t some = dt__min_i64(AT_ONCE, n - at);
        if (dt_tokens_read(file, at, some, ids) != DT_OK) return;
        h->hash = XXH3_64bits_withSeed(ids, (size_t)some * sizeof *ids, h->hash);
    }
}

static uint64_t hash_tokens(const dt_dataset *d, uint64_t hash)
{
    const dt__token_store *s = d->store;
    const int64_t form[] = { d->context, d->begin, d->length };
    const int64_t bytes = dt__token_store_count(s) * (int64_t)sizeof *s->ids.id;
    hashing h = begin(XXH3_64bits_withSeed(form, sizeof form, hash), bytes);
    if (s->file == NULL) add(&h, s->ids.id, bytes);
    else add_ids(&h, s->file);
    if (s->learned.used > 0) add(&h, s->learned.bytes, (int64_t)s->learned.used);
    add_storage(&h, d->pieces, d->first + d->count, (int64_t)sizeof(dt__sequence));
    return h.hash;
}

uint64_t dt__content_hash(const dt_dataset *d)
{
    const int64_t part[] = { d->count, d->first, d->classes, (int64_t)d->target };
    uint64_t hash = XXH3_64bits(part, sizeof part);
    const dt__joined *j = d->joined;
    for (int i = 0; j != NULL && i < j->n_inputs + j->n_outputs; i++) {
        const dt__joined_part *p = i < j->n_inputs ? &j->input[i] : &j->output[i - j->n_inputs];
        hash = hash_arrays(&p->data, hash);
    }
    if (d->arrays != NULL) return hash_arrays(d, hash);
    if (d->store != NULL) return hash_tokens(d, hash);
    return j == NULL ? hash_images(d, hash) : hash;
}
