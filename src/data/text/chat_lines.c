/* Reads a chat from a line of JSON. Of these forms, each with an optional "system":
 *
 *     {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", ...}, ...]}
 *     {"conversations": [{"from": "human", "value": "..."}, {"from": "gpt", ...}, ...]}
 *     {"instruction": "...", "input": "...", "output": "..."}
 *
 * An instruction and an input that is not empty are one message of the user, with a line break
 * between them. A message of the system is the first; the last is of the assistant. */
#include "data/text/chats.h"

#include <string.h>

/* A form of messages in a list. */
typedef struct list_form {
    const char *role, *text; /* fields of a message */
    struct {
        const char *name;
        int role;
    } names[6];
    const char *expected;
} list_form;

static const list_form messages = {
    "role",
    "content",
    { { "system", DT_ROLE_SYSTEM },
      { "developer", DT_ROLE_SYSTEM },
      { "user", DT_ROLE_USER },
      { "assistant", DT_ROLE_ASSISTANT } },
    "system, user or assistant",
};

static const list_form conversations = {
    "from",
    "value",
    { { "system", DT_ROLE_SYSTEM },
      { "human", DT_ROLE_USER },
      { "user", DT_ROLE_USER },
      { "gpt", DT_ROLE_ASSISTANT },
      { "assistant", DT_ROLE_ASSISTANT } },
    "system, human or gpt",
};

/* A line of the file. */
typedef struct reading {
    dt__documents *c;
    dt__json *j;
    int64_t first, number; /* index in c of its first message; index of the current one, from 1 */
} reading;

static dt_status add_turn(reading *r, int role, const dt__run_of_text *text, bool learned)
{
    dt__documents *c = r->c;
    const size_t begin = c->text.used;
    if (role == DT_ROLE_SYSTEM && c->n_turns > r->first) {
        return dt__json_fail(r->j, "message %lld is of the system; expected it first, and once",
                             (long long)r->number);
    }
    if (role == DT_ROLE_ASSISTANT && text->n == 0) {
        return dt__json_fail(r->j, "message %lld, of the assistant, is empty; expected a text",
                             (long long)r->number);
    }
    dt__put(&c->text, text->bytes, text->n);
    if (c->text.failed) return DT_ERR_NOMEM;
    DT__TRY(DT__RESERVE(c->ctx, c->turn, c->n_turns, c->room_of_turns));
    c->turn[c->n_turns++] = (dt__turn){ role, learned, begin, c->text.used };
    return DT_OK;
}

/* Reads the string at `at`. */
static dt_status read_text(const reading *r, const unsigned char *at, const char *name,
                           dt__run_of_text *out)
{
    dt__json *j = r->j;
    j->at = at;
    if (dt__json_peek(j) == '"') return dt__json_bytes(j, &out->bytes, &out->n);
    if (r->number == 0) return dt__json_fail(j, "\"%s\" must be a string", name);
    return dt__json_fail(j, "\"%s\" of message %lld must be a string", name, (long long)r->number);
}

/* Whether the value at `at` is empty: null, "", [] or {}. */
static bool is_nothing(dt__json *j, const unsigned char *at)
{
    if (at == NULL) return true;
    j->at = at;
    if (dt__json_null(j)) return true;
    const char open = dt__json_peek(j);
    if (open == '"') return j->at + 1 < j->end && j->at[1] == '"';
    if (open != '[' && open != '{') return false;
    j->at++;
    return dt__json_peek(j) == (open == '[' ? ']' : '}');
}

static const char tools[] = "calls of tools cannot be learned; expected texts alone",
                  thoughts[] = "thoughts are in no form of chats; expected texts alone",
                  turns[] = "earlier turns are read as messages alone";

/* Refuses a field that would otherwise be ignored silently. */
static dt_status refuse(const reading *r, const unsigned char *at, const char *name,
                        const char *why)
{
    return is_nothing(r->j, at) ? DT_OK : dt__json_fail(r->j, "\"%s\": %s", name, why);
}

enum {
    ROLE,
    TEXT,
    WEIGHT,
    CALLS,
    CALL,
    REASONING,
    THINKING,
    TRAIN,
    TRAINING,
    LOSS,
    DETAIL,
    FIELDS
};

