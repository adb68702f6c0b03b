/* A folder of image files by class: folder/<class>/<name>.png or .jpg. Classes, and the files of
 * each, are in byte order of their names. Image j of a class of n gets the key (j + 1/2) / n; the
 * dataset is sorted by key, then class, so any part cut off at its ends holds every class in
 * proportion. */
#include "core/system/atomic_file.h"
#include "core/comparisons.h"
#include "core/text/ending.h"
#include "core/pace.h"
#include "core/system/system_calls.h"
#include "core/text/utf8.h"
#include "data/dataset.h"
#include "data/images/image_file.h"
#include "data/images/resize.h"
#include "data/unread.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MOST_SIDE 65535 /* pixels */

/* ---- names -------------------------------------------------------------------------------- */

typedef struct names {
    char **v;
    int64_t n, room;
} names;

static void names_free(dt_ctx *ctx, names *list)
{
    for (int64_t i = 0; i < list->n; i++) dt__release(ctx, list->v[i]);
    dt__release(ctx, list->v);
    *list = (names){ NULL, 0, 0 };
}

static dt_status names_add(dt_ctx *ctx, names *list, const char *name)
{
    DT__TRY(DT__RESERVE(ctx, list->v, list->n, list->room));
    list->v[list->n] = dt__copy_string(ctx, name);
    if (list->v[list->n] == NULL) return DT_ERR_NOMEM;
    list->n++;
    return DT_OK;
}

typedef enum sought { FOLDERS, PNG_FILES, IMAGES } sought;

#define ENDINGS "*.png, *.jpg or *.jpeg"

static bool is_image(const char *name, sought what)
{
    static const char *const endings[] = { ".png", ".jpg", ".jpeg" };
    for (int i = 0; i < (what == PNG_FILES ? 1 : DT__COUNT_OF(endings)); i++) {
        if (dt__ends_in(name, endings[i])) return true;
    }
    return false;
}

/* Counts of the entries that a list contains and leaves out; NULL: not counted. */
typedef struct listing {
    const char *folder;
    sought what;
    names *out;
    dt__unread *unread;
} listing;

/* Whether an entry is skipped by its name. */
static bool is_passed(const listing *l, const char *name)
{
    if (l->unread != NULL) return dt__unread_is_silent(name);
    return name[0] == '.' || (l->what != FOLDERS && !is_image(name, l->what));
}

/* Adds an entry of the requested kind, following links. Of other files only images are counted. */
static dt_status list_entry(dt_ctx *ctx, const listing *l, const char *name)
{
    struct stat about;
    if (is_passed(l, name)) return DT_OK;
    char *path = dt__format_string(ctx, "%s/%s", l->folder, name);
    if (path == NULL) return DT_ERR_NOMEM;
    const bool folders = l->what == FOLDERS, image = is_image(name, folders ? IMAGES : l->what);
    const bool failed = stat(path, &about) != 0;
    const bool wanted = folders || image; /* links of other names may be broken */
    const dt_status status = failed && wanted ? dt__file_fail(ctx, "read", path, errno) : DT_OK;
    dt__release(ctx, path);
    DT__TRY(status);
    const bool folder = !failed && S_ISDIR(about.st_mode);
    const bool file = !failed && S_ISREG(about.st_mode);
    if (folders ? folder : file && image) return names_add(ctx, l->out, name);
    if (l->unread == NULL || (folders && !image)) return DT_OK;
    if (folder) l->unread->folders++;
    else dt__unread_add(l->unread, name);
    return DT_OK;
}

static dt_status list_entries(dt_ctx *ctx, DIR *open, const listing *l)
{
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(open);
        if (entry == NULL) return errno == 0 ? DT_OK : dt__file_fail(ctx, "read", l->folder, errno);
        DT__TRY(list_entry(ctx, l, entry->d_name));
    }
}

