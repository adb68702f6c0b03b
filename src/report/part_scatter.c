/* The scatter plot of regression: a point for each example, the target on the x axis, the output on
 * the y axis; they are equal on the diagonal. One chart for each number of a target. */
#include "report/page_chart.h"
#include "report/parts.h"

#include <math.h>

#define SIDE 200.0
#define LEFT 46.0
#define MOST_OUTPUTS 6
#define MOST_TICKS 12

static double at(const dt__branch *point, int k)
{
    const dt__branch *v = dt__children(point);
    for (; k > 0 && v != NULL; k--) v = v->next;
    return dt__number_of(v);
}

typedef struct scatter {
    const dt__branch *points;
    double output; /* index of a number in the target */
    double low, high, step;
} scatter;

static void find_range(scatter *s)
{
    s->low = INFINITY;
    s->high = -INFINITY;
    for (const dt__branch *p = dt__children(s->points); p != NULL; p = p->next) {
        if (at(p, 0) != s->output) continue;
        s->low = fmin(s->low, fmin(at(p, 1), at(p, 2)));
        s->high = fmax(s->high, fmax(at(p, 1), at(p, 2)));
    }
    if (!(s->high > s->low)) s->high = s->low + 1;
    s->step = dt__tick_step(s->low, s->high, 4);
    s->low = floor(s->low / s->step) * s->step;
    s->high = ceil(s->high / s->step) * s->step;
}

static double place(const scatter *s, double value)
{
    return (value - s->low) / (s->high - s->low) * SIDE;
}

static void put_axes(dt__chars *t, const scatter *s)
{
    for (int i = 0; i <= MOST_TICKS; i++) {
        const double v = s->low + i * s->step;
        if (!(v <= s->high + s->step * 1e-6)) break;
        const double y = 12 + SIDE - place(s, v), shown = fabs(v) < s->step * 1e-6 ? 0 : v;
        dt__page(t, "<path class=\"rule\" d=\"M%f %fh%f\"/>", LEFT, y, SIDE);
        dt__page(t, "<text class=\"tick\" x=\"%f\" y=\"%f\" text-anchor=\"end\">%g</text>",
                 LEFT - 6, y + 4, shown);
        dt__page(t, "<text class=\"tick\" x=\"%f\" y=\"%f\" text-anchor=\"middle\">%g</text>",
                 LEFT + place(s, v), 12 + SIDE + 17, shown);
    }
    dt__page(t, "<path class=\"diagonal\" d=\"M%f %fl%f %f\"/>", LEFT, 12 + SIDE, SIDE, -SIDE);
}

static void put_one(dt__chars *t, scatter *s, const char *name)
{
    find_range(s);
    if (!isfinite(s->low)) return;
    dt__page(t,
             "<figure class=\"chart scatter\"><figcaption>%s <span>output over target</span>"
             "</figcaption><svg viewBox=\"0 0 %f %f\" role=\"img\" aria-label=\"%s\">",
             name, LEFT + SIDE + 14, SIDE + 36, name);
    put_axes(t, s);
    for (const dt__branch *p = dt__children(s->points); p != NULL; p = p->next) {
        if (at(p, 0) != s->output) continue;
        dt__page(t, "<circle class=\"point\" cx=\"%f\" cy=\"%f\" r=\"2\"/>",
                 LEFT + place(s, at(p, 1)), 12 + SIDE - place(s, at(p, 2)));
    }
    dt__put_text(t, "</svg></figure>\n");
}

void dt__put_scatter(dt__chars *t, const dt__branch *examples)
{
    const dt__branch *name = dt__children(dt__field(examples, "outputs"));
    scatter s = { .points = dt__field(examples, "points") };
    dt__put_text(t, "<div class=\"charts\">\n");
    for (; name != NULL && s.output < MOST_OUTPUTS; name = name->next, s.output++) {
        put_one(t, &s, name->type == DT__BRANCH_TEXT ? name->text : "");
    }
    dt__put_text(t, "</div>\n");
}
