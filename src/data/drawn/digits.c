/* Synthetic images of handwritten digits, drawn from strokes. A digit has a few styles; a style is
 * a list of strokes: polylines, or Catmull-Rom splines through their points. For each image:
 * - a digit and a style are chosen,
 * - points are displaced by a field interpolated between 3 x 3 offsets, so strokes stay connected,
 * - the digit is scaled, slanted, rotated and shifted,
 * - a pixel at distance d from the nearest stroke gets ink clamp(radius + 1/2 - d, 0, 1),
 * - noise is added to every pixel, unless a clean image is requested.
 * Only + - * / and sqrt are used, which IEEE 754 rounds in one way: the bytes are the same on every
 * machine. Image i uses the Philox key in block i of the seed's stream. */
#include "data/dataset.h"

#include "core/threads.h"
#include "data/drawn/dice.h"

#include <math.h>

#define SIDE 28
#define PIXELS (SIDE * SIDE)
#define DIGITS 10
#define MOST_POINTS 12
#define STEPS 5  /* segments of a spline between two points */
#define FAR 1e9f /* squared distance of a pixel far from all strokes */

/* ---- shapes ------------------------------------------------------------------------------- */

typedef enum form { LINE, CURVE, LOOP } form; /* a loop is a closed curve */

/* Points relative to the digit's middle, in hundredths of its height, x to the right and y down. */
typedef struct stroke {
    uint8_t digit, style;
    uint8_t form; /* enum form */
    uint8_t n;
    int8_t point[MOST_POINTS][2];
} stroke;

static const uint8_t styles[DIGITS] = { 2, 3, 2, 2, 2, 2, 2, 3, 2, 2 };

