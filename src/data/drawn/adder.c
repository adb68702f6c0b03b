/* Sums of three-digit numbers, as prompts with completions: "123+456=9750", the lowest digit of the
 * sum first, as in written addition. Position k of the order of all pairs holds pair P(k) = 1000 a
 * + b. P permutes 2^20 numbers by four rounds of a Feistel network whose functions are Philox
 * blocks of the seed; numbers that are not a pair are permuted again [Black and Rogaway 2002: cycle
 * walking]. So any range of positions is generated independently, and disjoint ranges have no pair
 * in common. */
#include "data/dataset.h"

#include "data/text/tokenizer.h"

#define PAIRS 1000000
#define HALF_BITS 10
#define HALF ((1U << HALF_BITS) - 1)
#define ROUNDS 4
#define PROMPT 8 /* characters of a prompt */
#define LENGTH 12

static const char alphabet[] = "+0123456789=";

static uint32_t permute(uint64_t key, uint32_t x)
{
    uint32_t left = x >> HALF_BITS, right = x & HALF;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t word[4];
        dt__philox(key, (uint64_t)round << HALF_BITS | right, word);
        const uint32_t next = left ^ (word[0] & HALF);
        left = right;
        right = next;
    }
    return left << HALF_BITS | right;
}

static uint32_t pair_at(uint64_t key, int64_t place)
{
    uint32_t x = (uint32_t)place;
    do x = permute(key, x);
    while (x >= PAIRS);
    return x;
}

/* Writes n with three digits, the highest first. */
static void put_number(char *to, uint32_t n)
{
    for (int i = 2; i >= 0; i--, n /= 10) to[i] = (char)('0' + n % 10);
}

static void put_sum(char text[LENGTH], uint32_t pair)
{
    const uint32_t a = pair / 1000, b = pair % 1000;
    put_number(text, a);
    text[3] = '+';
    put_number(text + 4, b);
    text[7] = '=';
    for (uint32_t i = PROMPT, sum = a + b; i < LENGTH; i++, sum /= 10) {
        text[i] = (char)('0' + sum % 10);
    }
}

/* Stores ids and pieces of the sums in the dataset's fields. */
static dt_status make_sums(int64_t first, uint64_t seed, dt_dataset *d)
{
    const uint64_t key = dt__stream_of(seed, DT__FOR_DIGITS).key;
    dt__sequence *piece = d->pieces->data;
    for (int64_t i = 0; i < d->count; i++) {
        char text[LENGTH];
        put_sum(text, pair_at(key, first + i));
        DT__TRY(dt_tokenizer_encode(d->tokenizer, text, LENGTH, NULL, &d->store->ids));
        piece[i] = (dt__sequence){ i * LENGTH, LENGTH, PROMPT };
    }
    return DT_OK;
}

dt_status dt_adder_create(dt_ctx *ctx, int64_t first, int64_t count, uint64_t seed,
                          dt_dataset **out)
{
    DT__NEED2(ctx, ctx, out);
    *out = NULL;
    if (first < 0 || count < 0 || first > PAIRS - count) {
        return dt_fail(ctx, DT_ERR_ARG, "adder: %lld sums from place %lld on: expected 0 to %d",
                       (long long)count, (long long)first, PAIRS - 1);
    }
    dt_dataset d = { .count = count, .context = LENGTH - 1, .classes = sizeof alphabet - 1 };
    dt_status status = dt_tokenizer_chars(ctx, alphabet, sizeof alphabet - 1, &d.tokenizer);
    if (status != DT_OK) return status;
    d.store = dt__token_store_create(ctx);
    d.pieces = dt__storage_create(ctx, (uint64_t)count * sizeof(dt__sequence));
    status = d.store == NULL || d.pieces == NULL ? DT_ERR_NOMEM : make_sums(first, seed, &d);
    if (status == DT_OK) return dt__sequences_wrap(ctx, &d, out);
    dt__data_sequences.drop(&d);
    return status;
}
