/* Reads IDX files, plain or gzip [LeCun, "The MNIST database"]. An IDX file is
 *     0 0 type rank   dims[0] ... dims[rank-1]   elements in row-major order
 * with dims as 32-bit big-endian numbers; type 8 is u8. gzip [RFC 1952] is known by its first two
 * bytes, 1f 8b, which no IDX file begins with; several members in a row are one stream.
 *
 * A header may claim anything, so memory is never taken on its word alone: a plain file must have
 * the size that it declares, and what gzip promises is allocated step by step as it comes. */
#include "core/file.h"
#include "data/dataset.h"
#include "data/zlib_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK ((size_t)1 << 16)      /* bytes of the file read at a time */
#define FIRST_STEP ((size_t)1 << 20) /* allocated at first for what gzip holds, at least */
#define USUAL_RATIO ((size_t)16)     /* or so many times the size of the gzip file */
#define TYPE_U8 8
#define MOST_RANK 3

/* ---- bytes of a file, inflated where it is gzip ------------------------------------------- */

typedef struct input {
    dt_ctx *ctx;
    const char *path;
    int descriptor;
    int64_t file_size; /* -1 where it is not a regular file */
    uint8_t *buffer;   /* CHUNK bytes of the file, at ... have not yet used */
    size_t at, have;
    bool gzip;
    bool ended; /* gzip: after the last member */
    z_stream z;
} input;

/* Fills the buffer, short only at the end of the file. */
static dt_status refill(input *in)
{
    in->at = in->have = 0;
    while (in->have < CHUNK) {
        const ssize_t n = read(in->descriptor, in->buffer + in->have, CHUNK - in->have);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return dt__file_fail(in->ctx, "read", in->path, errno);
        if (n == 0) break;
        in->have += (size_t)n;
    }
    return DT_OK;
}

static dt_status input_open(dt_ctx *ctx, const char *path, input *in)
{
    *in = (input){ .ctx = ctx, .path = path, .file_size = -1 };
    in->descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (in->descriptor < 0) return dt__file_fail(ctx, "open", path, errno);
    struct stat about;
    if (fstat(in->descriptor, &about) != 0) return dt__file_fail(ctx, "read", path, errno);
    if (S_ISREG(about.st_mode)) in->file_size = (int64_t)about.st_size;
    in->buffer = dt__alloc(ctx, CHUNK);
    if (in->buffer == NULL) return DT_ERR_NOMEM;
    DT__TRY(refill(in));
    if (in->have < 2 || in->buffer[0] != 0x1f || in->buffer[1] != 0x8b) return DT_OK;
    in->z = dt__zlib_stream(ctx);
    if (inflateInit2(&in->z, 15 + 16) != Z_OK) {
        return dt_fail(ctx, DT_ERR_NOMEM, "out of memory for inflating '%s'", path);
    }
    in->gzip = true;
    return DT_OK;
}

static void input_close(input *in)
{
    if (in->gzip) inflateEnd(&in->z);
    dt__release(in->ctx, in->buffer);
    if (in->descriptor >= 0) close(in->descriptor);
}

/* After the end of a gzip member: another one, or the end of the file. */
static dt_status next_member(input *in)
{
    if (in->at == in->have) DT__TRY(refill(in));
    in->ended = in->have == 0;
    if (in->ended) return DT_OK;
    if (in->buffer[in->at] != 0x1f) {
        return dt_fail(in->ctx, DT_ERR_FORMAT,
                       "'%s': bytes that do not belong there follow the end of the gzip stream",
                       in->path);
    }
    inflateReset(&in->z);
    return DT_OK;
}

static dt_status inflate_fail(const input *in, int code)
{
    if (code == Z_MEM_ERROR) {
        return dt_fail(in->ctx, DT_ERR_NOMEM, "out of memory for inflating '%s'", in->path);
    }
    return dt_fail(in->ctx, DT_ERR_FORMAT,
                   "'%s': the gzip stream is damaged (%s); a file that `gzip -t` accepts is wanted",
                   in->path, in->z.msg == NULL ? "unknown reason" : in->z.msg);
}

static dt_status read_gzip(input *in, uint8_t *to, size_t wanted, size_t *got)
{
    in->z.next_out = to;
    in->z.avail_out = (uInt)wanted;
    while (in->z.avail_out > 0 && !in->ended) {
        if (in->at == in->have) DT__TRY(refill(in));
        if (in->have == 0) {
            return dt_fail(in->ctx, DT_ERR_FORMAT,
                           "'%s': the gzip stream breaks off before its end", in->path);
        }
        in->z.next_in = in->buffer + in->at;
        in->z.avail_in = (uInt)(in->have - in->at);
        const int code = inflate(&in->z, Z_NO_FLUSH);
        in->at = in->have - in->z.avail_in;
        if (code == Z_STREAM_END) DT__TRY(next_member(in));
        else if (code != Z_OK && code != Z_BUF_ERROR) return inflate_fail(in, code);
    }
    *got = wanted - in->z.avail_out;
    return DT_OK;
}

static dt_status read_plain(input *in, uint8_t *to, size_t wanted, size_t *got)
{
    *got = 0;
    while (*got < wanted) {
        if (in->at == in->have) DT__TRY(refill(in));
        if (in->have == 0) break;
        const size_t left = in->have - in->at, n = left < wanted - *got ? left : wanted - *got;
        memcpy(to + *got, in->buffer + in->at, n);
        in->at += n;
        *got += n;
    }
    return DT_OK;
}