/* clang-format off */
static const stroke strokes[] = {
    { 0, 0, LOOP, 8, { { 0, -50 }, { 22, -37 }, { 31, 0 }, { 22, 37 }, { 0, 50 }, { -22, 37 },
                       { -31, 0 }, { -22, -37 } } },
    { 0, 1, CURVE, 9, { { 8, -50 }, { -16, -40 }, { -29, -6 }, { -22, 34 }, { 0, 50 }, { 22, 36 },
                        { 29, 0 }, { 20, -38 }, { -6, -48 } } },
    { 1, 0, LINE, 2, { { 0, -50 }, { 0, 50 } } },
    { 1, 1, LINE, 3, { { -18, -30 }, { 3, -50 }, { 3, 50 } } },
    { 1, 2, LINE, 3, { { -17, -32 }, { 2, -50 }, { 2, 50 } } },
    { 1, 2, LINE, 2, { { -20, 50 }, { 24, 50 } } },
    { 2, 0, CURVE, 7, { { -28, -28 }, { -14, -47 }, { 12, -48 }, { 27, -28 }, { 18, -2 },
                        { -6, 24 }, { -30, 49 } } },
    { 2, 0, LINE, 2, { { -30, 49 }, { 32, 49 } } },
    { 2, 1, CURVE, 11, { { -26, -30 }, { -8, -49 }, { 18, -44 }, { 26, -22 }, { 8, 12 },
                         { -16, 42 }, { -30, 46 }, { -26, 32 }, { -8, 36 }, { 12, 47 },
                         { 34, 42 } } },
    { 3, 0, CURVE, 6, { { -26, -36 }, { -6, -50 }, { 20, -44 }, { 24, -22 }, { 8, -6 },
                        { -8, -3 } } },
    { 3, 0, CURVE, 6, { { -8, -3 }, { 14, 0 }, { 29, 20 }, { 18, 44 }, { -6, 50 }, { -29, 37 } } },
    { 3, 1, LINE, 3, { { -26, -48 }, { 24, -48 }, { -2, -10 } } },
    { 3, 1, CURVE, 6, { { -2, -10 }, { 21, -3 }, { 30, 20 }, { 14, 46 }, { -10, 50 },
                        { -30, 38 } } },
    { 4, 0, LINE, 3, { { -18, -48 }, { -29, 8 }, { 30, 8 } } },
    { 4, 0, LINE, 2, { { 14, -22 }, { 12, 50 } } },
    { 4, 1, LINE, 4, { { 14, 50 }, { 14, -50 }, { -30, 18 }, { 32, 18 } } },
    { 5, 0, LINE, 3, { { 26, -48 }, { -20, -48 }, { -24, -6 } } },
    { 5, 0, CURVE, 7, { { -24, -6 }, { -4, -14 }, { 19, -7 }, { 28, 18 }, { 16, 43 }, { -8, 50 },
                        { -29, 40 } } },
    { 5, 1, LINE, 2, { { 30, -46 }, { -14, -48 } } },
    { 5, 1, CURVE, 8, { { -14, -48 }, { -22, -12 }, { -6, -10 }, { 18, -4 }, { 26, 20 },
                        { 14, 43 }, { -8, 50 }, { -28, 44 } } },
    { 6, 0, CURVE, 10, { { 20, -48 }, { -4, -36 }, { -22, -8 }, { -27, 20 }, { -14, 45 },
                         { 8, 49 }, { 27, 29 }, { 18, 6 }, { -4, 3 }, { -25, 20 } } },
    { 6, 1, CURVE, 9, { { -4, -50 }, { -18, -22 }, { -25, 14 }, { -16, 42 }, { 4, 50 },
                        { 24, 36 }, { 20, 12 }, { 2, 4 }, { -20, 16 } } },
    { 7, 0, LINE, 3, { { -28, -48 }, { 28, -48 }, { -6, 50 } } },
    { 7, 1, LINE, 3, { { -28, -48 }, { 28, -48 }, { -6, 50 } } },
    { 7, 1, LINE, 2, { { -14, 2 }, { 26, 2 } } },
    { 7, 2, LINE, 3, { { -28, -34 }, { -26, -46 }, { 28, -48 } } },
    { 7, 2, CURVE, 4, { { 28, -48 }, { 12, -16 }, { -2, 18 }, { -6, 50 } } },
    { 8, 0, LOOP, 6, { { 0, -50 }, { 18, -41 }, { 19, -18 }, { 0, -4 }, { -19, -18 },
                       { -18, -41 } } },
    { 8, 0, LOOP, 6, { { 0, -4 }, { 24, 12 }, { 24, 38 }, { 0, 50 }, { -24, 38 }, { -24, 12 } } },
    { 8, 1, LOOP, 11, { { 18, -42 }, { -6, -50 }, { -22, -32 }, { -8, -10 }, { 14, 6 },
                        { 24, 28 }, { 8, 49 }, { -18, 44 }, { -22, 20 }, { -2, -2 },
                        { 18, -20 } } },
    { 9, 0, LOOP, 6, { { 24, -28 }, { 8, -49 }, { -16, -44 }, { -26, -22 }, { -12, -3 },
                       { 12, -7 } } },
    { 9, 0, CURVE, 4, { { 25, -30 }, { 22, 2 }, { 14, 30 }, { 8, 50 } } },
    { 9, 1, CURVE, 11, { { 23, -30 }, { 6, -50 }, { -16, -44 }, { -25, -22 }, { -10, -3 },
                         { 12, -8 }, { 24, -30 }, { 26, 4 }, { 18, 36 }, { -4, 50 },
                         { -24, 42 } } },
};
/* clang-format on */

/* ---- how much images vary ------------------------------------------------------------------- */

/* Each parameter is uniform in its range. Shifts make the task hard for a linear model. */
typedef struct range {
    float low, high;
} range;

static const range warp = { -4, 4 };         /* hundredths, in each direction */
static const range height = { 15.6f, 20 };   /* pixels */
static const range aspect = { 0.8f, 1.15f }; /* factor of the width */
static const range slant = { -0.3f, 0.3f };  /* pixels to the left per pixel down */
static const range turn = { -0.06f, 0.06f }; /* tangent of half the angle */
static const range shift = { -3.2f, 3.2f };  /* pixels, in each direction */
static const range radius = { 1.1f, 1.8f };  /* of the pen, pixels */
static const range ink = { 160, 255 };       /* grey of a covered pixel */
static const range noise = { -20, 20 };      /* added to every pixel */

/* ---- random numbers of one image ---------------------------------------------------------- */

static float draw(dt__dice *d, range r)
{
    return r.low + (r.high - r.low) * dt__unit_f32(dt__roll(d));
}

/* ---- drawing ------------------------------------------------------------------------------ */

