/* Format c: writes the lines of a program, with addresses as names. A trace contains recurrent
 * layers step by step: where lines repeat and only their addresses differ, by a constant distance,
 * a loop is written instead. This needs no information about layers, so it also works for the
 * user's own. */
#include "export/c/c_program.h"

#include <stdlib.h>
#include <string.h>

#define LONGEST 128 /* lines of a loop */
#define WORTH 8     /* lines that a loop must save at least */

typedef struct mark {
    int64_t block, offset;
    int space;       /* 0: the arena; 1 ...: outputs; -1 ...: inputs */
    int64_t address; /* in elements */
    const char *type;
} mark;

/* Reads the address mark at *at and skips it. */
static mark read_mark(const dt__c_program *p, const char **at)
{
    char *end;
    mark m = { .block = strtoll(*at + 1, &end, 10), .type = "float" };
    m.offset = strtoll(end + 1, &end, 10);
    *at = end + 1;
    m.address = m.offset;
    if (m.block < 0) {
        m.space = (int)m.block;
        return m;
    }
    const dt__c_block *b = &p->block[m.block];
    m.type = b->type;
    m.space = b->output + 1;
    if (b->output < 0) m.address += (int64_t)(b->at / b->size);
    return m;
}

/* Whether c can be repetition n of line a, where b is repetition 1. */
static bool continues(const dt__c_program *p, const char *a, const char *b, const char *c,
                      int64_t n)
{
    while (*a != '\0') {
        if (*a != *b || *a != *c) return false;
        if (*a != DT__C_MARK) {
            a++, b++, c++;
            continue;
        }
        const mark x = read_mark(p, &a), y = read_mark(p, &b), z = read_mark(p, &c);
        if (x.space != y.space || x.space != z.space || strcmp(x.type, y.type) != 0 ||
            strcmp(x.type, z.type) != 0 || z.address - x.address != n * (y.address - x.address)) {
            return false;
        }
    }
    return *b == '\0' && *c == '\0';
}

static int depth_of(const char *line)
{
    const size_t n = strlen(line);
    if (line[0] == '}') return -1;
    return n > 0 && line[n - 1] == '{' ? 1 : 0;
}

static bool is_balanced(const dt__c_program *p, int64_t from, int64_t n)
{
    int depth = 0;
    for (int64_t i = 0; i < n && depth >= 0; i++) depth += depth_of(p->line[from + i]);
    return depth == 0;
}

/* How often the n lines from `from` on are repeated. */
static int64_t repetitions(const dt__c_program *p, int64_t from, int64_t n)
{
    int64_t times = 1;
    for (; from + (times + 1) * n <= p->n_lines; times++) {
        for (int64_t i = 0; i < n; i++) {
            char **line = p->line + from + i;
            if (!continues(p, line[0], line[n], line[times * n], times)) return times;
        }
    }
    return times;
}

/* Writes a line of a loop; `next` is the same line in the second repetition. NULL: not in a
 * loop. */
static void put_line(dt__c_program *p, dt__chars *to, const char *line, const char *next)
{
    while (*line != '\0') {
        if (*line != DT__C_MARK) {
            dt__put(to, line++, 1);
            if (next != NULL) next++;
            continue;
        }
        const mark m = read_mark(p, &line);
        const int64_t step = next == NULL ? 0 : read_mark(p, &next).address - m.address;
        const int64_t *in;
        const int n = dt_trace_inputs(p->trace, &in);
        if (m.block >= 0) p->block[m.block].used = true;
        if (m.block >= 0) dt__put_text(to, p->block[m.block].name);
        else if (n == 1) dt__put_text(to, "x");
        else dt__c_printf(to, "x%lld", (long long)(-1 - m.block));
        if (m.offset != 0) dt__c_printf(to, " + %lld", (long long)m.offset);
        if (step != 0) {
            dt__c_printf(to, " %c step * %lld", step < 0 ? '-' : '+', (long long)llabs(step));
        }
    }
    dt__put_text(to, "\n");
}

static void put_lines(dt__c_program *p, dt__chars *to, int64_t from, int64_t n, bool loop)
{
    int depth = loop ? 2 : 1;
    for (int64_t i = 0; i < from; i++) depth += depth_of(p->line[i]);
    for (int64_t i = from; i < from + n; i++) {
        const int change = depth_of(p->line[i]);
        if (change < 0) depth--;
        for (int k = 0; k < depth; k++) dt__put_text(to, "    ");
        put_line(p, to, p->line[i], loop ? p->line[i + n] : NULL);
        if (change > 0) depth++;
    }
}

void dt__c_put_lines(dt__c_program *p, dt__chars *to)
{
    int64_t at = 0, plain = 0; /* lines before `plain` have been written */
    while (at < p->n_lines) {
        int64_t best = 0, times = 1;
        for (int64_t n = 1; n <= LONGEST && at + 2 * n <= p->n_lines; n++) {
            const int64_t r = repetitions(p, at, n);
            if ((r - 1) * n <= (times - 1) * best || !is_balanced(p, at, n)) continue;
            best = n;
            times = r;
        }
        if (times < 3 || (times - 1) * best < WORTH) {
            at++;
            continue;
        }
        put_lines(p, to, plain, at - plain, false);
        dt__c_printf(to, "    for (int32_t step = 0; step < %lld; step++) {\n", (long long)times);
        put_lines(p, to, at, best, true);
        dt__put_text(to, "    }\n");
        p->loops += (times - 1) * best;
        at = plain = at + times * best;
    }
    put_lines(p, to, plain, at - plain, false);
}
