/* Reads PNG files with libpng, on the context's memory. libpng reports errors by longjmp, which
 * ends in `guarded`; allocations belong to the struct until it is closed.
 *
 * Before memory for pixels is allocated, the file must be long enough for the size in its header:
 * deflate expands at most 1032 times. libpng itself holds a few rows, and ancillary chunks are
 * skipped unread. */
#include "data/images/png.h"

#include "data/images/grey.h"

#include <string.h>

#define MOST_SIDE 65535U
#define MOST_PIXELS ((int64_t)1 << 27)
#define MOST_CHUNK ((png_alloc_size_t)1 << 23) /* bytes of a chunk, except pixels */
#define MOST_RATIO 1032                        /* of deflate: 258 bytes from 2 bits */
#define SIGNATURE 8

static png_voidp allocate(png_structp png, png_alloc_size_t bytes)
{
    dt__png *p = png_get_mem_ptr(png);
    void *block = dt__alloc(p->ctx, bytes);
    if (block == NULL) p->status = DT_ERR_NOMEM;
    return block;
}

static void release(png_structp png, png_voidp block)
{
    dt__png *p = png_get_mem_ptr(png);
    dt__release(p->ctx, block);
}

/* Keeps the first error and calls longjmp. */
static void leave(png_structp png, png_const_charp reason)
{
    dt__png *p = png_get_error_ptr(png);
    if (p->status == DT_OK) {
        p->status = dt_fail(p->ctx, DT_ERR_FORMAT, "'%s' is damaged: %s; expected a sound PNG file",
                            p->in.path, reason);
    }
    longjmp(p->jump, 1);
}

static void pass_over(png_structp png, png_const_charp warning)
{
    (void)png;
    (void)warning;
}

static void read_bytes(png_structp png, png_bytep to, size_t wanted)
{
    dt__png *p = png_get_io_ptr(png);
    size_t got;
    p->status = dt__input_read(&p->in, to, wanted, &got);
    if (p->status != DT_OK || got < wanted) png_error(png, "it breaks off");
}

/* Runs a step in which libpng may call longjmp. It must not own anything in local variables. */
static dt_status guarded(dt__png *p, void (*step)(dt__png *))
{
    if (setjmp(p->jump) == 0) step(p);
    return p->status;
}

/* The orientation in the chunk eXIf, if it comes before the pixels. */
static int read_orientation(const dt__png *p)
{
    png_unknown_chunkp chunk;
    const int n = png_get_unknown_chunks(p->png, p->info, &chunk);
    return n < 1 ? DT__UPRIGHT : dt__orientation_read(chunk->data, chunk->size);
}

static void read_header(dt__png *p)
{
    p->png =
        png_create_read_struct_2(PNG_LIBPNG_VER_STRING, p, leave, pass_over, p, allocate, release);
    if (p->png == NULL) {
        if (p->status == DT_OK)
            p->status = dt_fail(p->ctx, DT_ERR_NOMEM, "out of memory for libpng");
        return;
    }
    p->info = png_create_info_struct(p->png);
    if (p->info == NULL) png_error(p->png, "no memory");
    png_set_user_limits(p->png, MOST_SIDE, MOST_SIDE);
    png_set_chunk_malloc_max(p->png, MOST_CHUNK);
    png_set_keep_unknown_chunks(p->png, PNG_HANDLE_CHUNK_NEVER, NULL,
                                -1); /* -1: all ancillary chunks */
    png_set_keep_unknown_chunks(p->png, PNG_HANDLE_CHUNK_ALWAYS, (png_const_bytep) "eXIf", 1);
    png_set_benign_errors(p->png, 0);
    png_set_read_fn(p->png, p, read_bytes);
    png_read_info(p->png, p->info);
    p->orientation = read_orientation(p);
    p->height = png_get_image_height(p->png, p->info);
    p->width = png_get_image_width(p->png, p->info);
    p->transparent = (png_get_color_type(p->png, p->info) & PNG_COLOR_MASK_ALPHA) != 0 ||
                     png_get_valid(p->png, p->info, PNG_INFO_tRNS) != 0;
}

