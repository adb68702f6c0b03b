/* Reads golden/device: device_golden.h. */
#include "device_golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"

bool device_open(dt_ctx *ctx, const char *name, device_golden *g)
{
    char path[TEST_PATH], file[96];
    snprintf(file, sizeof file, "device/%s.safetensors", name);
    *g = (device_golden){ .ctx = ctx };
    if (!test_golden(path, file)) return false;
    TEST_OK(ctx, dt_file_open(ctx, path, &g->file));
    return true;
}

static void let_go(device_golden *g)
{
    while (g->n_held > 0) dt_tensor_free(g->held[--g->n_held]);
}

void device_close(device_golden *g)
{
    let_go(g);
    dt_file_close(g->file);
}

bool device_case(device_golden *g, int64_t i)
{
    let_go(g);
    return dt_file_meta_at(g->file, i, &g->name, &g->words);
}

void device_at(device_golden *g, const char *name)
{
    let_go(g);
    g->name = name;
    g->words = dt_file_meta(g->file, name);
    ck_assert_msg(g->words != NULL, "no case %s", name);
}

void device_word(const device_golden *g, const char *key, char word[64])
{
    const size_t n = strlen(key);
    word[0] = '\0';
    for (const char *at = g->words; at != NULL && *at != '\0';) {
        if (strncmp(at, key, n) == 0 && at[n] == '=') {
            snprintf(word, 64, "%.*s", (int)strcspn(at + n + 1, " "), at + n + 1);
            return;
        }
        at = strchr(at, ' ');
        if (at != NULL) at++;
    }
}

int64_t device_number(const device_golden *g, const char *key, int64_t otherwise)
{
    char word[64];
    device_word(g, key, word);
    return word[0] == '\0' ? otherwise : strtoll(word, NULL, 10);
}

bool device_says(const device_golden *g, const char *key, const char *word)
{
    char is[64];
    device_word(g, key, is);
    return strcmp(is, word) == 0;
}

const void *device_data(device_golden *g, const char *name, dt_dtype dtype, int64_t *count)
{
    char entry[128];
    snprintf(entry, sizeof entry, "%s/%s", g->name, name);
    if (dt_file_find(g->file, entry) == NULL) return NULL;
    ck_assert_int_lt(g->n_held, 16);
    dt_tensor **x = &g->held[g->n_held];
    TEST_OK(g->ctx, dt_file_load(g->file, entry, dtype, x));
    g->n_held++;
    if (count != NULL) *count = (*x)->count;
    return dt_data(*x);
}

void device_equal(device_golden *g, const char *name, const int8_t *got)
{
    int64_t n;
    const int8_t *want = device_data(g, name, DT_I8, &n);
    for (int64_t i = 0; i < n; i++) {
        ck_assert_msg(want[i] == got[i], "%s/%s: element %lld is %d, not %d", g->name, name,
                      (long long)i, got[i], want[i]);
    }
    g->compared += n;
}

void device_to_planes(const int8_t *x, const int64_t s[4], int8_t *y)
{
    for (int64_t n = 0; n < s[0]; n++) {
        for (int64_t i = 0; i < s[1] * s[2]; i++) {
            for (int64_t c = 0; c < s[3]; c++) {
                y[(n * s[3] + c) * s[1] * s[2] + i] = x[(n * s[1] * s[2] + i) * s[3] + c];
            }
        }
    }
}

void device_from_planes(const int8_t *x, const int64_t s[4], int8_t *y)
{
    for (int64_t n = 0; n < s[0]; n++) {
        for (int64_t i = 0; i < s[1] * s[2]; i++) {
            for (int64_t c = 0; c < s[3]; c++) {
                y[(n * s[1] * s[2] + i) * s[3] + c] = x[(n * s[3] + c) * s[1] * s[2] + i];
            }
        }
    }
}
