/* Options as JSON, by the tables of keys that also describe recipes. An object must have every key
 * and no others, so that files of other versions cannot be misread. In an item (a layer) a key that
 * has a default may be missing: it was added after the file was written. */
#include "core/block_list.h"
#include "core/text/json.h"
#include "core/text/number.h"

#include <stdio.h>
#include <string.h>

static bool *given_of(const dt_key *key, void *options)
{
    return key->given == 0 ? NULL : (bool *)((char *)options + key->given);
}

/* ---- writing ------------------------------------------------------------------------------ */

static void put_word(dt__chars *t, const char *text)
{
    (t->word == NULL ? dt__put_quoted : t->word)(t, text == NULL ? "" : text);
}

static void put_list(dt__chars *t, const dt_key *key, const char *elements, int64_t count)
{
    dt__put_text(t, "[");
    for (int64_t i = 0; dt__put_each(t, i, count); i++)
        dt__put_options(t, key->keys, elements + (size_t)i * key->size);
    dt__put_text(t, "]");
}

static void put_ints(dt__chars *t, const dt_ints *list)
{
    dt__put_text(t, "[");
    for (int i = 0; dt__put_each(t, i, dt__min_i64(list->n, DT_MAX_LIST)); i++)
        dt__put_integer(t, list->v[i]);
    dt__put_text(t, "]");
}

/* Numbers of a list as JSON. A list of one number is written as the number, as in recipes, unless
 * the key also has choices, which stand for lists: a length -1 - n is choice n. */
static void put_reals(dt__chars *t, const dt_key *key, const dt_reals *list)
{
    const bool is_list = list->n != 1 || key->choices != NULL;
    if (list->n < 0) {
        put_word(t, key->choices == NULL ? "" : key->choices[-1 - list->n]);
        return;
    }
    if (is_list) dt__put_text(t, "[");
    for (int i = 0; dt__put_each(t, i, dt__min_i64(list->n, DT_MAX_REALS)); i++)
        dt__put_real(t, list->v[i]);
    if (is_list) dt__put_text(t, "]");
}

static void put_strings(dt__chars *t, const dt_strings *list)
{
    dt__put_text(t, "[");
    for (int i = 0; dt__put_each(t, i, dt__min_i64(list->n, DT_MAX_LIST)); i++)
        put_word(t, list->v[i]);
    dt__put_text(t, "]");
}

static void put_shapes(dt__chars *t, const dt_shapes *shapes)
{
    if (shapes->n == 1 && shapes->name[0] == NULL) {
        put_ints(t, &shapes->shape[0]);
        return;
    }
    dt__put_text(t, "{");
    for (int i = 0; dt__put_each(t, i, dt__min_i64(shapes->n, DT_MAX_SHAPES)); i++) {
        put_word(t, shapes->name[i]);
        dt__put_text(t, t->word == NULL ? ":" : ": ");
        put_ints(t, &shapes->shape[i]);
    }
    dt__put_text(t, "}");
}

static void put_items(dt__chars *t, const dt_item_list *items)
{
    dt__put_text(t, "[");
    for (int64_t i = 0; dt__put_each(t, i, items->n); i++)
        dt__put_options(t, items->v[i].kind->keys, items->v[i].options);
    dt__put_text(t, "]");
}

static int64_t pair_at(const void *field, int i) { return ((const int64_t *)field)[i]; }

/* An invalid index is written as a string that no reader accepts. */
static void put_choice(dt__chars *t, const char *const *choices, int index)
{
    int n = 0;
    while (choices[n] != NULL) n++;
    put_word(t, index >= 0 && index < n ? choices[index] : "");
}

