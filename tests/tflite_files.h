/* Exports of format tflite, for suites that check them. */
#ifndef TFLITE_FILES_H
#define TFLITE_FILES_H

#include <detent/experimental/export.h>

typedef struct tflite_subject {
    dt_module *m;
    const dt_model_info *info; /* NULL: the inputs are those of x */
    dt_tensor *const *x;       /* batches; dimension 0 is the batch */
    int n_in;
    dt_export_summary summary; /* of the export */
} tflite_subject;

/* Writes STEM.tflite, runs it in the interpreter of lite.h and the model on x, and returns the
 * largest difference over the largest output. `keep`: x and the model's output are written to
 * STEM.in.safetensors and STEM.out.safetensors. */
double tflite_check(tflite_subject *s, const char *stem, bool keep);
/* Whether the bytes have this text, with a zero behind it. */
bool tflite_has(const char *bytes, size_t n, const char *text);

#endif
