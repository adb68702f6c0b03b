/* Helpers for the suites of model files and checkpoints: small models, their state and outputs. */
#ifndef MODELS_H
#define MODELS_H

#include <detent/experimental/io.h>

/* Options of a small mlp; sizes ends with 0. */
dt_mlp_options small_options(const int64_t *sizes, int norm, double dropout);
/* The family of these options. */
dt_model_info small_info(const dt_mlp_options *options);
dt_module *small_model(dt_ctx *ctx, const dt_mlp_options *options);

/* qat options with the given specification for every weight, and the preset's for inputs. */
dt_qat_options small_qat(int preset, const dt_quant_spec *weight);

/* Outputs in evaluation mode on `rows` random rows, the same at each call: malloc'ed. */
float *outputs_of(dt_module *m, int64_t rows, int64_t columns);

/* Bytes that a context allocates for an open model file or folder: 0 where files have the machine's
 * byte order, since they are mapped. Big-endian machines hold a copy of the tensors. */
size_t memory_of_open_file(dt_ctx *ctx, const char *path);

/* Fails the test unless both have the same tensors, bit for bit, of the same kinds and settings,
 * and the same hooks' settings. */
void same_models(dt_module *a, dt_module *b);

#endif