static dt_status check_length(dt__png *p)
{
    const int64_t row = (int64_t)png_get_rowbytes(p->png, p->info) + 1; /* with the filter byte */
    if (p->height * row / MOST_RATIO <= p->in.file_size && p->height * p->width <= MOST_PIXELS) {
        dt__orientation_size(p->orientation, &p->height, &p->width);
        return DT_OK;
    }
    return dt_fail(p->ctx, DT_ERR_FORMAT,
                   "'%s' declares %lld x %lld pixels, more than its %lld bytes can hold, or than "
                   "%lld",
                   p->in.path, (long long)p->height, (long long)p->width,
                   (long long)p->in.file_size, (long long)MOST_PIXELS);
}

/* What kind of file this is, if it is not PNG. */
static const char *kind_of(const dt__input *in)
{
    static const struct {
        size_t at;
        const char *begin, *kind;
    } kinds[] = {
        { 8, "WEBP", "it is a WebP image" },     { 0, "GIF8", "it is a GIF image" },
        { 0, "BM", "it is a BMP image" },        { 0, "II*", "it is a TIFF image" },
        { 0, "MM", "it is a TIFF image" },       { 4, "ftyp", "it is a HEIC or AVIF image" },
        { 0, "<", "it is a text such as HTML" },
    };
    if (in->have == 0) return "it is empty";
    for (int i = 0; i < DT__COUNT_OF(kinds); i++) {
        const size_t n = strlen(kinds[i].begin);
        if ((size_t)in->have < kinds[i].at + n) continue;
        if (memcmp(in->buffer + kinds[i].at, kinds[i].begin, n) == 0) return kinds[i].kind;
    }
    return "it does not begin with 89 50 4e 47 0d 0a 1a 0a";
}

dt_status dt__png_open(dt_ctx *ctx, const char *path, dt__png *p)
{
    *p = (dt__png){ .ctx = ctx };
    DT__TRY(dt__input_open(ctx, path, &p->in));
    if (p->in.have < SIGNATURE || png_sig_cmp(p->in.buffer, 0, SIGNATURE) != 0) {
        return dt_fail(ctx, DT_ERR_FORMAT, "'%s' is not a PNG file, nor JPEG: %s", path,
                       kind_of(&p->in));
    }
    DT__TRY(guarded(p, read_header));
    return check_length(p);
}

void dt__png_close(dt__png *p)
{
    if (p->png != NULL) png_destroy_read_struct(&p->png, &p->info, NULL);
    dt__release(p->ctx, p->bytes);
    dt__input_close(&p->in);
}

/* Makes libpng return 8-bit grey or RGB. */
static void set_form(dt__png *p)
{
    const int form = png_get_color_type(p->png, p->info);
    png_set_scale_16(p->png);
    if (form == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(p->png);
    if (form == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(p->png);
    png_set_strip_alpha(p->png);
}

static void read_rows(dt__png *p)
{
    const int passes = png_set_interlace_handling(p->png);
    const size_t row = png_get_rowbytes(p->png, p->info);
    const int64_t height = png_get_image_height(p->png, p->info);
    for (int pass = 0; pass < passes; pass++) {
        for (int64_t r = 0; r < height; r++) {
            png_read_row(p->png, p->bytes + (size_t)r * row, NULL);
        }
    }
    png_read_end(p->png, NULL);
}

static void read_pixels(dt__png *p)
{
    set_form(p);
    png_set_interlace_handling(p->png);
    png_read_update_info(p->png, p->info);
    const int channels = png_get_channels(p->png, p->info);
    if (png_get_bit_depth(p->png, p->info) != 8 || (channels != 1 && channels != 3)) {
        png_error(p->png, "its pixels have an unknown form");
    }
    p->bytes = dt__alloc_array(p->ctx, png_get_image_height(p->png, p->info),
                               png_get_rowbytes(p->png, p->info));
    if (p->bytes == NULL) p->status = DT_ERR_NOMEM;
    else read_rows(p);
}

dt_status dt__png_read(dt__png *p, int64_t channels, uint8_t *to)
{
    DT__TRY(guarded(p, read_pixels));
    const int64_t height = png_get_image_height(p->png, p->info);
    const int64_t width = png_get_image_width(p->png, p->info);
    const int64_t depth = png_get_channels(p->png, p->info);
    const dt__turn turn = dt__turn_of(p->orientation, height, width);
    for (int64_t c = 0; c < channels; c++, to += height * width) {
        const uint8_t *from = p->bytes;
        for (int64_t k = 0; k < height * width; k++, from += depth) {
            const int64_t at = turn.start + k / width * turn.row + k % width * turn.column;
            to[at] = depth == 1 ? *from : channels == 1 ? dt__grey_of(from) : from[c];
        }
    }
    return DT_OK;
}