void dt__put_value(dt__chars *t, const dt_key *key, const void *options)
{
    const char *base = options;
    const void *field = base + key->offset;
    switch (key->type) {
    case DT_KEY_BOOL: dt__put_text(t, *(const bool *)field ? "true" : "false"); break;
    case DT_KEY_INT: dt__put_integer(t, *(const int64_t *)field); break;
    case DT_KEY_REAL: dt__put_real(t, *(const double *)field); break;
    case DT_KEY_STRING:
    case DT_KEY_PATH: put_word(t, *(const char *const *)field); break;
    case DT_KEY_CHOICE: put_choice(t, key->choices, *(const int *)field); break;
    case DT_KEY_INTS: put_ints(t, field); break;
    case DT_KEY_STRINGS: put_strings(t, field); break;
    case DT_KEY_MAP: dt__put_options(t, key->keys, field); break;
    case DT_KEY_LIST:
        put_list(t, key, field, *(const int64_t *)(const void *)(base + key->count));
        break;
    case DT_KEY_SHAPES: put_shapes(t, field); break;
    case DT_KEY_ITEMS: put_items(t, field); break;
    case DT_KEY_REALS: put_reals(t, key, field); break;
    case DT_KEY_PAIR: put_ints(t, &(dt_ints){ 2, { pair_at(field, 0), pair_at(field, 1) } }); break;
    }
}

void dt__put_options(dt__chars *t, const dt_key *keys, const void *options)
{
    const char *base = options;
    bool first = true;
    dt__put_text(t, "{");
    for (const dt_key *key = keys; key->name != NULL; key++) {
        if (key->given != 0 && !*(const bool *)(base + key->given)) continue;
        dt__put_comma(t, &first);
        DT__PUT_ALL(t, DT__QUOTED(key->name), ":");
        dt__put_value(t, key, options);
    }
    dt__put_text(t, "}");
}

/* ---- reading ------------------------------------------------------------------------------ */

static dt_status check_range(const dt__json *j, const dt_key *key, double value)
{
    if (key->least == 0 && key->most == 0) return DT_OK;
    if (value >= key->least && value <= key->most) return DT_OK;
    char least[32], most[32], text[32];
    dt__print_real(key->least, least);
    dt__print_real(key->most, most);
    dt__print_real(value, text);
    return dt__json_fail(j, "'%s' must be from %s to %s, not %s", key->name, least, most, text);
}

static dt_status read_int(dt__json *j, const dt_key *key, void *to)
{
    int64_t *out = to;
    char text[DT__NUMBER_TEXT];
    DT__TRY(dt__json_number(j, text));
    if (dt__parse_int(text, out) != DT__NUMBER) {
        return dt__json_fail(j, "'%s' must be a whole number below 2^63, not %s", key->name, text);
    }
    if (key->multiple > 0 && (*out <= 0 || *out % key->multiple != 0)) {
        return dt__json_fail(j, "'%s' must be a positive multiple of %d, not %s", key->name,
                             key->multiple, text);
    }
    return check_range(j, key, (double)*out);
}

static dt_status read_real(dt__json *j, const dt_key *key, void *to)
{
    double *out = to;
    char text[DT__NUMBER_TEXT];
    DT__TRY(dt__json_number(j, text));
    if (dt__parse_real(text, out) != DT__NUMBER) {
        return dt__json_fail(j, "'%s' must be a number in the range of double, not %s", key->name,
                             text);
    }
    return check_range(j, key, *out);
}

const char *dt__choice_now(const dt_key *key, const char *text)
{
    for (const char *const *c = key->choices_were; c != NULL && *c != NULL; c += 2) {
        if (strcmp(c[0], text) == 0) return c[1];
    }
    return text;
}

static dt_status read_choice(dt__json *j, const dt_key *key, int *out)
{
    const char *text;
    DT__TRY(dt__json_string(j, &text));
    text = dt__choice_now(key, text);
    for (int i = 0; key->choices[i] != NULL; i++) {
        *out = i;
        if (strcmp(key->choices[i], text) == 0) return DT_OK;
    }
    char shown[DT__SHOWN], all[256] = "";
    for (int i = 0; key->choices[i] != NULL; i++) {
        const size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s", i > 0 ? ", " : "", key->choices[i]);
    }
    return dt__json_fail(j, "'%s' must be one of %s, not '%s'", key->name, all,
                         dt__shown(text, shown));
}

static dt_status check_length(const dt__json *j, const dt_key *key, int64_t n, int64_t most)
{
    if (n >= key->fewest && n <= most) return DT_OK;
    return dt__json_fail(j, "'%s' must have %d to %lld elements", key->name, key->fewest,
                         (long long)most);
}

