/* Reads JPEG files with libjpeg (libjpeg-turbo) by its slow integer transform and its smooth
 * upsampling, whose results do not depend on the machine. libjpeg reports errors by a function that
 * must not return, so it calls longjmp to `guarded`. Warnings, such as of a truncated file, are
 * errors too.
 *
 * libjpeg allocates by malloc. Its memory is bounded in advance: by its length, as every block of 8
 * x 8 values needs at least one bit, by MOST_PIXELS, and by MOST_SCANS of a progressive file, each
 * of which passes over the whole image. */
#include "data/images/jpeg.h"

#include "data/images/grey.h"

#include <jerror.h>
#include <string.h>

#define MOST_BYTES ((size_t)1 << 28)
#define MOST_PIXELS ((int64_t)1 << 27)
#define MOST_SCANS 128
#define PIXELS_OF_A_BYTE 512 /* 8 bits, with at least one bit per block of 8 x 8 */

/* Keeps the first error and calls longjmp. */
static void leave(j_common_ptr decoder)
{
    dt__jpeg *p = decoder->client_data;
    char words[JMSG_LENGTH_MAX];
    if (p->status == DT_OK && decoder->err->msg_code == JERR_OUT_OF_MEMORY) {
        p->status = dt_fail(p->ctx, DT_ERR_NOMEM, "'%s': libjpeg is out of memory", p->path);
    } else if (p->status == DT_OK) {
        decoder->err->format_message(decoder, words);
        p->status = dt_fail(p->ctx, DT_ERR_FORMAT,
                            "'%s' is damaged: %s; expected a sound JPEG file", p->path, words);
    }
    longjmp(p->jump, 1);
}

/* Makes warnings, which have a negative level, errors. */
static void hear(j_common_ptr decoder, int level)
{
    if (level < 0) leave(decoder);
}

static void say_nothing(j_common_ptr decoder) { (void)decoder; }

/* Runs a step that may call longjmp. It must not own anything in local variables. */
static dt_status guarded(dt__jpeg *p, void (*step)(dt__jpeg *))
{
    if (setjmp(p->jump) == 0) step(p);
    return p->status;
}

#define EXIF "Exif\0" /* and its NUL, before the data */

static int read_orientation(const dt__jpeg *p)
{
    for (jpeg_saved_marker_ptr m = p->decoder.marker_list; m != NULL; m = m->next) {
        if (m->data_length < sizeof EXIF || memcmp(m->data, EXIF, sizeof EXIF) != 0) continue;
        return dt__orientation_read(m->data + sizeof EXIF, m->data_length - sizeof EXIF);
    }
    return DT__UPRIGHT;
}

static void read_header(dt__jpeg *p)
{
    jpeg_create_decompress(&p->decoder);
    p->decoder.client_data = p;
    p->started = true;
    jpeg_mem_src(&p->decoder, p->file, (unsigned long)p->file_bytes);
    jpeg_save_markers(&p->decoder, JPEG_APP0 + 1, 0xFFFF);
    jpeg_read_header(&p->decoder, TRUE);
    p->orientation = read_orientation(p);
    p->height = p->decoder.image_height;
    p->width = p->decoder.image_width;
    dt__orientation_size(p->orientation, &p->height, &p->width);
}

static dt_status check_header(const dt__jpeg *p)
{
    const J_COLOR_SPACE form = p->decoder.jpeg_color_space;
    if (form != JCS_GRAYSCALE && form != JCS_YCbCr && form != JCS_RGB) {
        return dt_fail(p->ctx, DT_ERR_FORMAT,
                       "'%s' has %d colour components of another kind; expected grey, YCbCr or RGB",
                       p->path, p->decoder.num_components);
    }
    const int64_t pixels = p->height * p->width;
    if (pixels <= MOST_PIXELS && pixels / PIXELS_OF_A_BYTE <= (int64_t)p->file_bytes) return DT_OK;
    return dt_fail(
        p->ctx, DT_ERR_FORMAT,
        "'%s' declares %lld x %lld pixels, more than its %zu bytes can hold, or than %lld", p->path,
        (long long)p->height, (long long)p->width, p->file_bytes, (long long)MOST_PIXELS);
}