/* A field that is not read, with a value: said once. */
static dt_status skip_field(const reading *r, const char *name)
{
    char shown[DT__SHOWN];
    const unsigned char *const at = r->j->at;
    if (!is_nothing(r->j, at)) {
        dt__say_once(r->c->ctx, "%s: '%s' of messages is not read", r->j->path,
                     dt__shown(name, shown));
    }
    r->j->at = at;
    return dt__json_skip(r->j);
}

static dt_status find_fields(const reading *r, const list_form *f, const unsigned char **at)
{
    const char *const names[] = { f->role,      f->text,         "weight",
                                  "tool_calls", "function_call", "reasoning_content",
                                  "thinking",   "train",         "training",
                                  "loss",       "train_detail" };
    dt__json *j = r->j;
    for (int i = 0; i < FIELDS; i++) at[i] = NULL;
    if (dt__json_peek(j) != '{') {
        return dt__json_fail(j, "message %lld must be an object with \"%s\" and \"%s\"",
                             (long long)r->number, f->role, f->text);
    }
    for (bool more = dt__json_open(j, '{'); more; more = dt__json_more(j, '}')) {
        const char *name;
        char *const strings = j->strings;
        DT__TRY(dt__json_key(j, &name));
        j->strings = strings;
        int i = 0;
        while (i < FIELDS && strcmp(name, names[i]) != 0) i++;
        if (i < FIELDS && at[i] != NULL) {
            return dt__json_fail(j, "\"%s\" occurs twice", names[i]);
        }
        if (i < FIELDS) at[i] = j->at;
        DT__TRY(i < FIELDS ? dt__json_skip(j) : skip_field(r, name));
    }
    return j->status;
}

/* Fields by which other programs say which messages are learned. */
static dt_status refuse_masks(const reading *r, const unsigned char *const *at)
{
    static const char *const names[] = { "train", "training", "loss", "train_detail" };
    for (int i = 0; i < DT__COUNT_OF(names); i++) {
        bool learned = false;
        const unsigned char *const value = at[TRAIN + i];
        if (is_nothing(r->j, value)) continue;
        r->j->at = value;
        const bool flag = dt__json_peek(r->j) == 't' || dt__json_peek(r->j) == 'f';
        if (flag) DT__TRY(dt__json_bool(r->j, &learned));
        if (learned) continue;
        return dt__json_fail(r->j,
                             "\"%s\" of message %lld is not read; \"weight\": 0 says that a "
                             "message is not learned",
                             names[i], (long long)r->number);
    }
    return DT_OK;
}

static dt_status read_role(const reading *r, const list_form *f, const unsigned char *at, int *role)
{
    dt__run_of_text name;
    char shown[DT__SHOWN];
    DT__TRY(read_text(r, at, f->role, &name));
    for (int i = 0; i < DT__COUNT_OF(f->names) && f->names[i].name != NULL; i++) {
        *role = f->names[i].role;
        if (strcmp(name.bytes, f->names[i].name) == 0) return DT_OK;
    }
    return dt__json_fail(r->j, "\"%s\" of message %lld is '%s'; expected %s", f->role,
                         (long long)r->number, dt__shown(name.bytes, shown), f->expected);
}

/* Reads OpenAI's "weight" of an answer: 0 excludes it from training. */
static dt_status read_weight(const reading *r, const unsigned char *at, bool *learned)
{
    int64_t weight = 1;
    if (at == NULL) return DT_OK;
    r->j->at = at;
    if (dt__json_null(r->j)) return DT_OK;
    if (dt__json_integer(r->j, &weight) != DT_OK || weight > 1) {
        return dt__json_fail(r->j, "\"weight\" of message %lld must be 0 or 1",
                             (long long)r->number);
    }
    *learned = weight == 1;
    return DT_OK;
}

static dt_status read_message(reading *r, const list_form *f)
{
    const unsigned char *at[FIELDS];
    dt__run_of_text text;
    dt__json *j = r->j;
    int role = 0;
    bool learned = true;
    DT__TRY(find_fields(r, f, at));
    const unsigned char *const after = j->at;
    if (at[ROLE] == NULL || at[TEXT] == NULL) {
        return dt__json_fail(j, "message %lld must have \"%s\" and \"%s\"", (long long)r->number,
                             f->role, f->text);
    }
    DT__TRY(read_role(r, f, at[ROLE], &role));
    DT__TRY(refuse(r, at[CALLS], "tool_calls", tools));
    DT__TRY(refuse(r, at[CALL], "function_call", tools));
    DT__TRY(refuse(r, at[REASONING], "reasoning_content", thoughts));
    DT__TRY(refuse(r, at[THINKING], "thinking", thoughts));
    DT__TRY(refuse_masks(r, at));
    DT__TRY(read_text(r, at[TEXT], f->text, &text));
    DT__TRY(read_weight(r, at[WEIGHT], &learned));
    DT__TRY(add_turn(r, role, &text, learned && role == DT_ROLE_ASSISTANT));
    j->at = after;
    return DT_OK;
}

