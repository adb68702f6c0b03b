/* Chat templates in one way to write them. Jinja is not run: a template is brought into a normal
 * form, in which texts stand as they are written,
 *
 *     {%for m in messages%}<|im_start|>{{m.role}} (end of line) {{m.content}}<|im_end|> ...
 *
 * without blanks in code but those between words, with .name in place of ['name'], |trim in place
 * of .strip(), and m for the variable of a loop. White space around tags goes as transformers sets
 * Jinja: trim_blocks and lstrip_blocks. The normal form must then be that of a form of chats, part
 * by part. */
#include "data/text/chats.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- the normal form ------------------------------------------------------------------------ */

typedef struct source {
    dt__chars *out;
    const char *begin;
    char loop[40]; /* the variable of the loop */
    bool bad;      /* something is not read */
} source;

/* The bytes of the string that begins here, with its quotes; 0: nothing closes it. */
static size_t quoted(const char *p, const char *end)
{
    for (const char *q = p + 1; q < end; q++) {
        if (*q == '\\') q++;
        else if (*q == *p) return (size_t)(q - p) + 1;
    }
    return 0;
}

static bool is_quote(char c) { return c == '\'' || c == '"'; }

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static size_t put_identifier(source *s, const char *p, const char *end)
{
    size_t n = 0;
    while (p + n < end && is_word(p[n])) n++;
    const bool member = s->out->used > 0 && s->out->bytes[s->out->used - 1] == '.';
    const bool loop = !member && n == strlen(s->loop) && strncmp(p, s->loop, n) == 0;
    s->bad |= !member && !loop && n == 1 && *p == 'm';
    if (loop) dt__put(s->out, "m", 1);
    else dt__put(s->out, p, n);
    return n;
}

static void put_code(source *s, const char *p, const char *end)
{
    while (p < end && !s->bad) {
        const bool member = *p == '[' && p + 1 < end && is_quote(p[1]);
        const char *string = member ? p + 1 : p;
        const size_t n = is_quote(*string) ? quoted(string, end) : 0;
        if (is_quote(*string)) {
            s->bad = n == 0 || (member && (string + n >= end || string[n] != ']'));
            if (s->bad) return;
            dt__put_text(s->out, member ? "." : "'");
            dt__put(s->out, string + 1, n - 2);
            if (!member) dt__put_text(s->out, "'");
            p = string + n + (member ? 1 : 0);
        } else if (isspace((unsigned char)*p)) {
            while (p < end && isspace((unsigned char)*p)) p++;
            if (p < end && is_word(*p) && s->out->used > 0 &&
                is_word(s->out->bytes[s->out->used - 1])) {
                dt__put(s->out, " ", 1);
            }
        } else if (end - p >= 8 && strncmp(p, ".strip()", 8) == 0) {
            dt__put_text(s->out, "|trim");
            p += 8;
        } else if (is_word(*p)) {
            p += put_identifier(s, p, end);
        } else {
            s->bad |= strchr("{}%", *p) != NULL;
            dt__put(s->out, p++, 1);
        }
    }
}

/* The text of a string; braces would look like tags. */
static void put_literal(source *s, const char *p, const char *end)
{
    for (; p < end; p++) {
        const bool escaped = *p == '\\' && p + 1 < end;
        if (escaped) p++;
        s->bad |= *p == '{' || *p == '}' || (escaped && strchr("n\\'\"", *p) == NULL);
        dt__put(s->out, escaped && *p == 'n' ? "\n" : p, 1);
    }
}

static void trim(const char **p, const char **end)
{
    while (*p < *end && isspace((unsigned char)**p)) ++*p;
    while (*p < *end && isspace((unsigned char)(*end)[-1])) --*end;
}

/* The end of the first operand of a sum. */
static const char *operand_end(const char *p, const char *end)
{
    for (int depth = 0; p < end; p++) {
        if (is_quote(*p)) {
            const size_t n = quoted(p, end);
            if (n == 0) return end;
            p += n - 1;
        } else if (strchr("([{", *p) != NULL) depth++;
        else if (strchr(")]}", *p) != NULL) depth--;
        else if (depth == 0 && (*p == '+' || *p == '~')) return p;
    }
    return end;
}