static dt_status read_string(dt__json *j, const dt_key *key, void *out)
{
    (void)key;
    return dt__json_string(j, out);
}

/* A list of at most `most` elements of `size` bytes. */
static dt_status read_each(dt__json *j, const dt_key *key, int *n, int most,
                           dt_status (*read)(dt__json *j, const dt_key *key, void *to), void *to,
                           size_t size)
{
    *n = 0;
    for (bool more = dt__json_open(j, '['); more; more = dt__json_more(j, ']'), ++*n) {
        if (*n == most) return check_length(j, key, most + 1, most);
        DT__TRY(read(j, key, (char *)to + (size_t)*n * size));
    }
    DT__TRY(j->status);
    return check_length(j, key, *n, most);
}

static dt_status read_ints(dt__json *j, const dt_key *key, dt_ints *out)
{
    return read_each(j, key, &out->n, DT_MAX_LIST, read_int, out->v, sizeof out->v[0]);
}

static dt_status read_reals(dt__json *j, const dt_key *key, dt_reals *out)
{
    int choice;
    if (key->choices != NULL && dt__json_peek(j) == '"') {
        DT__TRY(read_choice(j, key, &choice));
        out->n = -1 - choice;
        return DT_OK;
    }
    out->n = 1;
    if (dt__json_peek(j) != '[') return read_real(j, key, &out->v[0]);
    return read_each(j, key, &out->n, DT_MAX_REALS, read_real, out->v, sizeof out->v[0]);
}

static dt_status read_pair(dt__json *j, const dt_key *key, int64_t out[2])
{
    DT__TRY(dt__json_expect(j, '['));
    DT__TRY(read_int(j, key, &out[0]));
    DT__TRY(dt__json_expect(j, ','));
    DT__TRY(read_int(j, key, &out[1]));
    return dt__json_expect(j, ']');
}

static dt_status read_strings(dt__json *j, const dt_key *key, dt_strings *out)
{
    return read_each(j, key, &out->n, DT_MAX_LIST, read_string, out->v, sizeof out->v[0]);
}

static dt_status read_shapes(dt__json *j, const dt_key *key, dt_shapes *out)
{
    *out = (dt_shapes){ .n = 0 };
    if (dt__json_peek(j) == '[') {
        out->n = 1;
        return read_ints(j, key, &out->shape[0]);
    }
    out->n = 0;
    for (bool more = dt__json_open(j, '{'); more; more = dt__json_more(j, '}'), out->n++) {
        if (out->n == DT_MAX_SHAPES) {
            return dt__json_fail(j, "'%s' has more than %d shapes", key->name, DT_MAX_SHAPES);
        }
        DT__TRY(dt__json_key(j, &out->name[out->n]));
        DT__TRY(read_ints(j, key, &out->shape[out->n]));
    }
    return j->status;
}

/* ---- items ---------------------------------------------------------------------------------- */

#define MOST_ITEMS 65536
#define MOST_DEPTH 16

typedef struct read_so_far {
    struct read_so_far *before;
    dt_list_item item;
} read_so_far;

static dt_status read_fields(dt__json *j, const dt_key *keys, void *options, uint64_t *seen);

/* The kind named by the first key of the next object. */
static dt_status find_kind(dt__json *j, const dt_key *key, const dt_item_kind **out)
{
    dt__json ahead = *j; /* a copy reads the name; *j stays where it is */
    const char *name;
    char shown[DT__SHOWN];
    DT__TRY(dt__json_expect(&ahead, '{'));
    DT__TRY(dt__json_key(&ahead, &name));
    *out = dt__item_kind_named(j->ctx, key, name);
    if (*out != NULL) return DT_OK;
    return dt__json_fail(j, "'%s': there is no kind '%s'", key->name, dt__shown(name, shown));
}

