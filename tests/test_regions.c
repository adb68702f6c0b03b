/* The host's memory in regions: blocks are aligned, do not overlap, keep their bytes and go back in
 * any order. */
#include "testing.h"

#include "core/system/regions.h"

#include <stdlib.h>
#include <string.h>

#define BLOCKS 200
#define ALIGNMENT 64

typedef struct block {
    unsigned char *at;
    size_t bytes;
} block;

static uint32_t state = 1;

static size_t below(size_t n)
{
    state = state * 1664525 + 1013904223;
    return (size_t)(state >> 8) % n;
}

/* Of all kinds: small ones, those of regions, their limits, and large ones. */
static size_t some_bytes(void)
{
    static const size_t edges[] = { 1, 65535, 65536, 65537, (2 << 20) - 1, 2 << 20, (2 << 20) + 1 };
    const size_t pick = below(16);
    if (pick < sizeof edges / sizeof edges[0]) return edges[pick];
    return 1 + below(pick == 15 ? 5 << 20 : 400000);
}

static void fill(dt__regions *r, block *b, size_t i)
{
    b->bytes = some_bytes();
    b->at = dt__regions_allocate(r, b->bytes, ALIGNMENT);
    ck_assert_ptr_nonnull(b->at);
    ck_assert_uint_eq((uintptr_t)b->at % ALIGNMENT, 0);
    memset(b->at, (int)(i % 251), b->bytes);
}

static void give_back(dt__regions *r, block *b, size_t i)
{
    size_t wrong = 0;
    for (size_t k = 0; k < b->bytes; k++) wrong += b->at[k] != i % 251;
    ck_assert_uint_eq(wrong, 0);
    dt__regions_release(r, b->at, b->bytes);
}

START_TEST(blocks_keep_their_bytes)
{
    dt__regions *r = dt__regions_create();
    ck_assert_ptr_nonnull(r);
    block b[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) fill(r, &b[i], i);
    for (int turn = 0; turn < 2000; turn++) {
        const size_t i = below(BLOCKS);
        give_back(r, &b[i], i);
        fill(r, &b[i], i);
    }
    for (size_t i = 0; i < BLOCKS; i++) give_back(r, &b[i], i);
    dt__regions_free(r);
    dt__regions_free(NULL);
}
END_TEST

Suite *test_regions_suite(void)
{
    TCase *blocks = tcase_create("blocks");
    tcase_add_test(blocks, blocks_keep_their_bytes);
    Suite *suite = suite_create("regions");
    suite_add_tcase(suite, blocks);
    return suite;
}