static void put_sum(source *s, const char *p, const char *end)
{
    for (const char *next;; p = next + 1) {
        const char *a = p, *b = next = operand_end(p, end);
        trim(&a, &b);
        const bool inner = b - a > 2 && memchr(a + 1, '(', (size_t)(b - a - 1)) != NULL;
        if (b - a > 2 && *a == '(' && b[-1] == ')' && !inner) a++, b--;
        s->bad |= a == b;
        if (a < b && is_quote(*a) && quoted(a, b) == (size_t)(b - a)) {
            put_literal(s, a + 1, b - 1);
        } else {
            dt__put_text(s->out, "{{");
            put_code(s, a, b);
            dt__put_text(s->out, "}}");
        }
        if (next == end) return;
    }
}

static void put_block(source *s, const char *p, const char *end)
{
    const char *equals = memchr(p, '=', (size_t)(end - p));
    trim(&p, &end);
    if (end - p > 4 && strncmp(p, "for ", 4) == 0) {
        p += 4;
        sscanf(p, " %39[A-Za-z0-9_]", s->loop);
        dt__put_text(s->out, "{%for ");
        put_code(s, p, end);
    } else if (end - p > 4 && strncmp(p, "set ", 4) == 0 && equals != NULL) {
        dt__put_text(s->out, "{%");
        put_code(s, p, equals + 1);
        put_sum(s, equals + 1, end);
    } else {
        dt__put_text(s->out, "{%");
        put_code(s, p, end);
    }
    dt__put_text(s->out, "%}");
}

/* Text between tags, without the white space that those around it take. `after`: '%' or '-' of the
 * tag before; `tag` is the next one, or the end. */
static void put_raw(source *s, const char *p, const char *tag, char after)
{
    const char *end = tag;
    if (after == '-')
        while (p < end && isspace((unsigned char)*p)) p++;
    else if (after == '%' && p < end && *p == '\n') p++;
    if (*tag != 0 && tag[2] == '-') {
        while (end > p && isspace((unsigned char)end[-1])) end--;
    } else if (*tag != 0 && tag[1] != '{') {
        const char *line = end;
        while (line > p && (line[-1] == ' ' || line[-1] == '\t')) line--;
        if (line == s->begin || line[-1] == '\n') end = line;
    } else if (*tag == 0 && end > p && end[-1] == '\n') end--;
    dt__put(s->out, p, (size_t)(end - p));
}

static const char *next_tag(const char *p)
{
    while (*p != 0 && (*p != '{' || p[1] == 0 || strchr("{%#", p[1]) == NULL)) p++;
    return p;
}

/* The closing braces of a tag, outside of strings; NULL: there are none. */
static const char *tag_end(const char *tag)
{
    const char close[] = { tag[1] == '{' ? '}' : tag[1], '}', 0 };
    const char *const end = tag + strlen(tag);
    for (const char *p = tag + 2; p < end; p++) {
        if (strncmp(p, close, 2) == 0) return p;
        if (tag[1] == '#' || !is_quote(*p)) continue;
        const size_t n = quoted(p, end);
        if (n == 0) return NULL;
        p += n - 1;
    }
    return NULL;
}

/* Appends the normal form; false: something is not read. */
static bool normalize(const char *jinja, dt__chars *out)
{
    source s = { .out = out, .begin = jinja };
    char after = 0;
    for (const char *p = jinja;;) {
        const char *tag = next_tag(p);
        put_raw(&s, p, tag, after);
        if (*tag == 0 || s.bad) return !s.bad;
        const char *end = tag_end(tag);
        if (end == NULL) return false;
        const char *a = tag + 2 + (tag[2] == '-'), *b = end - (end > tag + 2 && end[-1] == '-');
        if (b < a) return false;
        after = end[-1] == '-' ? '-' : tag[1] == '{' ? 0 : '%';
        if (tag[1] == '{') put_sum(&s, a, b);
        if (tag[1] == '%') put_block(&s, a, b);
        p = end + 2;
    }
}

/* ---- forms ---------------------------------------------------------------------------------- */

/* Where a template is compared; at is NULL once it differs. */
typedef struct match {
    const char *at;
    const dt__chat_form *f;
    const char *system, *system_end;
    bool begun;
} match;

static bool has(match *m, const char *part)
{
    const size_t n = part == NULL ? 0 : strlen(part);
    if (m->at == NULL || strncmp(m->at, part == NULL ? "" : part, n) != 0) return false;
    m->at += n;
    return true;
}

static void expect(match *m, const char *part)
{
    if (!has(m, part)) m->at = NULL;
}