static dt_status list_folder(dt_ctx *ctx, const listing *l)
{
    DIR *open = dt__sys_open_folder(l->folder);
    if (open == NULL) return dt__file_fail(ctx, "open", l->folder, errno);
    const dt_status status = list_entries(ctx, open, l);
    closedir(open);
    names *out = l->out;
    if (out->n > 0) qsort(out->v, (size_t)out->n, sizeof *out->v, dt__by_text);
    return status;
}

/* ---- classes ------------------------------------------------------------------------------ */

typedef struct class_folder {
    char *path;
    names files;
    int64_t taken; /* files already in the dataset */
} class_folder;

typedef struct reading {
    dt_ctx *ctx;
    const char *folder;
    const dt_png_options *options;
    sought what;
    class_folder classes[DT__MOST_CLASSES];
    int64_t count;           /* files of all classes */
    int64_t turned, unclear; /* images with a rotation in EXIF data, and with damaged EXIF data */
    int64_t transparent;
    /* skipped entries in class folders; images outside of class folders */
    dt__unread unread, beside;
    char *first; /* path of the first image, whose size is required of all */
    dt_dataset d;
} reading;

static dt_status list_classes(dt_ctx *ctx, const char *folder, names *out, dt__unread *beside)
{
    DT__TRY(list_folder(ctx, &(listing){ folder, FOLDERS, out, beside }));
    if (out->n >= 1 && out->n <= DT__MOST_CLASSES) return DT_OK;
    return dt_fail(ctx, DT_ERR_FORMAT,
                   "'%s' holds %lld folders; expected one for each class, 1 to %d", folder,
                   (long long)out->n, DT__MOST_CLASSES);
}

static dt_status list_class(reading *r, const names *classes, const char *name)
{
    char **found = bsearch(&name, classes->v, (size_t)classes->n, sizeof *classes->v, dt__by_text);
    if (found == NULL) {
        return dt_fail(r->ctx, DT_ERR_FORMAT, "'%s' is a class of '%s', but not of '%s'", name,
                       r->folder, r->options->classes);
    }
    class_folder *c = &r->classes[found - classes->v];
    c->path = dt__format_string(r->ctx, "%s/%s", r->folder, name);
    if (c->path == NULL) return DT_ERR_NOMEM;
    DT__TRY(list_folder(r->ctx, &(listing){ c->path, r->what, &c->files, &r->unread }));
    r->count += c->files.n;
    if (c->files.n > 0) return DT_OK;
    return dt_fail(r->ctx, DT_ERR_FORMAT, "'%s' holds no %s", c->path,
                   r->what == PNG_FILES ? "PNG files, named *.png" : "images, named " ENDINGS);
}

/* Classes are named as the folders. Names in files are UTF-8, so others are left out. */
static dt_status keep_names(reading *r, const names *classes)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < classes->n; i++) {
        bytes += strlen(classes->v[i]) + 1;
        if (dt__is_utf8(classes->v[i])) continue;
        dt__say(r->ctx, "'%s': the name of class %lld is not UTF-8; classes have no names",
                r->folder, (long long)i);
        return DT_OK;
    }
    r->d.class_names = dt__storage_create(r->ctx, bytes);
    if (r->d.class_names == NULL) return DT_ERR_NOMEM;
    char *to = r->d.class_names->data;
    for (int64_t i = 0; i < classes->n; i++) to = stpcpy(to, classes->v[i]) + 1;
    return DT_OK;
}

static dt_status list_images(reading *r, names *here, names *all)
{
    const char *other = r->options->classes;
    DT__TRY(list_classes(r->ctx, r->folder, here, &r->beside));
    if (other != NULL) DT__TRY(list_classes(r->ctx, other, all, NULL));
    const names *classes = other == NULL ? here : all;
    for (int64_t i = 0; i < here->n; i++) DT__TRY(list_class(r, classes, here->v[i]));
    r->d.classes = classes->n;
    return keep_names(r, classes);
}

