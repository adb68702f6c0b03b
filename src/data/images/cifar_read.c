/* Reads the binary files of CIFAR-10 and CIFAR-100, plain or gzip [Krizhevsky, "Learning multiple
 * layers of features from tiny images"]. A file is a sequence of records without a header:
 *     CIFAR-10    label          1024 red, 1024 green, 1024 blue bytes
 *     CIFAR-100   coarse, fine   the same
 * each colour 32 x 32 in row-major order, as in a dataset. The size of a plain file determines its
 * number of images; for gzip, memory grows while reading. */
#include "data/dataset.h"
#include "data/input.h"

#include <string.h>
#include <sys/stat.h>

#define SIDE 32
#define PIXELS (3 * SIDE * SIDE)
#define MOST_MARKS 2
#define MOST_IMAGES ((int64_t)1 << 22) /* in one call, as a limit for gzip bombs */

static const struct kind {
    const char *name;
    int64_t marks;               /* label bytes before the pixels */
    int64_t label;               /* index of the label to use */
    int64_t classes[MOST_MARKS]; /* number of classes of each label */
} kinds[] = {
    [DT_CIFAR10] = { "CIFAR-10", 1, 0, { 10, 0 } },
    [DT_CIFAR100_FINE] = { "CIFAR-100", 2, 1, { 20, 100 } },
    [DT_CIFAR100_COARSE] = { "CIFAR-100", 2, 0, { 20, 100 } },
};

typedef struct collection {
    dt_ctx *ctx;
    const struct kind *kind;
    int64_t count, room; /* images */
    dt__storage *pixels, *labels;
} collection;

static int64_t record_bytes(const struct kind *k) { return k->marks + PIXELS; }

/* Reallocates *s with `bytes` bytes, keeping the first `used` bytes. */
static dt_status resize_storage(dt_ctx *ctx, dt__storage **s, int64_t used, int64_t bytes)
{
    dt__storage *other = dt__storage_create(ctx, (uint64_t)bytes);
    if (other == NULL) return DT_ERR_NOMEM;
    if (used > 0) memcpy(other->data, (*s)->data, (size_t)used);
    dt__storage_release(*s);
    *s = other;
    return DT_OK;
}

static dt_status resize(collection *c, int64_t room)
{
    DT__TRY(resize_storage(c->ctx, &c->pixels, c->count * PIXELS, room * PIXELS));
    DT__TRY(resize_storage(c->ctx, &c->labels, c->count, room));
    c->room = room;
    return DT_OK;
}

static dt_status check_size(const collection *c, const dt__input *in)
{
    const int64_t record = record_bytes(c->kind), bytes = in->file_size;
    if (in->packed || bytes < 0 || (bytes > 0 && bytes % record == 0)) return DT_OK;
    const struct kind *other = &kinds[c->kind->marks == 1 ? DT_CIFAR100_FINE : DT_CIFAR10];
    const bool is_other = bytes > 0 && bytes % record_bytes(other) == 0;
    return dt_fail(c->ctx, DT_ERR_FORMAT,
                   "'%s' has %lld byte%s; a file of %s holds images of %lld bytes each%s%s%s",
                   in->path, (long long)bytes, DT__S(bytes), c->kind->name, (long long)record,
                   is_other ? " (is it " : "", is_other ? other->name : "", is_other ? "?)" : "");
}

static dt_status check_marks(const collection *c, const dt__input *in, const uint8_t *marks,
                             int64_t image)
{
    const struct kind *k = c->kind;
    for (int64_t i = 0; i < k->marks; i++) {
        if (marks[i] < k->classes[i]) continue;
        return dt_fail(c->ctx, DT_ERR_FORMAT,
                       "'%s': %slabel %d of image %lld; 0 to %lld are labels of %s", in->path,
                       k->marks == 1 ? "" : (i == 0 ? "coarse " : "fine "), marks[i],
                       (long long)image, (long long)k->classes[i] - 1, k->name);
    }
    return DT_OK;
}

/* Reads the next record, which is image number `image` of the file. *more is false at the end of
 * the file. */
static dt_status read_record(collection *c, dt__input *in, int64_t image, bool *more)
{
    uint8_t record[MOST_MARKS + PIXELS];
    const size_t wanted = (size_t)record_bytes(c->kind), marks = (size_t)c->kind->marks;
    size_t got;
    DT__TRY(dt__input_read(in, record, wanted, &got));
    *more = got > 0;
    if (got == 0) return DT_OK;
    if (got < wanted) {
        return dt_fail(c->ctx, DT_ERR_FORMAT, "'%s' breaks off: image %lld has %zu of %zu bytes",
                       in->path, (long long)image, got, wanted);
    }
    DT__TRY(check_marks(c, in, record, image));
    if (c->count == MOST_IMAGES) {
        return dt_fail(c->ctx, DT_ERR_FORMAT, "'%s': more than %lld images", in->path,
                       (long long)MOST_IMAGES);
    }
    if (c->count == c->room) DT__TRY(resize(c, c->room + c->room / 2 + 1));
    memcpy((uint8_t *)c->pixels->data + c->count * PIXELS, record + marks, PIXELS);
    ((uint8_t *)c->labels->data)[c->count] = record[c->kind->label];
    c->count++;
    return DT_OK;
}

static dt_status read_records(collection *c, dt__input *in)
{
    bool more = true;
    DT__TRY(check_size(c, in));
    for (int64_t image = 0; more; image++) {
        DT__TRY(read_record(c, in, image, &more));
        if (image > 0 || more) continue;
        return dt_fail(c->ctx, DT_ERR_FORMAT, "'%s' holds no images", in->path);
    }
    return DT_OK;
}

static dt_status read_file(collection *c, const char *path)
{
    dt__input in;
    dt_status status = dt__input_open(c->ctx, path, &in);
    if (status == DT_OK) status = read_records(c, &in);
    dt__input_close(&in);
    return status;
}

/* Estimates the number of images from file sizes: exact for plain files, too low for gzip. */
static int64_t expect(const struct kind *k, const dt_strings *paths)
{
    int64_t count = 0;
    for (int i = 0; i < paths->n; i++) {
        struct stat about;
        if (stat(paths->v[i], &about) != 0 || !S_ISREG(about.st_mode)) continue;
        count = dt__min_i64(MOST_IMAGES, count + (int64_t)about.st_size / record_bytes(k));
    }
    return count;
}

static dt_status read_files(collection *c, const dt_strings *paths)
{
    DT__TRY(resize(c, expect(c->kind, paths)));
    for (int i = 0; i < paths->n; i++) DT__TRY(read_file(c, paths->v[i]));
    return c->room == c->count ? DT_OK : resize(c, c->count);
}

dt_status dt_cifar_read(dt_ctx *ctx, dt_cifar kind, const dt_strings *paths, dt_dataset **out)
{
    DT__NEED3(ctx, ctx, paths, out);
    *out = NULL;
    if ((unsigned)kind >= DT__COUNT_OF(kinds) || paths->n < 1) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "reading CIFAR files: expected one of the kinds and a file");
    }
    collection c = { .ctx = ctx, .kind = &kinds[kind] };
    const dt_status status = read_files(&c, paths);
    if (status != DT_OK) {
        dt__storage_release(c.pixels);
        dt__storage_release(c.labels);
        return status;
    }
    const dt_dataset d = { .count = c.count,
                           .channels = 3,
                           .height = SIDE,
                           .width = SIDE,
                           .target = DT_TARGET_CLASS,
                           .classes = c.kind->classes[c.kind->label],
                           .pixels = c.pixels,
                           .targets = c.labels };
    return dt__images_wrap(ctx, &d, out);
}