static dt_status read_item(dt__json *j, const dt_key *key, dt_list_item *out)
{
    uint64_t seen = 0;
    DT__TRY(find_kind(j, key, &out->kind));
    const dt_key *keys = out->kind->keys;
    out->options = dt__block_list_add(j->ctx, j->blocks, out->kind->size);
    if (out->options == NULL) return DT_ERR_NOMEM;
    DT__TRY(dt__default_options(j->ctx, keys, out->options, out->kind->size));
    DT__TRY(read_fields(j, keys, out->options, &seen));
    for (int i = 0; keys[i].name != NULL; i++) {
        const bool required = keys[i].fallback != NULL && strcmp(keys[i].fallback, "!") == 0;
        if ((seen & (uint64_t)1 << i) != 0 || !required) continue;
        return dt__json_fail(j, "'%s' of a %s is missing", keys[i].name, out->kind->name);
    }
    return DT_OK;
}

static dt_status read_items(dt__json *j, const dt_key *key, dt_item_list *out)
{
    read_so_far *last = NULL;
    *out = (dt_item_list){ .n = 0 };
    if (j->blocks == NULL || ++j->depth > MOST_DEPTH) {
        return dt__json_fail(j, "'%s' is nested more than %d deep", key->name, MOST_DEPTH);
    }
    for (bool more = dt__json_open(j, '['); more; more = dt__json_more(j, ']'), out->n++) {
        if (out->n == MOST_ITEMS) {
            return dt__json_fail(j, "'%s' has more than %d items", key->name, MOST_ITEMS);
        }
        read_so_far *one = dt__block_list_add(j->ctx, j->blocks, sizeof *one);
        if (one == NULL) return DT_ERR_NOMEM;
        one->before = last;
        last = one;
        DT__TRY(read_item(j, key, &one->item));
    }
    DT__TRY(j->status);
    DT__TRY(check_length(j, key, out->n, MOST_ITEMS));
    out->v = dt__block_list_add(j->ctx, j->blocks, (size_t)out->n * sizeof *out->v);
    if (out->v == NULL) return DT_ERR_NOMEM;
    for (int64_t i = out->n; i > 0; i--, last = last->before) out->v[i - 1] = last->item;
    j->depth--;
    return DT_OK;
}

static dt_status read_list(dt__json *j, const dt_key *key, char *options)
{
    int64_t *n = (int64_t *)(void *)(options + key->count);
    const int64_t most = (int64_t)key->most;
    *n = 0;
    for (bool more = dt__json_open(j, '['); more; more = dt__json_more(j, ']'), ++*n) {
        if (*n == most) return check_length(j, key, most + 1, most);
        DT__TRY(dt__json_options(j, key->keys, options + key->offset + (size_t)*n * key->size));
    }
    DT__TRY(j->status);
    return check_length(j, key, *n, most);
}

dt_status dt__json_value(dt__json *j, const dt_key *key, void *options)
{
    void *field = (char *)options + key->offset;
    switch (key->type) {
    case DT_KEY_BOOL: return dt__json_bool(j, field);
    case DT_KEY_INT: return read_int(j, key, field);
    case DT_KEY_REAL: return read_real(j, key, field);
    case DT_KEY_STRING:
    case DT_KEY_PATH: return dt__json_string(j, field);
    case DT_KEY_CHOICE: return read_choice(j, key, field);
    case DT_KEY_INTS: return read_ints(j, key, field);
    case DT_KEY_STRINGS: return read_strings(j, key, field);
    case DT_KEY_MAP: return dt__json_options(j, key->keys, field);
    case DT_KEY_LIST: return read_list(j, key, options);
    case DT_KEY_REALS: return read_reals(j, key, field);
    case DT_KEY_PAIR: return read_pair(j, key, field);
    case DT_KEY_SHAPES: return read_shapes(j, key, field);
    case DT_KEY_ITEMS: return read_items(j, key, field);
    }
    return dt__json_fail(j, "'%s' is of no known type", key->name);
}

