/* Small models in files, as seeds of several targets. */
#ifndef FUZZ_SAVED_H
#define FUZZ_SAVED_H

#include "fuzz.h"

/* The states in which a model is saved. */
enum { SAVED_FLOAT, SAVED_PREPARED, SAVED_CONVERTED, SAVED_STATIC, SAVED_STATES };
extern const char *const saved_names[];

/* An mlp in a file as fuzz_safetensors takes it; to be freed with free(). */
fuzz_bytes saved_model(int state);
/* A checkpoint of the run that target checkpoint resumes. */
fuzz_bytes saved_checkpoint(void);
/* As saved_export, with weights of a scheme; -1: floats. */
void saved_export_scheme(const char *family, const char *format, int scheme, const char *path);
/* A network of a family (llama: one layer of language model; cnn; mlp) in a format of dt_export, at
 * `path`; converted: with 4-bit weights. */
void saved_export(const char *family, const char *format, bool converted, const char *path);
/* The same as a seed of one file. */
void saved_export_seed(const fuzz_seeds *s, const char *family, const char *format, bool converted);

#endif