/* `wanted` bytes to `to`; *got is less only where the data end. */
static dt_status input_read(input *in, uint8_t *to, size_t wanted, size_t *got)
{
    const size_t most = (size_t)1 << 30; /* zlib counts in 32 bits */
    *got = 0;
    while (*got < wanted) {
        const size_t part = wanted - *got < most ? wanted - *got : most;
        size_t n;
        DT__TRY((in->gzip ? read_gzip : read_plain)(in, to + *got, part, &n));
        *got += n;
        if (n < part) break;
    }
    return DT_OK;
}

/* ---- one IDX file ------------------------------------------------------------------------- */

typedef struct array {
    const char *path;
    const char *what; /* "images", "labels" */
    int rank;         /* that is wanted */
    int64_t dims[MOST_RANK];
    dt__storage *bytes;
} array;

static dt_status check_magic(input *in, const array *a, const uint8_t *head)
{
    if (head[0] != 0 || head[1] != 0) {
        return dt_fail(in->ctx, DT_ERR_FORMAT,
                       "'%s' is no IDX file: it begins with %02x %02x, not with 00 00 08 %02x",
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
                       head[3] == 4 - a->rank ? " (are images and labels swapped?)" : "");
    }
    return DT_OK;
}

static dt_status read_header(input *in, array *a)
{
    uint8_t head[4 + 4 * MOST_RANK];
    const size_t wanted = 4 + 4 * (size_t)a->rank;
    size_t got;
    DT__TRY(input_read(in, head, 4, &got));
    if (got == 4) {
        DT__TRY(check_magic(in, a, head));
        DT__TRY(input_read(in, head + 4, wanted - 4, &got));
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

/* `there`: "only 7", "more than 7". */
static dt_status wrong_size(const input *in, const array *a, const char *there, int64_t bytes)
{
    char dims[96];
    dt__dims_text(a->rank, a->dims, dims, sizeof dims);
    return dt_fail(in->ctx, DT_ERR_FORMAT,
                   "'%s': the header declares %s %s, but %s %lld bytes follow it", a->path, a->what,
                   dims, there, (long long)bytes);
}

/* The storage grows as the data come, so that a false header costs no more than its file. */
static dt_status read_elements(input *in, array *a, size_t wanted)
{
    size_t size = wanted, have = 0, got;
    if (in->gzip || in->file_size < 0) {
        size_t first = FIRST_STEP;
        const size_t usual = in->file_size < 0 ? 0 : (size_t)in->file_size * USUAL_RATIO;
        if (first < usual) first = usual;
        if (size > first) size = first;
    }
    for (;;) {
        dt__storage *larger = dt__storage_create(in->ctx, size);
        if (larger == NULL) return DT_ERR_NOMEM;
        if (have > 0) memcpy(larger->data, a->bytes->data, have);
        dt__storage_release(a->bytes);
        a->bytes = larger;
        DT__TRY(input_read(in, (uint8_t *)larger->data + have, size - have, &got));
        have += got;
        if (have == wanted) return DT_OK;
        if (have < size) return wrong_size(in, a, "only", (int64_t)have);
        size = size > wanted / 2 ? wanted : 2 * size;
    }
}

static dt_status read_array(input *in, array *a)
{
    DT__TRY(read_header(in, a));
    int64_t count;
    if (!dt__product(a->rank, a->dims, &count)) count = INT64_MAX;
    if (!in->gzip && in->file_size >= 0) {
        const int64_t follow = in->file_size - 4 - 4 * a->rank;
        if (follow < count) return wrong_size(in, a, "only", follow);
    }
    if ((uint64_t)count > SIZE_MAX / 2) {
        return dt_fail(in->ctx, DT_ERR_FORMAT, "'%s': the header declares more bytes than can be",
                       a->path);
    }
    DT__TRY(read_elements(in, a, (size_t)count));
    uint8_t more;
    size_t got;
    DT__TRY(input_read(in, &more, 1, &got)); /* of gzip, this also checks its checksum */
    return got == 0 ? DT_OK : wrong_size(in, a, "more than", count);
}

static dt_status load(dt_ctx *ctx, array *a)
{
    input in;
    dt_status status = input_open(ctx, a->path, &in);
    if (status == DT_OK) status = read_array(&in, a);
    input_close(&in);
    return status;
}

/* ---- a dataset ---------------------------------------------------------------------------- */

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
    DT__TRY(load(ctx, labels)); /* the small file first: its errors come soon */
    DT__TRY(load(ctx, images));
    if (images->dims[0] != labels->dims[0]) {
        return dt_fail(ctx, DT_ERR_FORMAT,
                       "'%s' holds %lld images and '%s' %lld labels; as many of both are wanted",
                       images->path, (long long)images->dims[0], labels->path,
                       (long long)labels->dims[0]);
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
    *out = NULL;
    if (classes < 0 || classes > DT__MOST_CLASSES) {
        return dt_fail(ctx, DT_ERR_ARG, "reading IDX files: %lld classes: 0 (found) to %d wanted",
                       (long long)classes, DT__MOST_CLASSES);
    }
    array pixels = { .path = images, .what = "images", .rank = 3 };
    array marks = { .path = labels, .what = "labels", .rank = 1 };
    dt_dataset d = { .classes = classes };
    const dt_status status = load_both(ctx, &pixels, &marks, &d);
    if (status == DT_OK) return dt__dataset_wrap(ctx, &d, out);
    dt__storage_release(pixels.bytes);
    dt__storage_release(marks.bytes);
    return status;
}
