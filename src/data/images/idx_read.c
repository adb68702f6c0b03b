/* Reads IDX files, plain or gzip [LeCun, "The MNIST database"]. An IDX file is
 *     0 0 type rank   dims[0] ... dims[rank-1]   elements in row-major order
 * with dims as 32-bit big-endian numbers; type 8 is u8.
 *
 * Memory is not allocated by the untrusted header alone: a plain file must have the size in its
 * header; for gzip, memory grows while reading. */
#include "data/dataset.h"
#include "data/input.h"

#include <string.h>

#define TYPE_U8 8
#define MOST_RANK 3

typedef struct array {
    const char *path;
    const char *what; /* "images", "labels" */
    int rank;         /* the required rank */
    int64_t dims[MOST_RANK];
    dt__storage *bytes;
} array;

static dt_status check_magic(dt__input *in, const array *a, const uint8_t *head)
{
    if (head[0] != 0 || head[1] != 0) {
        return dt_fail(in->ctx, DT_ERR_FORMAT,
                       "'%s' is not an IDX file: it begins with %02x %02x, not with 00 00 08 %02x",
                       a->path, head[0], head[1], (unsigned)a->rank);
    }
    if (head[2] != TYPE_U8) {
        return dt_fail(in->ctx, DT_ERR_FORMAT,
                       "'%s': IDX type byte %02x; %s are unsigned bytes, type 08", a->path, head[2],
                       a->what);
    }
    if (head[3] != a->rank) {
        return dt_fail(in->ctx, DT_ERR_FORMAT, "'%s': IDX rank %d; %s have rank %d%s", a->path,
                       head[3], a->what, a->rank,
                       head[3] == 4 - a->rank ? " (are images and labels swapped?)"
                       : head[3] == 4 && a->rank == 3
                           ? "; images of colours are read from .npy (data.format tensors, where "
                             "data.layout: nhwc takes [count, height, width, channels])"
                           : "");
    }
    return DT_OK;
}

static dt_status read_header(dt__input *in, array *a)
{
    uint8_t head[4 + 4 * MOST_RANK];
    const size_t wanted = 4 + 4 * (size_t)a->rank;
    size_t got;
    DT__TRY(dt__input_read(in, head, 4, &got));
    if (got == 4) {
        DT__TRY(check_magic(in, a, head));
        DT__TRY(dt__input_read(in, head + 4, wanted - 4, &got));
        got += 4;
    }
    if (got < wanted) {
        return dt_fail(in->ctx, DT_ERR_FORMAT,
                       "'%s' ends after %zu bytes; the IDX header of %s alone has %zu", a->path,
                       got, a->what, wanted);
    }
    for (int i = 0; i < a->rank; i++) {
        const uint8_t *b = head + 4 + 4 * i;
        a->dims[i] = (int64_t)b[0] << 24 | (int64_t)b[1] << 16 | (int64_t)b[2] << 8 | b[3];
        if (a->dims[i] == 0 && i > 0) {
            return dt_fail(in->ctx, DT_ERR_FORMAT, "'%s': images without pixels: extent %d is 0",
                           a->path, i);
        }
    }
    return DT_OK;
}

/* `there` says how many elements there are: "only 7", "more than 7". */
static dt_status wrong_size(const dt__input *in, const array *a, const char *there, int64_t bytes)
{
    char dims[96];
    dt__dims_text(a->rank, a->dims, dims, sizeof dims);
    return dt_fail(in->ctx, DT_ERR_FORMAT,
                   "'%s': the header declares %s %s, but %s %lld bytes follow it", a->path, a->what,
                   dims, there, (long long)bytes);
}

/* The storage grows while reading, so a false header costs no more memory than its file. */
static dt_status read_elements(dt__input *in, array *a, size_t wanted)
{
    size_t size = dt__input_first_step(in, wanted), have = 0, got;
    for (;;) {
        dt__storage *larger = dt__storage_create(in->ctx, size);
        if (larger == NULL) return DT_ERR_NOMEM;
        if (have > 0) memcpy(larger->data, a->bytes->data, have);
        dt__storage_release(a->bytes);
        a->bytes = larger;
        DT__TRY(dt__input_read(in, (uint8_t *)larger->data + have, size - have, &got));
        have += got;
        if (have == wanted) return DT_OK;
        if (have < size) return wrong_size(in, a, "only", (int64_t)have);
        size = size > wanted / 2 ? wanted : 2 * size;
    }
}

