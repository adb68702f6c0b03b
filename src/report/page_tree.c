/* JSON as a tree: a recursive descent parser over the scanner of core/text/json.h. */
#include "report/page_tree.h"

#include "core/block_list.h"
#include "core/text/json.h"
#include "core/text/number.h"

#include <math.h>
#include <string.h>

#define NODES 512 /* nodes of a memory block */

typedef struct reading {
    dt__tree *tree;
    dt__json json;
    int depth;
} reading;

static dt__branch *new_node(dt__tree *t)
{
    if (t->n_free == 0) {
        t->free = dt__block_list_add(t->ctx, &t->blocks, NODES * sizeof *t->free);
        if (t->free == NULL) return NULL;
        t->n_free = NODES;
    }
    t->n_free--;
    return t->free++;
}

static dt_status read_value(reading *r, dt__branch **out);

/* Reads the children of a list or map; the scanner is before its bracket. */
static dt_status read_children(reading *r, dt__branch *v, char open, char close)
{
    dt__branch **link = &v->first;
    if (++r->depth > DT__JSON_DEPTH) return dt__json_fail(&r->json, "nested too deep");
    for (bool more = dt__json_open(&r->json, open); more; more = dt__json_more(&r->json, close)) {
        const char *name = "";
        if (open == '{') DT__TRY(dt__json_key(&r->json, &name));
        DT__TRY(read_value(r, link));
        (*link)->name = name;
        link = &(*link)->next;
        v->n++;
    }
    DT__TRY(r->json.status);
    r->depth--;
    return DT_OK;
}

static dt_status read_number(reading *r, dt__branch *v)
{
    char text[DT__NUMBER_TEXT];
    v->type = DT__BRANCH_NUMBER;
    DT__TRY(dt__json_number(&r->json, text));
    if (dt__parse_real(text, &v->number) == DT__NUMBER) return DT_OK;
    v->number = (double)NAN;
    return DT_OK;
}

static dt_status read_value(reading *r, dt__branch **out)
{
    bool truth = false;
    dt__json *j = &r->json;
    dt__branch *v = *out = new_node(r->tree);
    if (v == NULL) return DT_ERR_NOMEM;
    if (dt__json_null(j)) return DT_OK;
    switch (dt__json_peek(j)) {
    case '{': v->type = DT__BRANCH_MAP; return read_children(r, v, '{', '}');
    case '[': v->type = DT__BRANCH_LIST; return read_children(r, v, '[', ']');
    case '"': v->type = DT__BRANCH_TEXT; return dt__json_string(j, &v->text);
    case 't':
    case 'f':
        v->type = DT__BRANCH_BOOL;
        DT__TRY(dt__json_bool(j, &truth));
        v->number = truth;
        return DT_OK;
    default: return read_number(r, v);
    }
}

dt_status dt__tree_read(dt_ctx *ctx, const char *path, const char *text, size_t bytes,
                        dt__tree *out)
{
    *out = (dt__tree){ .ctx = ctx };
    char *strings = dt__block_list_add(ctx, &out->blocks, bytes + 1);
    if (strings == NULL) return DT_ERR_NOMEM;
    const unsigned char *begin = (const unsigned char *)text;
    reading r = { .tree = out,
                  .json = { .ctx = ctx,
                            .path = path,
                            .what = "the file",
                            .begin = begin,
                            .at = begin,
                            .end = begin + bytes,
                            .strings = strings } };
    dt_status s = read_value(&r, &out->root);
    if (s == DT_OK) s = dt__json_end(&r.json);
    if (s != DT_OK) dt__tree_free(out);
    return s;
}

void dt__tree_free(dt__tree *t)
{
    if (t->ctx != NULL) dt__block_list_free(t->ctx, &t->blocks);
    *t = (dt__tree){ .ctx = t->ctx };
}

const dt__branch *dt__children(const dt__branch *v) { return v == NULL ? NULL : v->first; }

const dt__branch *dt__field(const dt__branch *map, const char *name)
{
    if (map == NULL || map->type != DT__BRANCH_MAP) return NULL;
    for (const dt__branch *v = map->first; v != NULL; v = v->next) {
        if (strcmp(v->name, name) == 0) return v;
    }
    return NULL;
}

double dt__number_of(const dt__branch *v)
{
    const bool number = v != NULL && (v->type == DT__BRANCH_NUMBER || v->type == DT__BRANCH_BOOL);
    return number ? v->number : (double)NAN;
}

double dt__field_number(const dt__branch *map, const char *name)
{
    return dt__number_of(dt__field(map, name));
}

int64_t dt__field_whole(const dt__branch *map, const char *name)
{
    return dt__whole(dt__field_number(map, name));
}

const char *dt__field_text(const dt__branch *map, const char *name)
{
    const dt__branch *v = dt__field(map, name);
    return v != NULL && v->type == DT__BRANCH_TEXT ? v->text : "";
}

int64_t dt__whole(double number)
{
    return isnan(number) ? 0 : (int64_t)fmin(fmax(number, -9e15), 9e15);
}