typedef struct point {
    float x, y;
} point;

typedef struct pen {
    point warp[3][3];
    float xx, xy, yx, yy, x, y; /* from hundredths to pixels */
    float radius, ink;
    float *near; /* squared distance of each pixel to the strokes drawn so far */
} pen;

static void take_pen(dt__dice *d, pen *p)
{
    for (int i = 0; i < 9; i++) {
        p->warp[i / 3][i % 3].x = draw(d, warp);
        p->warp[i / 3][i % 3].y = draw(d, warp);
    }
    const float down = draw(d, height) / 100, across = down * draw(d, aspect);
    const float lean = draw(d, slant), t = draw(d, turn);
    const float cosine = (1 - t * t) / (1 + t * t), sine = 2 * t / (1 + t * t);
    p->xx = cosine * across;
    p->xy = -(cosine * lean + sine) * down;
    p->yx = sine * across;
    p->yy = (cosine - sine * lean) * down;
    p->x = 0.5f * (SIDE - 1) + draw(d, shift);
    p->y = 0.5f * (SIDE - 1) + draw(d, shift);
    p->radius = draw(d, radius);
    p->ink = draw(d, ink);
}

static point mix(point a, point b, float t)
{
    return (point){ a.x + (b.x - a.x) * t, a.y + (b.y - a.y) * t };
}

/* Displaces a point and maps it to the image. */
static point place(const pen *p, point a)
{
    const float u = (a.x + 50) / 50, v = (a.y + 50) / 50;
    const int i = u < 1 ? 0 : 1, j = v < 1 ? 0 : 1;
    const point top = mix(p->warp[j][i], p->warp[j][i + 1], u - (float)i);
    const point bottom = mix(p->warp[j + 1][i], p->warp[j + 1][i + 1], u - (float)i);
    const point by = mix(top, bottom, v - (float)j);
    const float x = a.x + by.x, y = a.y + by.y;
    return (point){ p->xx * x + p->xy * y + p->x, p->yx * x + p->yy * y + p->y };
}

static int clamp_pixel(float x) { return x < 0 ? 0 : x > SIDE - 1 ? SIDE - 1 : (int)x; }

static float lesser(float a, float b) { return a < b ? a : b; }
static float greater(float a, float b) { return a > b ? a : b; }

static void draw_segment(const pen *p, point a, point b)
{
    const float reach = p->radius + 1.5f;
    const int left = clamp_pixel(lesser(a.x, b.x) - reach);
    const int right = clamp_pixel(greater(a.x, b.x) + reach);
    const int top = clamp_pixel(lesser(a.y, b.y) - reach);
    const int bottom = clamp_pixel(greater(a.y, b.y) + reach);
    const float dx = b.x - a.x, dy = b.y - a.y, length2 = dx * dx + dy * dy + 1e-12f;
    for (int y = top; y <= bottom; y++) {
        for (int x = left; x <= right; x++) {
            const float px = (float)x - a.x, py = (float)y - a.y;
            const float t = lesser(greater((px * dx + py * dy) / length2, 0), 1);
            const float ex = px - t * dx, ey = py - t * dy, d2 = ex * ex + ey * ey;
            float *near = &p->near[y * SIDE + x];
            *near = lesser(*near, d2);
        }
    }
}

/* The point of the spline between b and c at t in [0, 1]; a and d are their neighbours. */
static float spline(float a, float b, float c, float d, float t)
{
    return b + 0.5f * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)));
}

/* Point i of a stroke; beyond the ends of an open stroke the last point is repeated. */
static point at(const stroke *s, int i)
{
    if (s->form == LOOP) i = (i + s->n) % s->n;
    else i = i < 0 ? 0 : i >= s->n ? s->n - 1 : i;
    return (point){ s->point[i][0], s->point[i][1] };
}

static void draw_stroke(const pen *p, const stroke *s)
{
    const int pieces = s->form == LOOP ? s->n : s->n - 1, steps = s->form == LINE ? 2 : STEPS;
    point from = place(p, at(s, 0));
    for (int i = 0; i < pieces; i++) {
        const point a = at(s, i - 1), b = at(s, i), c = at(s, i + 1), d = at(s, i + 2);
        for (int k = 1; k <= steps; k++) {
            const float t = (float)k / (float)steps;
            point q = mix(b, c, t);
            if (s->form != LINE) {
                q = (point){ spline(a.x, b.x, c.x, d.x, t), spline(a.y, b.y, c.y, d.y, t) };
            }
            const point to = place(p, q);
            draw_segment(p, from, to);
            from = to;
        }
    }
}