/* A token of the tokenizer, such as </s>; or none. */
static void skip_token(match *m)
{
    const size_t n = m->at == NULL || *m->at != '<' ? 0 : strcspn(m->at, " \n{>");
    if (n > 0 && m->at[n] == '>') m->at += n + 1;
}

static void expect_head(match *m, const char *role)
{
    expect(m, m->f->open);
    expect(m, role);
    expect(m, m->f->middle);
    expect(m, m->f->separator);
}

/* The text of a message and what is behind it. Of form plain an answer may have a token there. */
static void expect_text(match *m, bool answer)
{
    expect(m, m->f->trim ? "{{m.content|trim}}" : "{{m.content}}");
    expect(m, m->f->stop);
    if (answer && m->f->stop == NULL) skip_token(m);
    expect(m, m->f->after);
}

static void expect_system(match *m)
{
    expect_head(m, m->f->role[DT_ROLE_SYSTEM]);
    if (m->at == NULL) return;
    const char *stop = m->f->stop != NULL ? m->f->stop : m->f->after;
    m->system = m->at;
    m->at = m->system_end = strstr(m->at, stop);
    if (m->at == NULL || memchr(m->system, '{', (size_t)(m->at - m->system)) != NULL) m->at = NULL;
    expect(m, m->f->stop);
    expect(m, m->f->after);
    expect(m, "{%endif%}");
}

static void expect_message(match *m)
{
    const dt__chat_form *f = m->f;
    if (has(m, "{%if m.role=='system'%}")) {
        expect_head(m, f->role[DT_ROLE_SYSTEM]);
        expect_text(m, false);
        expect(m, "{%elif m.role=='user'%}");
        expect_head(m, f->role[DT_ROLE_USER]);
        expect_text(m, false);
        expect(m, "{%elif m.role=='assistant'%}");
        expect_head(m, f->role[DT_ROLE_ASSISTANT]);
        expect_text(m, true);
        expect(m, "{%endif%}");
        return;
    }
    const bool kept = has(m, "{%set content=");
    expect_head(m, "{{m.role}}");
    expect_text(m, false);
    if (!kept) return;
    expect(m, "%}");
    if (has(m, "{%if loop.index0==0%}{%set content={{bos_token}}{{content}}%}{%endif%}")) {
        m->begun = true;
    }
    expect(m, "{{content}}");
}

static void compare(match *m)
{
    const dt__chat_form *f = m->f;
    has(m, "{%if not add_generation_prompt is defined%}{%set "
           "add_generation_prompt={{false}}%}{%endif%}");
    const bool renamed = has(m, "{%set loop_messages={{messages}}%}");
    if (f->begin != NULL) m->begun = has(m, f->begin) || has(m, "{{bos_token}}");
    else if (f->wrap) skip_token(m);
    if (has(m, "{%if messages[0].role!='system'%}")) expect_system(m);
    expect(m, renamed ? "{%for m in loop_messages%}" : "{%for m in messages%}");
    if (f->begin == NULL && m->system == NULL &&
        has(m, "{%if loop.first and messages[0].role!='system'%}")) {
        expect_system(m);
    }
    expect_message(m);
    expect(m, "{%endfor%}");
    if (has(m, "{%if add_generation_prompt%}")) {
        expect_head(m, f->role[DT_ROLE_ASSISTANT]);
        expect(m, "{%endif%}");
    }
    if (m->at != NULL && (*m->at != 0 || (f->begin != NULL && !m->begun))) m->at = NULL;
}

dt_status dt__chat_is_form(dt_ctx *ctx, const char *jinja, int form, bool *is, char **system)
{
    dt__chars normal = { .ctx = ctx }, text = { .ctx = ctx };
    match m = { .f = &dt__chat_forms[form] };
    const bool good = normalize(jinja, &normal);
    const char *begin = dt__chars_text(&normal);
    m.at = good ? begin : NULL;
    if (m.at != NULL) compare(&m);
    *is = m.at != NULL;
    *system = NULL;
    if (*is && m.system != NULL) {
        const size_t n = (size_t)(m.system_end - m.system);
        dt__chat_trim(m.f, m.system, n, &text);
        *is = text.used == n && n > 0;
        if (dt__chars_text(&text) != NULL) *system = text.bytes;
        else dt__release(ctx, text.bytes);
    }
    dt__release(ctx, normal.bytes);
    return begin == NULL || text.failed ? DT_ERR_NOMEM : DT_OK;
}
