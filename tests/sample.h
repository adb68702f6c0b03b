/* Contexts and datasets for the suites about data. */
#ifndef SAMPLE_H
#define SAMPLE_H

#include "testing.h"

#include "core/core.h"

#include <detent/experimental/data.h>

dt_ctx *sample_context(int threads);

/* A dataset whose pixels and labels are functions of their indices. */
dt_dataset *sample_counted(dt_ctx *ctx, int64_t count, int64_t height, int64_t width, int classes);

dt_dataset *sample_digits(dt_ctx *ctx, int64_t count, uint64_t seed);

/* Fails the test unless both hold the same images and labels. */
void sample_assert_same(const dt_dataset *a, const dt_dataset *b);

/* Files in a folder. */
int sample_entries(const char *folder);

#endif