/* Parameters of an image. */
typedef struct sheet {
    dt_target target;
    uint8_t *pixels;
    /* receives the target: a label, or the class of each pixel; unused if targets are images */
    uint8_t *to;
} sheet;

static void draw_digit(uint64_t key, uint64_t image, const sheet *s)
{
    dt__dice d = dt__dice_of(key, image);
    float near[PIXELS];
    for (int i = 0; i < PIXELS; i++) near[i] = FAR;
    const int digit = dt__roll_below(&d, DIGITS), style = dt__roll_below(&d, styles[digit]);
    pen p = { .near = near };
    take_pen(&d, &p);
    for (int i = 0; i < DT__COUNT_OF(strokes); i++) {
        if (strokes[i].digit == digit && strokes[i].style == style) draw_stroke(&p, &strokes[i]);
    }
    for (int i = 0; i < PIXELS; i++) {
        const float cover = lesser(greater(p.radius + 0.5f - sqrtf(near[i]), 0), 1);
        const float grey = cover * p.ink + (s->target == DT_TARGET_IMAGE ? 0 : draw(&d, noise));
        s->pixels[i] = (uint8_t)(lesser(greater(grey, 0), 255) + 0.5f);
        if (s->target == DT_TARGET_MASK) s->to[i] = cover < 0.5f ? 0 : (uint8_t)(digit + 1);
    }
    if (s->target == DT_TARGET_CLASS) *s->to = (uint8_t)digit;
}

DT__EACH(draw_all, i, uint64_t key; int64_t target_bytes; uint8_t *const pixels, *targets;
         dt_target target;)
{
    const sheet s = { a.target, a.pixels + i * PIXELS, a.targets + i * a.target_bytes };
    draw_digit(a.key, (uint64_t)i, &s);
}

static void draw_all(dt_dataset *d, uint64_t seed)
{
    const uint64_t key = dt__stream_of(seed, DT__FOR_DIGITS).key;
    const int64_t count = d->count, target_bytes = dt__dataset_target_bytes(d);
    uint8_t *pixels = d->pixels->data, *targets = d->targets->data;
    const dt_target target = d->target;
    dt__team *const before = dt__threads_enter(d->ctx);
    dt__parallel(count, DT__WORTH_A_THREAD, draw_all_share,
                 &(draw_all_args){ key, target_bytes, pixels, targets, target });
    dt__threads_leave(before);
}

/* Clean images are their own targets. */
static dt_status allocate(dt_ctx *ctx, dt_dataset *d)
{
    if (d->target != DT_TARGET_IMAGE) return dt__images_allocate(ctx, d);
    d->pixels = dt__storage_create(ctx, (uint64_t)(d->count * PIXELS));
    if (d->pixels == NULL) return DT_ERR_NOMEM;
    dt__storage_retain(d->pixels);
    d->targets = d->pixels;
    return DT_OK;
}

dt_status dt_digits_create(dt_ctx *ctx, int64_t count, uint64_t seed, dt_target target,
                           dt_dataset **out)
{
    DT__NEED2(ctx, ctx, out);
    static const int64_t classes[] = { [DT_TARGET_CLASS] = DIGITS, [DT_TARGET_MASK] = DIGITS + 1 };
    *out = NULL;
    if (count < 0 || count > INT64_MAX / PIXELS) {
        return dt_fail(ctx, DT_ERR_ARG, "digits: %lld images: expected at least 0",
                       (long long)count);
    }
    if ((unsigned)target > DT_TARGET_MASK) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "digits: targets of kind %d: expected labels, images or masks", (int)target);
    }
    dt_dataset d = { .ctx = ctx,
                     .count = count,
                     .channels = 1,
                     .height = SIDE,
                     .width = SIDE,
                     .target = target,
                     .classes = classes[target] };
    DT__TRY(allocate(ctx, &d));
    draw_all(&d, seed);
    return dt__images_wrap(ctx, &d, out);
}