static dt_status read_field(dt__json *j, const dt_key *keys, void *options, uint64_t *seen)
{
    const char *name;
    char text[DT__SHOWN];
    DT__TRY(dt__json_string(j, &name));
    for (int i = 0; keys[i].name != NULL; i++) {
        const dt_key *key = &keys[i];
        if (strcmp(key->name, name) != 0 && (key->was == NULL || strcmp(key->was, name) != 0)) {
            continue;
        }
        if ((*seen & (uint64_t)1 << i) != 0)
            return dt__json_fail(j, "'%s' occurs twice", key->name);
        *seen |= (uint64_t)1 << i;
        if (given_of(key, options) != NULL) *given_of(key, options) = true;
        DT__TRY(dt__json_expect(j, ':'));
        return dt__json_value(j, key, options);
    }
    return dt__json_fail(j, "unknown key '%s'", dt__shown(name, text));
}

static dt_status read_fields(dt__json *j, const dt_key *keys, void *options, uint64_t *seen)
{
    for (bool more = dt__json_open(j, '{'); more; more = dt__json_more(j, '}')) {
        DT__TRY(read_field(j, keys, options, seen));
    }
    return j->status;
}

dt_status dt__json_given_options(dt__json *j, const dt_key *keys, void *options)
{
    uint64_t seen = 0;
    return read_fields(j, keys, options, &seen);
}

dt_status dt__json_options(dt__json *j, const dt_key *keys, void *options)
{
    uint64_t seen = 0;
    DT__TRY(read_fields(j, keys, options, &seen));
    for (int i = 0; keys[i].name != NULL; i++) {
        if ((seen & (uint64_t)1 << i) != 0 || keys[i].given != 0) continue;
        return dt__json_fail(j, "'%s' is missing", keys[i].name);
    }
    return DT_OK;
}

/* ---- defaults ------------------------------------------------------------------------------- */

/* The default as JSON: words are quoted, and a single number of a PAIR or of a list becomes a
 * list. */
static const char *json_of(dt__chars *t, const dt_key *key)
{
    const char *text = key->fallback;
    const bool is_list = text[0] == '[' || text[0] == '{';
    switch (key->type) {
    case DT_KEY_STRING:
    case DT_KEY_PATH:
    case DT_KEY_CHOICE: dt__put_quoted(t, text); break;
    case DT_KEY_REALS:
        if (key->choices != NULL && !is_list) dt__put_quoted(t, text);
        else dt__put_text(t, text);
        break;
    case DT_KEY_PAIR:
        if (!is_list) dt__put_text(t, "[");
        dt__put_text(t, text);
        if (!is_list) dt__put_text(t, ",");
        if (!is_list) dt__put_text(t, text);
        if (!is_list) dt__put_text(t, "]");
        break;
    default: dt__put_text(t, text); break;
    }
    return dt__chars_text(t);
}

static dt_status set_default(dt_ctx *ctx, const dt_key *key, void *options)
{
    dt__chars t = { .ctx = ctx };
    const char *text = json_of(&t, key);
    dt_status s = text == NULL ? DT_ERR_NOMEM : DT_OK;
    if (s == DT_OK && (key->type == DT_KEY_STRING || key->type == DT_KEY_PATH)) {
        *(const char **)(void *)((char *)options + key->offset) = key->fallback;
    } else if (s == DT_OK) {
        char *strings = dt__alloc(ctx, strlen(text) + 1);
        dt__json j = { .ctx = ctx, .path = "defaults", .what = key->name, .strings = strings };
        j.begin = j.at = (const unsigned char *)text;
        j.end = j.begin + strlen(text);
        s = strings == NULL ? DT_ERR_NOMEM : dt__json_value(&j, key, options);
        dt__release(ctx, strings);
    }
    dt__release(ctx, t.bytes);
    return s;
}

/* Maps that may be absent also get the defaults of their keys, which hold if a map is given. */
static dt_status set_defaults(dt_ctx *ctx, const dt_key *keys, void *options)
{
    for (const dt_key *key = keys; key->name != NULL; key++) {
        if (key->type == DT_KEY_MAP) {
            DT__TRY(set_defaults(ctx, key->keys, (char *)options + key->offset));
        } else if (key->fallback != NULL && strcmp(key->fallback, "!") != 0) {
            DT__TRY(set_default(ctx, key, options));
        }
    }
    return DT_OK;
}

dt_status dt__default_options(dt_ctx *ctx, const dt_key *keys, void *options, size_t size)
{
    memset(options, 0, size);
    return set_defaults(ctx, keys, options);
}