/* The class whose next image has the smallest key, (2 taken + 1) / (2 n). */
static int64_t next_class(const reading *r)
{
    int64_t best = -1;
    for (int64_t i = 0; i < r->d.classes; i++) {
        const class_folder *c = &r->classes[i];
        if (c->taken == c->files.n) continue;
        const class_folder *b = &r->classes[best < 0 ? i : best];
        if (best < 0 || (2 * c->taken + 1) * b->files.n < (2 * b->taken + 1) * c->files.n) best = i;
    }
    return best;
}

/* ---- images ------------------------------------------------------------------------------- */

static bool resizes(const reading *r) { return r->options->height > 0; }

/* Allocates memory for the images, of the requested size or that of the first image. */
static dt_status begin_dataset(reading *r, const dt__image_file *f)
{
    dt_dataset *d = &r->d;
    d->resized = resizes(r);
    d->height = resizes(r) ? r->options->height : f->height;
    d->width = resizes(r) ? r->options->width : f->width;
    const int64_t dims[] = { d->count, d->channels, d->height, d->width };
    int64_t bytes;
    if (!dt__product(4, dims, &bytes)) {
        return dt_fail(r->ctx, DT_ERR_NOMEM,
                       "out of memory for '%s': %lld images of %lld x %lld pixels", r->folder,
                       (long long)d->count, (long long)d->height, (long long)d->width);
    }
    r->first = dt__copy_string(r->ctx, f->path);
    return r->first == NULL ? DT_ERR_NOMEM : dt__images_allocate(r->ctx, d);
}

static dt_status refuse_size(const reading *r, const dt__image_file *f)
{
    return dt_fail(r->ctx, DT_ERR_FORMAT,
                   "'%s' has %lld x %lld pixels, but '%s' %lld x %lld; expected one size, or "
                   "data.size, to which all are resized",
                   f->path, (long long)f->height, (long long)f->width, r->first,
                   (long long)r->d.height, (long long)r->d.width);
}

static dt_status take_image(reading *r, dt__image_file *f, int64_t i, int64_t label)
{
    if (i == 0) DT__TRY(begin_dataset(r, f));
    uint8_t *to = (uint8_t *)r->d.pixels->data + i * dt__dataset_image_bytes(&r->d);
    ((uint8_t *)r->d.targets->data)[i] = (uint8_t)label;
    r->turned += f->orientation > DT__UPRIGHT;
    r->unclear += f->orientation == 0;
    r->transparent += f->png.transparent;
    if (!resizes(r) && (f->height != r->d.height || f->width != r->d.width)) {
        return refuse_size(r, f);
    }
    return dt__image_read_sized(r->ctx, f, r->d.channels, r->d.height, r->d.width, to);
}

static dt_status read_image(reading *r, int64_t i)
{
    const int64_t label = next_class(r);
    class_folder *c = &r->classes[label];
    char *path = dt__format_string(r->ctx, "%s/%s", c->path, c->files.v[c->taken++]);
    if (path == NULL) return DT_ERR_NOMEM;
    dt__image_file f;
    dt_status status = dt__image_open(r->ctx, path, &f);
    if (status == DT_OK) status = take_image(r, &f, i, label);
    dt__image_close(&f);
    dt__release(r->ctx, path);
    return status;
}

static void say_turned(const reading *r)
{
    if (r->transparent > 0) {
        dt__say(r->ctx,
                "'%s': %lld of %lld images have transparency, which is not read: their pixels are "
                "the colours beneath it",
                r->folder, (long long)r->transparent, (long long)r->d.count);
    }
    if (r->turned > 0) {
        dt__say(r->ctx, "'%s': %lld of %lld images are turned upright, as their EXIF data say",
                r->folder, (long long)r->turned, (long long)r->d.count);
    }
    if (r->unclear == 0) return;
    dt__say(r->ctx,
            "'%s': the EXIF data of %lld of %lld images are damaged, or give no orientation from 1 "
            "to 8; these images are not rotated",
            r->folder, (long long)r->unclear, (long long)r->d.count);
}