static dt_status read_list(reading *r, const list_form *f, const unsigned char *at)
{
    dt__json *j = r->j;
    j->at = at;
    if (dt__json_peek(j) != '[') {
        return dt__json_fail(j, "\"%s\" must be a list of objects with \"%s\" and \"%s\"",
                             f == &messages ? "messages" : "conversations", f->role, f->text);
    }
    for (bool more = dt__json_open(j, '['); more; more = dt__json_more(j, ']')) {
        r->number++;
        DT__TRY(read_message(r, f));
    }
    return j->status;
}

/* Reads an instruction and its input. */
static dt_status read_instruction(reading *r, const unsigned char *const *at)
{
    dt__run_of_text asked, about = { "", 0 }, answer;
    const unsigned char *const input = at[DT__LINE_INPUT];
    DT__TRY(read_text(r, at[DT__LINE_INSTRUCTION], "instruction", &asked));
    if (!is_nothing(r->j, input)) DT__TRY(read_text(r, input, "input", &about));
    DT__TRY(read_text(r, at[DT__LINE_OUTPUT], "output", &answer));
    r->number = 1;
    DT__TRY(add_turn(r, DT_ROLE_USER, &asked, false));
    dt__chars *text = &r->c->text;
    if (about.n > 0) dt__put(text, "\n", 1);
    dt__put(text, about.bytes, about.n);
    r->c->turn[r->c->n_turns - 1].end = text->used;
    r->number = 2;
    return add_turn(r, DT_ROLE_ASSISTANT, &answer, true);
}

/* Checks the messages of a line: one must precede the first answer, and one answer must be
 * trained. */
static dt_status check(const reading *r)
{
    const dt__turn *turn = r->c->turn + r->first;
    const int64_t n = r->c->n_turns - r->first;
    bool learned = false;
    for (int64_t i = 0; i < n; i++) learned |= turn[i].learned;
    if (n == 0) return dt__json_fail(r->j, "no messages; expected a user's and the assistant's");
    if (turn[0].role == DT_ROLE_ASSISTANT) {
        return dt__json_fail(r->j, "the first message is of the assistant; expected the system's "
                                   "or a user's");
    }
    if (turn[n - 1].role != DT_ROLE_ASSISTANT) {
        return dt__json_fail(r->j, "the last message must be of the assistant, whose texts are "
                                   "learned");
    }
    if (learned) return DT_OK;
    return dt__json_fail(r->j, "every message of the assistant has weight 0; expected one that is "
                               "learned");
}

dt_status dt__documents_add_chat(dt__documents *c, dt__json *j, const unsigned char *const *at)
{
    reading r = { .c = c, .j = j, .first = c->n_turns };
    const bool listed = at[DT__LINE_MESSAGES] != NULL;
    dt__run_of_text system;
    if (listed && at[DT__LINE_CONVERSATIONS] != NULL) {
        return dt__json_fail(j, "\"messages\" and \"conversations\"; expected one of them");
    }
    DT__TRY(refuse(&r, at[DT__LINE_TOOLS], "tools", tools));
    DT__TRY(refuse(&r, at[DT__LINE_FUNCTIONS], "functions", tools));
    DT__TRY(refuse(&r, at[DT__LINE_HISTORY], "history", turns));
    if (!is_nothing(j, at[DT__LINE_SYSTEM])) {
        DT__TRY(read_text(&r, at[DT__LINE_SYSTEM], "system", &system));
        DT__TRY(add_turn(&r, DT_ROLE_SYSTEM, &system, false));
    }
    if (listed) DT__TRY(read_list(&r, &messages, at[DT__LINE_MESSAGES]));
    else if (at[DT__LINE_CONVERSATIONS] != NULL)
        DT__TRY(read_list(&r, &conversations, at[DT__LINE_CONVERSATIONS]));
    else DT__TRY(read_instruction(&r, at));
    return check(&r);
}
