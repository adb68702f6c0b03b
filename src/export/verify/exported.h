/* An exported file that runs as a module. Each kind of file has functions to open it and to run a
 * batch; exported.c chooses the kind and implements the module. */
#ifndef DT__EXPORT_EXPORTED_H
#define DT__EXPORT_EXPORTED_H

#include "core/core.h"

#include <detent/experimental/export.h>

typedef struct dt__exported {
    dt_ctx *ctx;
    const char *path; /* the end of the path, for messages */
    void *file;       /* owned by the kind */
    const char *data; /* metadata detent.data, lent by the file; NULL: none */
} dt__exported;

typedef struct dt__exported_kind {
    /* Opens `path`; after an error `close` is called, too. IO, FORMAT, UNSUPPORTED, NOMEM. */
    dt_status (*open)(dt__exported *e, const char *path);
    /* Computes *y from x, f32 [N, ...]. Errors: SHAPE, FORMAT, NOMEM. */
    dt_status (*run)(dt__exported *e, const dt_tensor *x, dt_tensor **y);
    void (*close)(dt__exported *e);
} dt__exported_kind;

extern const dt__exported_kind dt__exported_onnx, dt__exported_tflite, dt__exported_folder;

/* Whether a folder has the files of format c. */
bool dt__is_exported_folder(const char *path);

/* SHAPE: the file's examples have other extents than x. */
dt_status dt__exported_misfit(const dt__exported *e, const dt_tensor *x, int rank,
                              const int64_t *dims);
/* Transposes n examples of [C, pixels] to [pixels, C], or back. */
void dt__exported_turn(const float *from, int64_t n, int64_t channels, int64_t pixels, bool back,
                       float *to);
/* Whether `dims` are the extents of an example [C, ...] with channels last. */
bool dt__exported_last(const dt_tensor *x, int rank, const int64_t *dims);
/* Whether the file reads flat rows with as many numbers as an example, in the same order. */
bool dt__exported_flat(const dt_tensor *x, int rank, const int64_t *dims);
/* Makes a tensor [N, ...] for results with these extents, whose channels may be last. NOMEM. */
dt_status dt__exported_result(const dt__exported *e, int64_t n, int rank, const int64_t *dims,
                              bool last, dt_tensor **y);

#endif