static void say_unread(const reading *r)
{
    char text[256];
    const bool png = r->what == PNG_FILES;
    dt__unread_text(&r->unread, text, sizeof text);
    if (*text != 0) {
        dt__say_once(r->ctx, "'%s': not read in the folders of classes: %s; images are named %s",
                     r->folder, text, png ? "*.png (format: folder reads JPEG too)" : ENDINGS);
    }
    dt__unread_text(&r->beside, text, sizeof text);
    if (*text != 0) {
        dt__say_once(r->ctx, "'%s': not read beside the folders of classes: %s", r->folder, text);
    }
}

static dt_status read_images(reading *r)
{
    names here = { NULL, 0, 0 }, all = { NULL, 0, 0 };
    const dt_status status = list_images(r, &here, &all);
    names_free(r->ctx, &here);
    names_free(r->ctx, &all);
    DT__TRY(status);
    r->d.count = r->options->count == 0 ? r->count : dt__min_i64(r->options->count, r->count);
    dt__pace pace = dt__pace_begin();
    for (int64_t i = 0; i < r->d.count; i++) {
        DT__TRY(read_image(r, i));
        if (!dt__pace_is_due(&pace)) continue;
        dt__say(r->ctx, "reading '%s': %lld of %lld images", r->folder, (long long)i + 1,
                (long long)r->d.count);
    }
    say_turned(r);
    say_unread(r);
    return DT_OK;
}

/* ---- the whole ---------------------------------------------------------------------------- */

dt_png_options dt_png_defaults(void) { return (dt_png_options){ .channels = 3 }; }

static void reading_free(reading *r)
{
    dt_ctx *ctx = r->ctx;
    for (int i = 0; i < DT__MOST_CLASSES; i++) {
        names_free(ctx, &r->classes[i].files);
        dt__release(ctx, r->classes[i].path);
    }
    dt__release(ctx, r->first);
    dt__storage_release(r->d.pixels);
    dt__storage_release(r->d.targets);
    dt__storage_release(r->d.class_names);
    dt__release(ctx, r);
}

static dt_status read_folder(dt_ctx *ctx, const char *folder, sought what,
                             const dt_png_options *options, dt_dataset **out)
{
    const dt_png_options o = options == NULL ? dt_png_defaults() : *options;
    *out = NULL;
    if ((o.channels != 1 && o.channels != 3) || o.count < 0) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "reading images: %lld channels, at most %lld images: expected 1 or 3 "
                       "channels, and 0 (all) or more",
                       (long long)o.channels, (long long)o.count);
    }
    if ((o.height == 0) != (o.width == 0) || o.height < 0 || o.width < 0 || o.height > MOST_SIDE ||
        o.width > MOST_SIDE) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "reading images: a size of %lld x %lld: expected both 0, or 1 to %d",
                       (long long)o.height, (long long)o.width, MOST_SIDE);
    }
    reading *r = dt__alloc_zero(ctx, sizeof *r);
    if (r == NULL) return DT_ERR_NOMEM;
    r->ctx = ctx;
    r->folder = folder;
    r->options = &o;
    r->what = what;
    r->d = (dt_dataset){ .channels = o.channels, .target = DT_TARGET_CLASS };
    const dt_status status = read_images(r);
    if (status == DT_OK) {
        dt__storage_retain(r->d.pixels); /* dt__images_wrap takes a reference */
        dt__storage_retain(r->d.targets);
        if (r->d.class_names != NULL) dt__storage_retain(r->d.class_names);
    }
    const dt_status wrapped = status == DT_OK ? dt__images_wrap(ctx, &r->d, out) : status;
    reading_free(r);
    return wrapped;
}

dt_status dt_png_read(dt_ctx *ctx, const char *folder, const dt_png_options *options,
                      dt_dataset **out)
{
    DT__NEED3(ctx, ctx, folder, out);
    return read_folder(ctx, folder, PNG_FILES, options, out);
}

dt_status dt_folder_read(dt_ctx *ctx, const char *folder, const dt_png_options *options,
                         dt_dataset **out)
{
    DT__NEED3(ctx, ctx, folder, out);
    return read_folder(ctx, folder, IMAGES, options, out);
}
