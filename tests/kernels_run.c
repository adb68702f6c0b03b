/* Runs kernel cases: operands next to protected pages, random values, comparison. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "kernels_run.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

#define SLOT ((size_t)8 << 20)
#define PAGE ((size_t)4096)
#define FRONT 64
#define GUARD 0x5b

void kernel_open(kernel_run *r)
{
    memset(r, 0, sizeof *r);
    const size_t bytes = KERNEL_BLOCKS * (SLOT + PAGE);
    void *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert(room != MAP_FAILED);
    r->room = room;
    for (int i = 0; i < KERNEL_BLOCKS; i++) {
        uint8_t *page = r->room + (size_t)i * (SLOT + PAGE) + SLOT;
        ck_assert_int_eq(mprotect(page, PAGE, PROT_NONE), 0);
    }
}

void kernel_close(kernel_run *r) { munmap(r->room, KERNEL_BLOCKS * (SLOT + PAGE)); }

void kernel_begin(kernel_run *r, const dt__kernels *kernels, int round, uint8_t poison)
{
    r->kernels = kernels;
    r->round = round;
    r->poison = poison;
    r->state = (uint64_t)round * 977 + 1;
    r->count = 0;
}

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Calls it once; or, timed, takes the least time of all calls within three milliseconds. */
bool kernel_again(kernel_run *r)
{
    if (r->round != KERNELS_TIMED) return r->calls++ == 0;
    const double now = now_ns();
    if (r->calls == 0) r->ns = 0;
    else if (r->calls == 1 || now - r->started < r->ns) r->ns = now - r->started;
    if (r->calls > 1 && r->ns * r->calls > 3e6) return false;
    if (r->calls++ == 50) return false;
    r->started = now_ns();
    return true;
}

/* ---- random choices of a case ---------------------------------------------------------------- */

static uint32_t draw(kernel_run *r)
{
    r->state = r->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(r->state >> 32);
}

int64_t kernel_below(kernel_run *r, int64_t n)
{
    return (int64_t)((uint64_t)draw(r) * (uint64_t)n >> 32);
}

int kernel_pick(kernel_run *r, int n)
{
    return r->round == KERNELS_TIMED ? 0 : (int)kernel_below(r, n);
}

bool kernel_chance(kernel_run *r) { return kernel_pick(r, 2) == 1; }

int64_t kernel_size(const kernel_run *r)
{
    static const int64_t sizes[KERNELS_SIZES] = { 0,  1,  7,   8,   9,   15,   16,    17,   31,
                                                  32, 33, 100, 255, 513, 4100, 16384, 40009 };
    return r->round == KERNELS_TIMED ? 16000 : sizes[r->round % KERNELS_SIZES];
}

int64_t kernel_extent(kernel_run *r, int64_t n)
{
    static const int64_t extents[] = { 16, 1, 2, 3, 5, 8, 10, 17, 31, 32, 33, 40, 64, 70 };
    const int64_t extent = extents[kernel_pick(r, DT__COUNT_OF(extents))];
    return dt__min_i64(extent, dt__max_i64(100000 / dt__max_i64(n, 1), 1));
}

int kernel_values(const kernel_run *r)
{
    return r->round == KERNELS_TIMED ? KERNELS_ORDINARY : r->round / KERNELS_SIZES;
}

float kernel_ordinary(kernel_run *r) { return ((float)(draw(r) >> 8) * 0x1p-24f - 0.5f) * 8; }

static float wide(kernel_run *r)
{
    uint32_t bits = draw(r);
    if ((bits & 0x7f800000) == 0x7f800000) bits ^= 0x00800000;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static float special(kernel_run *r)
{
    static const float list[] = { 0,          -0.0f,     FLT_MIN, -FLT_MIN,  FLT_TRUE_MIN,
                                  -0x1p-140f, INFINITY,  NAN,     -INFINITY, FLT_MAX,
                                  -FLT_MAX,   0x1p-120f, 1,       -1,        0.5f,
                                  2.5f,       88.5f,     -87.5f,  -104,      0x1p24f,
                                  1e-30f,     -1e30f,    3,       -20 };
    const int64_t i = kernel_below(r, 3 * DT__COUNT_OF(list));
    return i < DT__COUNT_OF(list) ? list[i] : kernel_ordinary(r);
}

static float float_of(kernel_run *r, int values)
{
    return values == KERNELS_ORDINARY ? kernel_ordinary(r)
           : values == KERNELS_WIDE   ? wide(r)
                                      : special(r);
}

float kernel_float(kernel_run *r) { return float_of(r, kernel_values(r)); }

/* ---- operands -------------------------------------------------------------------------------- */

void *kernel_block_of(kernel_run *r, kernel_kind kind, size_t bytes, size_t alignment)
{
    const size_t spans = (bytes + alignment - 1) / alignment * alignment;
    TEST_EACH(r->count < KERNEL_BLOCKS && spans + FRONT <= SLOT, "a case needs more room");
    uint8_t *end = r->room + (size_t)r->count * (SLOT + PAGE) + SLOT, *data = end - spans;
    memset(data - FRONT, GUARD, FRONT);
    memset(data, r->poison, bytes);
    memset(data + bytes, GUARD, spans - bytes);
    r->blocks[r->count++] = (kernel_block){ kind, bytes, data };
    return data;
}

float *kernel_result(kernel_run *r, int64_t n)
{
    return kernel_block_of(r, KERNEL_F32, (size_t)n * sizeof(float), sizeof(float));
}

double *kernel_result_doubles(kernel_run *r, int64_t n)
{
    return kernel_block_of(r, KERNEL_F64, (size_t)n * sizeof(double), sizeof(double));
}

uint8_t *kernel_result_bytes(kernel_run *r, int64_t n)
{
    return kernel_block_of(r, KERNEL_BYTES, (size_t)n, 1);
}

float *kernel_result_rows(kernel_run *r, int64_t rows, int64_t n, int64_t ld)
{
    const int64_t count = rows == 0 ? 0 : (rows - 1) * ld + n;
    float *y = kernel_result(r, count);
    for (int64_t i = 0; i < count; i++) {
        if (i % ld >= n) y[i] = 77;
    }
    return y;
}

float *kernel_result_or(kernel_run *r, int64_t n, float *x)
{
    return kernel_chance(r) ? x : kernel_result(r, n);
}

float *kernel_floats(kernel_run *r, int64_t n)
{
    const int values = kernel_values(r);
    float *x = kernel_result(r, n);
    for (int64_t i = 0; i < n; i++) x[i] = float_of(r, values);
    return x;
}

float *kernel_finite(kernel_run *r, int64_t n)
{
    float *x = kernel_floats(r, n);
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) x[i] = 0.25f;
    }
    return x;
}

