/* The forms of chats (chats.c) as templates in Jinja, which other programs run:
 *
 *     begin {% for m in messages %} a message by its role {% endfor %}
 *     {% if add_generation_prompt %} the head of an assistant's message {% endif %}
 *
 * Where the first message is not the system's, that of `system` is before it. */
#include "data/text/chats.h"

#include <detent/experimental/text.h>
#include <string.h>

/* Writes a Jinja string, in quotes. */
static void put_string(dt__chars *t, const char *text)
{
    dt__put_text(t, "'");
    for (const char *p = text; *p != 0; p++) {
        if (*p == '\n') dt__put_text(t, "\\n");
        else if (*p == '\'' || *p == '\\') DT__PUT_ALL(t, "\\"), dt__put(t, p, 1);
        else dt__put(t, p, 1);
    }
    dt__put_text(t, "'");
}

static void add(dt__chars *t, const char *text) { dt__put_text(t, text == NULL ? "" : text); }

static void add_head(dt__chars *t, const dt__chat_form *f, int role)
{
    add(t, f->open);
    add(t, f->role[role]);
    add(t, f->middle);
    add(t, f->separator);
}

/* `end`: follows an answer in a form whose messages have no stop token. */
static void add_stop(dt__chars *t, const dt__chat_form *f, int role, const char *end)
{
    add(t, f->stop);
    if (f->stop == NULL && role == DT_ROLE_ASSISTANT) add(t, end);
    add(t, f->after);
}

/* {{ 'head' + text + 'stop' }} */
static void put_message(dt__chars *t, const dt_chat *chat, int role, const char *text,
                        const char *end)
{
    const dt__chat_form *f = &dt__chat_forms[chat->form];
    dt__chars part[2] = { { .ctx = t->ctx }, { .ctx = t->ctx } };
    add_head(&part[0], f, role);
    add_stop(&part[1], f, role, end);
    const char *head = dt__chars_text(&part[0]), *stop = dt__chars_text(&part[1]);
    t->failed |= head == NULL || stop == NULL;
    if (!t->failed) {
        dt__put_text(t, "{{ ");
        put_string(t, head);
        DT__PUT_ALL(t, " + ", text, " + ");
        put_string(t, stop);
        dt__put_text(t, " }}");
    }
    for (int i = 0; i < 2; i++) dt__release(t->ctx, part[i].bytes);
}

static void put_system(dt__chars *t, const dt_chat *chat)
{
    const dt__chat_form *f = &dt__chat_forms[chat->form];
    dt__chars text = { .ctx = t->ctx };
    if (chat->system == NULL) return;
    add_head(&text, f, DT_ROLE_SYSTEM);
    dt__chat_trim(f, chat->system, strlen(chat->system), &text);
    add_stop(&text, f, DT_ROLE_SYSTEM, NULL);
    t->failed |= dt__chars_text(&text) == NULL;
    if (!t->failed) {
        dt__put_text(t, "{% if messages[0]['role'] != 'system' %}{{ ");
        put_string(t, text.bytes);
        dt__put_text(t, " }}{% endif %}");
    }
    dt__release(t->ctx, text.bytes);
}

void dt__chat_put_jinja(dt__chars *t, const dt_chat *chat, const dt__chat_ends *ends)
{
    static const char *const roles[] = { "system", "user", "assistant" };
    const dt__chat_form *f = &dt__chat_forms[chat->form];
    dt__chars head = { .ctx = t->ctx };
    add(t, f->wrap ? ends->begin : f->begin);
    put_system(t, chat);
    dt__put_text(t, "{% for message in messages %}");
    for (int i = 0; i < DT__COUNT_OF(roles); i++) {
        DT__PUT_ALL(t, i == 0 ? "{% if" : "{% elif", " message['role'] == '", roles[i], "' %}");
        put_message(t, chat, i, f->trim ? "(message['content'] | trim)" : "message['content']",
                    ends->end);
    }
    dt__put_text(t, "{% endif %}{% endfor %}{% if add_generation_prompt %}{{ ");
    add_head(&head, f, DT_ROLE_ASSISTANT);
    t->failed |= dt__chars_text(&head) == NULL;
    if (!t->failed) put_string(t, head.bytes);
    dt__put_text(t, " }}{% endif %}");
    dt__release(t->ctx, head.bytes);
}