dt_status dt__jpeg_open(dt_ctx *ctx, const char *path, dt__jpeg *p)
{
    memset(p, 0, sizeof *p);
    p->ctx = ctx;
    p->path = path;
    DT__TRY(dt__input_all(ctx, path, MOST_BYTES, &p->file, &p->file_bytes));
    if (p->file_bytes < 2 || p->file[0] != 0xFF || p->file[1] != 0xD8) {
        return dt_fail(ctx, DT_ERR_FORMAT, "'%s' is not a JPEG file: it does not begin with ff d8",
                       path);
    }
    p->decoder.err = jpeg_std_error(&p->errors);
    p->decoder.client_data = p;
    p->errors.error_exit = leave;
    p->errors.emit_message = hear;
    p->errors.output_message = say_nothing;
    DT__TRY(guarded(p, read_header));
    return check_header(p);
}

void dt__jpeg_close(dt__jpeg *p)
{
    if (p->started) jpeg_destroy_decompress(&p->decoder);
    DT__RELEASE(p->ctx, p->file, p->row);
}

/* A progressive file is read scan by scan, so that they can be counted. */
static void read_scans(dt__jpeg *p)
{
    int state;
    do {
        state = jpeg_consume_input(&p->decoder);
        if (p->decoder.input_scan_number <= MOST_SCANS) continue;
        p->status =
            dt_fail(p->ctx, DT_ERR_FORMAT, "'%s' has more than %d scans", p->path, MOST_SCANS);
        return;
    } while (state != JPEG_REACHED_EOI && state != JPEG_SUSPENDED);
}

static void put_row(dt__jpeg *p, int64_t y)
{
    const int64_t height = p->decoder.image_height, width = p->decoder.image_width;
    const int64_t size = height * width, depth = p->decoder.output_components;
    const dt__turn turn = dt__turn_of(p->orientation, height, width);
    for (int64_t c = 0; c < p->channels; c++) {
        uint8_t *to = p->to + c * size + turn.start + y * turn.row;
        const uint8_t *from = p->row;
        for (int64_t k = 0; k < width; k++, from += depth, to += turn.column) {
            *to = depth == 1 ? *from : p->channels == 1 ? dt__grey_of(from) : from[c];
        }
    }
}

static void read_pixels(dt__jpeg *p)
{
    struct jpeg_decompress_struct *d = &p->decoder;
    d->dct_method = JDCT_ISLOW;
    d->do_fancy_upsampling = TRUE;
    d->out_color_space = d->jpeg_color_space == JCS_GRAYSCALE ? JCS_GRAYSCALE : JCS_RGB;
    d->buffered_image = jpeg_has_multiple_scans(d);
    jpeg_start_decompress(d);
    if (d->buffered_image) {
        read_scans(p);
        if (p->status != DT_OK) return;
        jpeg_start_output(d, d->input_scan_number);
    }
    p->row = dt__alloc_array(p->ctx, (int64_t)d->image_width, (size_t)d->output_components);
    if (p->row == NULL) p->status = DT_ERR_NOMEM;
    for (int64_t y = 0; y < (int64_t)d->image_height && p->status == DT_OK; y++) {
        JSAMPROW row = p->row;
        jpeg_read_scanlines(d, &row, 1);
        put_row(p, y);
    }
    if (p->status != DT_OK) return;
    if (d->buffered_image) jpeg_finish_output(d);
    jpeg_finish_decompress(d);
}

dt_status dt__jpeg_read(dt__jpeg *p, int64_t channels, uint8_t *to)
{
    p->channels = channels;
    p->to = to;
    return guarded(p, read_pixels);
}
