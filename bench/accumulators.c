/* accumulators FILE BITS TILE [LEAST MOST]: the worst case of accumulators of BITS bits that add up
 * TILE columns each (0: all that share a scale), for inputs of LEAST...MOST (default -128...127),
 * for each weight of a converted model's file, or of a file of tensors. It reads the codes by
 * docs/format.md and does not use how they were chosen. The largest sum takes MOST where a code is
 * positive and LEAST where it is negative, the smallest the other way round, and partial sums in
 * any order lie between, so both sums of a tile cover all inputs. The exit status is 1 where one
 * leaves -(2^(BITS-1) - 1) ... 2^(BITS-1) - 1. */
#include <detent/experimental/io.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bounds {
    int64_t bits, tile, least, most;
} bounds;

typedef struct worst {
    int64_t tiles, overflows, largest; /* largest: of |sum| */
} worst;

/* One row of codes and the zero points of its groups. */
typedef struct row {
    const unsigned char *codes;
    const signed char *zero_point; /* NULL: all 0 */
    int64_t columns, group;
    int bits; /* bits of a code in the file */
} row;

static int64_t code_at(const row *r, int64_t column)
{
    const int64_t bit = column * r->bits;
    const int code = r->codes[bit / 8] >> (bit % 8) & ((1 << r->bits) - 1);
    const int signed_code = code >= 1 << (r->bits - 1) ? code - (1 << r->bits) : code;
    return signed_code - (r->zero_point == NULL ? 0 : r->zero_point[column / r->group]);
}

static void add_tile(const row *r, int64_t first, int64_t end, const bounds *b, worst *w)
{
    int64_t positive = 0, negative = 0;
    for (int64_t k = first; k < end; k++) {
        const int64_t code = code_at(r, k);
        if (code > 0) positive += code;
        else negative += code;
    }
    const int64_t above = b->most * positive + b->least * negative;
    const int64_t below = -(b->least * positive + b->most * negative);
    const int64_t largest = above > below ? above : below;
    w->tiles++;
    w->overflows += largest > ((int64_t)1 << (b->bits - 1)) - 1;
    if (largest > w->largest) w->largest = largest;
}

/* Tiles begin with each group of scales. */
static void add_row(const row *r, const bounds *b, worst *w)
{
    for (int64_t first = 0; first < r->columns; first += r->group) {
        const int64_t end = first + r->group < r->columns ? first + r->group : r->columns;
        const int64_t tile = b->tile == 0 ? r->group : b->tile;
        for (int64_t k = first; k < end; k += tile) {
            add_tile(r, k, k + tile < end ? k + tile : end, b, w);
        }
    }
}

static int bits_for(int64_t largest)
{
    int bits = 1;
    while (bits < 63 && largest > ((int64_t)1 << (bits - 1)) - 1) bits++;
    return bits;
}

/* False where a sum overflows, or the file is not as described. */
static bool check_weight(const dt_file *file, const dt_file_weight *weight, const bounds *b)
{
    char name[512];
    worst w = { 0 };
    snprintf(name, sizeof name, "%s.codes", weight->name);
    const dt_file_entry *codes = dt_file_find(file, name);
    snprintf(name, sizeof name, "%s.zero_point", weight->name);
    const dt_file_entry *zero = dt_file_find(file, name);
    snprintf(name, sizeof name, "%s.g_idx", weight->name);
    if (codes == NULL || codes->rank != 2 || codes->dims[0] == 0) return false;
    if (dt_file_find(file, name) != NULL) {
        printf("%-32s columns of a group are not consecutive: not looked at\n", weight->name);
        return false;
    }
    const int64_t rows = codes->dims[0], columns = weight->count / rows;
    const bool grouped = weight->quant.granularity == DT_PER_GROUP;
    row r = { .columns = columns, .group = grouped ? weight->quant.group_size : columns };
    const bool bytes = strcmp(codes->dtype, "I8") == 0; /* a code a byte */
    r.bits = bytes ? 8 : weight->quant.bits <= 2 ? 2 : weight->quant.bits <= 4 ? 4 : 8;
    for (int64_t i = 0; i < rows; i++) {
        r.codes = (const unsigned char *)codes->data + i * codes->dims[1];
        if (zero != NULL) r.zero_point = (const signed char *)zero->data + i * zero->dims[1];
        add_row(&r, b, &w);
    }
    printf("%-32s %8lld tiles  largest sum %10lld  %2d bits  %lld overflows\n", weight->name,
           (long long)w.tiles, (long long)w.largest, bits_for(w.largest), (long long)w.overflows);
    return w.overflows == 0;
}

static int check_file(dt_ctx *ctx, const char *path, const bounds *b)
{
    dt_file *file = NULL;
    dt_file_weights *weights = NULL;
    dt_status s = dt_file_open(ctx, path, &file);
    if (s == DT_OK) s = dt_model_check(file);
    if (s == DT_OK) s = dt_file_weights_read(file, &weights);
    bool good = s == DT_OK;
    for (int64_t i = 0; s == DT_OK && i < dt_file_weights_count(weights); i++) {
        const dt_file_weight *w = dt_file_weights_at(weights, i);
        if (w->packed && !check_weight(file, w, b)) good = false;
    }
    if (s != DT_OK) fprintf(stderr, "accumulators: %s\n", dt_error(ctx));
    dt_file_weights_free(weights);
    dt_file_close(file);
    return good ? 0 : 1;
}

int main(int argc, char **argv)
{
    bounds b = { .least = -128, .most = 127 };
    dt_ctx *ctx = NULL;
    if (argc != 4 && argc != 6) {
        fprintf(stderr, "usage: accumulators FILE BITS TILE [LEAST MOST]\n");
        return 2;
    }
    b.bits = strtol(argv[2], NULL, 10);
    b.tile = strtol(argv[3], NULL, 10);
    if (argc == 6) b.least = strtol(argv[4], NULL, 10);
    if (argc == 6) b.most = strtol(argv[5], NULL, 10);
    if (b.bits < 2 || b.bits > 32 || b.tile < 0 || b.least > 0 || b.most < 0) {
        fprintf(stderr, "accumulators: BITS is 2 to 32, TILE not negative, LEAST <= 0 <= MOST\n");
        return 2;
    }
    if (dt_ctx_create(&ctx, NULL) != DT_OK) return 1;
    const int status = check_file(ctx, argv[1], &b);
    dt_ctx_free(ctx);
    return status;
}
