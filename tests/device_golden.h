/* Reads reference values of integer networks, golden/device. */
#ifndef DEVICE_GOLDEN_H
#define DEVICE_GOLDEN_H

#include "testing.h"

#include <detent/experimental/io.h>

/* An open file, and its current case or layer. */
typedef struct device_golden {
    dt_ctx *ctx;
    dt_file *file;
    const char *name, *words;
    dt_tensor *held[16];
    int n_held;
    int64_t compared;
} device_golden;

/* Opens golden/device/<name>.safetensors; false if it does not exist. */
bool device_open(dt_ctx *ctx, const char *name, device_golden *g);
void device_close(device_golden *g);
/* Goes to case i; false past the last. */
bool device_case(device_golden *g, int64_t i);
/* The case of this name. */
void device_at(device_golden *g, const char *name);
/* A setting of the case: an integer, or `otherwise`; a word. */
int64_t device_number(const device_golden *g, const char *key, int64_t otherwise);
bool device_says(const device_golden *g, const char *key, const char *word);
/* Copies a word; "" where there is none. */
void device_word(const device_golden *g, const char *key, char word[64]);
/* A tensor of the case, as the dtype it must have; NULL where there is none. Lent until the next
 * case. */
const void *device_data(device_golden *g, const char *name, dt_dtype dtype, int64_t *count);
/* Fails where `got` differs from the tensor `name`. */
void device_equal(device_golden *g, const char *name, const int8_t *got);

/* Codes from [n][h][w][c] to [n][c][h][w], and back. */
void device_to_planes(const int8_t *x, const int64_t nhwc[4], int8_t *y);
void device_from_planes(const int8_t *x, const int64_t nhwc[4], int8_t *y);

#endif