float *kernel_ordinaries(kernel_run *r, int64_t n)
{
    float *x = kernel_result(r, n);
    for (int64_t i = 0; i < n; i++) x[i] = kernel_ordinary(r);
    return x;
}

double *kernel_doubles(kernel_run *r, int64_t n)
{
    double *x = kernel_result_doubles(r, n);
    for (int64_t i = 0; i < n; i++) x[i] = (double)kernel_float(r);
    return x;
}

uint8_t *kernel_bytes(kernel_run *r, int64_t n)
{
    uint8_t *x = kernel_result_bytes(r, n);
    for (int64_t i = 0; i < n; i++) x[i] = (uint8_t)draw(r);
    return x;
}

void *kernel_indices(kernel_run *r, int64_t n, int64_t below, bool wide_index)
{
    const size_t size = wide_index ? sizeof(int64_t) : sizeof(int32_t);
    void *index = kernel_block_of(r, KERNEL_BYTES, (size_t)n * size, size);
    for (int64_t i = 0; i < n; i++) {
        const int64_t v = kernel_below(r, below);
        if (wide_index) ((int64_t *)index)[i] = v;
        else ((int32_t *)index)[i] = (int32_t)v;
    }
    return index;
}

void kernel_returned(kernel_run *r, int64_t value)
{
    int64_t *to = kernel_block_of(r, KERNEL_BYTES, sizeof value, sizeof value);
    *to = value;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static bool is_guarded(const kernel_block *b)
{
    for (int i = 1; i <= FRONT; i++) {
        if (b->data[-i] != GUARD) return false;
    }
    for (size_t i = b->bytes; ((uintptr_t)b->data + i) % PAGE != 0; i++) {
        if (b->data[i] != GUARD) return false;
    }
    return true;
}

static bool near(double a, double b, double within)
{
    return (isnan(a) && isnan(b)) || fabs(a - b) <= within * fmax(fabs(a), fabs(b));
}

/* The first element that differs, or -1. */
static int64_t first_other(const kernel_block *a, const kernel_block *b, double within)
{
    if (memcmp(a->data, b->data, a->bytes) == 0) return -1;
    const size_t size = a->kind == KERNEL_F32 ? 4 : a->kind == KERNEL_F64 ? 8 : 1;
    for (size_t i = 0; i < a->bytes; i += size) {
        const void *p = a->data + i, *q = b->data + i;
        if (memcmp(p, q, size) == 0) continue;
        if (size == 4 && near((double)*(const float *)p, (double)*(const float *)q, within) &&
            (within > 0 || isnan(*(const float *)p)))
            continue;
        if (size == 8 && isnan(*(const double *)p) && isnan(*(const double *)q)) continue;
        return (int64_t)(i / size);
    }
    return -1;
}

static void describe(const kernel_block *b, int64_t at, char text[40])
{
    if (b->kind == KERNEL_F32) snprintf(text, 40, "%a", (double)((const float *)b->data)[at]);
    else if (b->kind == KERNEL_F64) snprintf(text, 40, "%a", ((const double *)b->data)[at]);
    else snprintf(text, 40, "%d", b->data[at]);
}

bool kernel_same(const kernel_run *a, const kernel_run *b, double within, char message[200])
{
    for (int i = 0; i < a->count; i++) {
        const kernel_block *p = &a->blocks[i], *q = &b->blocks[i];
        TEST_EACH(a->count == b->count && p->bytes == q->bytes, "the case draws by the table");
        if (!is_guarded(p) || !is_guarded(q)) {
            snprintf(message, 200, "wrote outside operand %d", i);
            return false;
        }
        const int64_t at = first_other(p, q, within);
        if (at < 0) continue;
        char want[40], got[40];
        describe(p, at, want);
        describe(q, at, got);
        snprintf(message, 200, "operand %d of %zu bytes, element %lld: %s, plain C has %s", i,
                 p->bytes, (long long)at, got, want);
        return false;
    }
    return true;
}