static dt_status read_array(dt__input *in, array *a)
{
    DT__TRY(read_header(in, a));
    int64_t count;
    if (!dt__product(a->rank, a->dims, &count)) count = INT64_MAX;
    if (!in->packed && in->file_size >= 0) {
        const int64_t follow = in->file_size - 4 - 4 * a->rank;
        if (follow < count) return wrong_size(in, a, "only", follow);
    }
    const size_t wanted = DT__AT_MOST((uint64_t)count);
    DT__TRY(read_elements(in, a, wanted)); /* gzip: the size is known only at the end */
    if (wanted < (uint64_t)count) {
        return dt_fail(in->ctx, DT_ERR_FORMAT, "'%s': the header declares more bytes than can be",
                       a->path);
    }
    uint8_t more;
    size_t got;
    DT__TRY(dt__input_read(in, &more, 1, &got)); /* for gzip this also verifies the checksum */
    return got == 0 ? DT_OK : wrong_size(in, a, "more than", count);
}

static dt_status load(dt_ctx *ctx, array *a)
{
    dt__input in;
    dt_status status = dt__input_open(ctx, a->path, &in);
    if (status == DT_OK) status = read_array(&in, a);
    dt__input_close(&in);
    return status;
}

static dt_status check_labels(dt_ctx *ctx, const array *labels, int64_t classes, int *largest)
{
    const uint8_t *label = labels->bytes->data;
    *largest = -1;
    for (int64_t i = 0; i < labels->dims[0]; i++) {
        if (label[i] > *largest) *largest = label[i];
        if (classes > 0 && label[i] >= classes) {
            return dt_fail(ctx, DT_ERR_FORMAT,
                           "'%s': label %d of image %lld; with %lld classes, 0 to %lld are labels",
                           labels->path, label[i], (long long)i, (long long)classes,
                           (long long)classes - 1);
        }
    }
    return DT_OK;
}

static dt_status load_both(dt_ctx *ctx, array *images, array *labels, dt_dataset *d)
{
    DT__TRY(load(ctx, labels)); /* the small file first, so that its errors are found early */
    DT__TRY(load(ctx, images));
    if (images->dims[0] != labels->dims[0]) {
        return dt_fail(
            ctx, DT_ERR_FORMAT,
            "'%s' holds %lld image%s and '%s' %lld label%s; expected as many labels as images",
            images->path, (long long)images->dims[0], DT__S(images->dims[0]), labels->path,
            (long long)labels->dims[0], DT__S(labels->dims[0]));
    }
    int largest;
    DT__TRY(check_labels(ctx, labels, d->classes, &largest));
    if (d->classes == 0) d->classes = largest + 1;
    d->count = images->dims[0];
    d->channels = 1;
    d->height = images->dims[1];
    d->width = images->dims[2];
    d->pixels = images->bytes;
    d->targets = labels->bytes;
    return DT_OK;
}

dt_status dt_idx_read(dt_ctx *ctx, const char *images, const char *labels, int64_t classes,
                      dt_dataset **out)
{
    DT__NEED3(ctx, ctx, labels, out);
    *out = NULL;
    if (classes < 0 || classes > DT__MOST_CLASSES) {
        return dt_fail(ctx, DT_ERR_ARG, "reading IDX files: %lld classes: expected 0 (found) to %d",
                       (long long)classes, DT__MOST_CLASSES);
    }
    array pixels = { .path = images, .what = "images", .rank = 3 };
    array marks = { .path = labels, .what = "labels", .rank = 1 };
    dt_dataset d = { .classes = classes };
    const dt_status status = load_both(ctx, &pixels, &marks, &d);
    if (status == DT_OK) return dt__images_wrap(ctx, &d, out);
    dt__storage_release(pixels.bytes);
    dt__storage_release(marks.bytes);
    return status;
}
