/* Chats in lines of JSON: forms against text in which all added tokens are searched, as templates
 * write it; which tokens are trained on; templates that are recognized; lines that are refused. */
#include "core/text/json.h"
#include "data/text/chats.h"
#include "io/hf/hf.h"
#include "sample.h"

#include <detent/io.h>
#include <detent/text.h>
#include <stdio.h>
#include <stdlib.h>

#define NONE (-100)
#define CHATML                                                                                     \
    "{\"id\":512,\"content\":\"<|im_start|>\",\"special\":true},"                                  \
    "{\"id\":513,\"content\":\"<|im_end|>\",\"special\":true},"
#define LLAMA3                                                                                     \
    "{\"id\":512,\"content\":\"<|start_header_id|>\",\"special\":true},"                           \
    "{\"id\":513,\"content\":\"<|end_header_id|>\",\"special\":true},"                             \
    "{\"id\":514,\"content\":\"<|eot_id|>\",\"special\":true},"                                    \
    "{\"id\":515,\"content\":\"<|begin_of_text|>\",\"special\":true},"

static const char *const tokens_of[] = { [DT_CHAT_CHATML] = CHATML, [DT_CHAT_LLAMA3] = LLAMA3 };

/* A folder with a tokenizer.json of GPT-2's kind that has some more added tokens. */
static bool put_tokenizer(char folder[TEST_PATH], char path[TEST_PATH], const char *added)
{
    char from[TEST_PATH];
    size_t n;
    if (!test_golden(from, "tokenizer/gpt2-512")) return false;
    test_join(from, from, "tokenizer.json");
    char *text = test_read_file(from, &n);
    text = realloc(text, n + 1);
    text[n] = 0;
    char *place = strstr(text, "\"added_tokens\":[");
    ck_assert_ptr_nonnull(place);
    place += strlen("\"added_tokens\":[");
    char *all = malloc(n + strlen(added) + 1);
    sprintf(all, "%.*s%s%s", (int)(place - text), text, added, place);
    test_folder(folder);
    test_join(path, folder, "tokenizer.json");
    test_write_text(path, all);
    free(all);
    free(text);
    return true;
}

static void put(const char *folder, const char *name, const char *text)
{
    char path[TEST_PATH];
    test_join(path, folder, name);
    test_write_text(path, text);
}

static dt_data_options options_of(const char *folder, const char *tokenizer, int chat)
{
    dt_data_options o = dt_data_defaults();
    o.format = DT_DATA_JSONL;
    o.dir = folder;
    o.tokenizer = tokenizer;
    o.context = 1000;
    o.chat = chat;
    o.train = (dt_strings){ 1, { "chats.jsonl" } };
    return o;
}

static void open_chats(dt_ctx *ctx, const dt_data_options *o, dt_dataset **train)
{
    dt_dataset *validation, *test;
    TEST_OK(ctx, dt_data_open(ctx, o, train, &validation, &test));
    ck_assert(validation == NULL && test == NULL);
}

/* ---- chats that are drawn ------------------------------------------------------------------- */

enum { MOST_TURNS = 6, MOST_TEXT = 200 };

typedef struct chat {
    int n;
    int role[MOST_TURNS];
    char text[MOST_TURNS][MOST_TEXT];
} chat;

/* A text that begins with no white space, since an answer is encoded by itself. */
static void draw_text(char *out)
{
    static const char *const words[] = {
        "king",      " the", "\n", "\xc3\xa4",        " 12", "!?", "<", "\t", "<|im_end",
        " <|eot_id", "\"",   "\\", "\xf0\x9f\x98\x80"
    };
    const int n = 1 + rand() % 8;
    strcpy(out, "x");
    for (int i = 0; i < n; i++) strcat(out, words[rand() % (int)(sizeof words / sizeof *words)]);
    strcat(out, "y");
}

static void draw_chat(chat *c)
{
    c->n = 0;
    if (rand() % 2 == 0) c->role[c->n++] = DT_ROLE_SYSTEM;
    for (int pair = 0; pair <= rand() % 2; pair++) {
        c->role[c->n++] = DT_ROLE_USER;
        c->role[c->n++] = DT_ROLE_ASSISTANT;
    }
    for (int i = 0; i < c->n; i++) draw_text(c->text[i]);
}

static void quote(const char *text, char *out)
{
    dt_ctx *ctx = sample_context(1);
    dt__chars t = { .ctx = ctx };
    dt__put_quoted(&t, text);
    strcat(out, dt__chars_text(&t));
    dt__release(ctx, t.bytes);
    dt_ctx_free(ctx);
}

static void put_line(const chat *c, char *out)
{
    static const char *const roles[] = { "system", "user", "assistant" };
    strcat(out, "{\"messages\": [");
    for (int i = 0; i < c->n; i++) {
        const bool text_first = i % 2 == 0;
        strcat(out, i > 0 ? ", {" : "{");
        if (!text_first) sprintf(out + strlen(out), "\"role\": \"%s\", ", roles[c->role[i]]);
        strcat(out, "\"content\": ");
        quote(c->text[i], out);
        if (text_first) sprintf(out + strlen(out), ", \"role\": \"%s\"", roles[c->role[i]]);
        strcat(out, "}");
    }
    strcat(out, "], \"tools\": null}\n");
}

/* The text that the template of a model writes, and that of its answers with their ends. */
static void render(int form, const chat *c, char *all, char *answers)
{
    static const char *const roles[] = { "system", "user", "assistant" };
    const char *stop = form == DT_CHAT_CHATML ? "<|im_end|>" : "<|eot_id|>";
    strcpy(all, form == DT_CHAT_LLAMA3 ? "<|begin_of_text|>" : "");
    answers[0] = 0;
    for (int i = 0; i < c->n; i++) {
        sprintf(all + strlen(all),
                form == DT_CHAT_CHATML ? "<|im_start|>%s\n%s%s"
                                       : "<|start_header_id|>%s<|end_header_id|>\n\n%s%s",
                roles[c->role[i]], c->text[i], stop);
        if (form == DT_CHAT_CHATML) strcat(all, "\n");
        if (c->role[i] != DT_ROLE_ASSISTANT) continue;
        strcat(answers, c->text[i]);
        strcat(answers, stop);
    }
}

static dt_status add_text(void *user, const char *text, size_t bytes)
{
    strncat(user, text, bytes);
    return DT_OK;
}

/* Example by example, of a loader of one each: its ids are those of `all`, its labels those ids
 * that make `answers`. */
static void compare(dt_ctx *ctx, const dt_tokenizer *k, dt_loader *l, const char *all,
                    const char *answers)
{
    static const dt_encoding special = { .special = true };
    dt_ids ids = { .ctx = NULL };
    dt_tensor *x, *target;
    char said[4096] = "";
    int64_t labels = 0;
    TEST_OK(ctx, dt_tokenizer_encode(k, all, strlen(all), &special, &ids));
    const int64_t counted = dt_loader_labels(l, 1);
    TEST_OK(ctx, dt_loader_next(l, &x, &target));
    const int32_t *in = dt_data(x), *out = dt_data(target);
    for (int64_t t = 0; t < dt_dim(x, 1); t++) {
        if (t + 1 < ids.n) TEST_EACH(in[t] == ids.id[t], "%lld of '%s'", (long long)t, all);
        if (out[t] == NONE) continue;
        TEST_EACH(t + 1 < ids.n && out[t] == ids.id[t + 1], "label %lld", (long long)t);
        dt_tokenizer_decode(k, &out[t], 1, false, add_text, said);
        labels++;
    }
    ck_assert_str_eq(said, answers);
    ck_assert_int_eq(labels, counted);
    dt_ids_free(&ids);
}

/* A prompt for a model has the tokens that precede an answer in training. */
static void compare_prompt(dt_ctx *ctx, const dt_tokenizer *k, int form, const chat *c)
{
    static const dt_encoding special = { .special = true };
    char all[4096], answers[2048];
    dt_message m[MOST_TURNS];
    dt_ids ids = { .ctx = NULL }, whole = { .ctx = NULL };
    const dt_chat how = { form, NULL };
    for (int i = 0; i < c->n; i++)
        m[i] = (dt_message){ c->role[i], c->text[i], strlen(c->text[i]) };
    render(form, c, all, answers);
    TEST_OK(ctx, dt_tokenizer_encode(k, all, strlen(all), &special, &whole));
    TEST_OK(ctx, dt_chat_prompt(k, &how, m, c->n - 1, &ids));
    ck_assert_int_lt(ids.n, whole.n);
    for (int64_t i = 0; i < ids.n; i++) ck_assert_int_eq(ids.id[i], whole.id[i]);
    const size_t last = strlen(c->text[c->n - 1]);
    char rest[4096] = "";
    dt_tokenizer_decode(k, whole.id + ids.n, whole.n - ids.n, true, add_text, rest);
    ck_assert_msg(strncmp(rest, c->text[c->n - 1], last) == 0, "'%s'", rest);
    dt_ids_free(&ids);
    dt_ids_free(&whole);
}

START_TEST(as_templates_write)
{
    enum { N = 40 };
    static chat chats[N];
    const int form = _i;
    char folder[TEST_PATH], path[TEST_PATH], all[4096], answers[2048];
    if (!put_tokenizer(folder, path, tokens_of[form])) return;
    char *lines = calloc(N, 8192);
    srand(7 + (unsigned)form);
    for (int i = 0; i < N; i++) {
        draw_chat(&chats[i]);
        put_line(&chats[i], lines + strlen(lines));
    }
    put(folder, "chats.jsonl", lines);
    free(lines);
    dt_ctx *ctx = sample_context(1);
    const dt_data_options o = options_of(folder, path, DT_CHAT_AUTO); /* by the tokens */
    dt_dataset *d;
    dt_loader *l;
    open_chats(ctx, &o, &d);
    ck_assert_int_eq(dt_dataset_count(d), N);
    ck_assert(dt_dataset_is_prompted(d));
    const dt_tokenizer *k = dt_dataset_tokenizer(d);
    const dt_loader_options one = { .batch_size = 1 }, whole = { .batch_size = 1, .prompts = true };
    TEST_OK(ctx, dt_loader_create(d, &one, &l));
    for (int i = 0; i < N; i++) {
        render(form, &chats[i], all, answers);
        compare(ctx, k, l, all, answers);
        compare_prompt(ctx, k, form, &chats[i]);
    }
    dt_loader_free(l);
    TEST_OK(ctx, dt_loader_create(d, &whole, &l)); /* train.mask: all */
    for (int i = 0; i < N; i++) {
        render(form, &chats[i], all, answers);
        const char *first = form == DT_CHAT_CHATML ? "<|im_start|>" : "<|begin_of_text|>";
        compare(ctx, k, l, all, all + strlen(first));
    }
    dt_loader_free(l);
    dt_text_tokens tokens = dt_tokenizer_tokens(k); /* a model of this run stops there */
    ck_assert(dt_text_tokens_end(&tokens, form == DT_CHAT_CHATML ? 513 : 514));
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- plain, and the forms of lines ---------------------------------------------------------- */

#define PLAIN "System:\nBe brief.\nUser:\nAdd.\n1 2\nAssistant:\n3\n"

static const struct {
    const char *name, *line, *wanted;
} lines[] = {
    { "messages",
      "{\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"}, {\"role\": \"user\", "
      "\"content\": \"Add.\\n1 2\"}, {\"role\": \"assistant\", \"content\": \"3\"}]}",
      "3\n" },
    { "developer",
      "{\"messages\": [{\"role\": \"developer\", \"content\": \"Be brief.\"}, {\"role\": \"user\", "
      "\"content\": \"Add.\\n1 2\"}, {\"role\": \"assistant\", \"content\": \"3\", \"weight\": 1, "
      "\"tool_calls\": []}], \"prompt\": \"x\"}",
      "3\n" },
    { "conversations",
      "{\"id\": 7, \"conversations\": [{\"from\": \"system\", \"value\": \"Be brief.\"}, "
      "{\"value\": \"Add.\\n1 2\", \"from\": \"human\"}, {\"from\": \"gpt\", \"value\": \"3\"}]}",
      "3\n" },
    { "conversations with a system beside them",
      "{\"conversations\": [{\"from\": \"user\", \"value\": \"Add.\\n1 2\"}, {\"from\": "
      "\"assistant\", \"value\": \"3\"}], \"system\": \"Be brief.\"}",
      "3\n" },
    { "instruction",
      "{\"output\": \"3\", \"input\": \"1 2\", \"instruction\": \"Add.\", \"system\": \"Be "
      "brief.\"}",
      "3\n" },
    { "instruction without input",
      "{\"output\": \"3\", \"input\": \"\", \"instruction\": \"Add.\\n1 2\", \"system\": \"Be "
      "brief.\"}",
      "3\n" },
    { "the system of the recipe",
      "{\"output\": \"3\", \"input\": null, \"instruction\": \"Add.\\n1 2\"}", "3\n" },
};

START_TEST(forms_of_lines)
{
    static const char *const tokenizers[] = { "bytes", "chars" };
    char folder[TEST_PATH];
    test_folder(folder);
    put(folder, "chats.jsonl", lines[_i].line);
    for (int i = 0; i < 2; i++) {
        dt_ctx *ctx = sample_context(1);
        dt_data_options o = options_of(folder, tokenizers[i], DT_CHAT_PLAIN);
        o.system = "Be brief.";
        dt_dataset *d;
        dt_loader *l;
        open_chats(ctx, &o, &d);
        const dt_loader_options one = { .batch_size = 1 };
        TEST_OK(ctx, dt_loader_create(d, &one, &l));
        compare(ctx, dt_dataset_tokenizer(d), l, PLAIN, lines[_i].wanted);
        dt_loader_free(l);
        dt_dataset_free(d);
        dt_ctx_free(ctx);
    }
}
END_TEST

/* An answer of weight 0 is read, and not learned; with an end of texts answers end with it. */
START_TEST(weights_and_ends)
{
    char folder[TEST_PATH], path[TEST_PATH];
    if (!put_tokenizer(folder, path, "")) return;
    put(folder, "chats.jsonl",
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
        "\"content\": \"b\", \"weight\": 0}, {\"role\": \"user\", \"content\": \"c\"}, {\"role\": "
        "\"assistant\", \"content\": \"d\"}]}\n");
    dt_ctx *ctx = sample_context(1);
    const dt_data_options o = options_of(folder, path, DT_CHAT_PLAIN);
    dt_dataset *d;
    dt_loader *l;
    open_chats(ctx, &o, &d);
    const dt_loader_options one = { .batch_size = 1 };
    TEST_OK(ctx, dt_loader_create(d, &one, &l));
    compare(ctx, dt_dataset_tokenizer(d), l,
            "User:\na\nAssistant:\nb<|endoftext|>\nUser:\nc\nAssistant:\nd<|endoftext|>\n",
            "d<|endoftext|>");
    dt_loader_free(l);
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- templates that are recognized ---------------------------------------------------------- */

#define CHAT                                                                                       \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "         \
    "\"content\": \"b\"}]}\n"

#define MESSAGES                                                                                   \
    "{% for m in messages %}{{'<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n'" \
    "}}{% endfor %}"
#define WITH_SYSTEM(text)                                                                          \
    "{%- if messages[0].role != 'system' %}{{- " text " }}{%- endif %}" MESSAGES

static const struct {
    const char *name, *file, *text, *added;
    const char *kept; /* what a model's file says; NULL: it is refused, */
    const char *says; /* with these words */
} templates[] = {
    { "chatml without a system", "tokenizer_config.json",
      "{\"eos_token\": \"x\", \"chat_template\": \"{% for m in messages %}{{'<|im_start|>' + "
      "m['role'] + '\\\\n' + m['content'] + '<|im_end|>\\\\n'}}{% endfor %}\"}",
      CHATML, "{\"target\": \"tokens\", \"chat\": \"chatml\"}", NULL },
    { "chatml with a system", "tokenizer_config.json",
      "{\"chat_template\": \"{%- if messages[0]['role'] != 'system' %}{{- "
      "'<|im_start|>system\\\\nYou "
      "help.<|im_end|>\\\\n' }}{%- endif %}{% for m in messages %}{{'<|im_start|>' + m['role'] + "
      "'\\\\n' + m['content'] + '<|im_end|>\\\\n'}}{% endfor %}\"}",
      CHATML, "{\"target\": \"tokens\", \"chat\": \"chatml\", \"system\": \"You help.\"}", NULL },
    { "several", "tokenizer_config.json",
      "{\"chat_template\": [{\"name\": \"tool\", \"template\": \"x\"}, {\"name\": \"default\", "
      "\"template\": \"<|begin_of_text|>{% for m in messages %}<|start_header_id|>{{ m.role "
      "}}<|end_header_id|>\\n\\n{{ m.content | trim }}<|eot_id|>{% endfor %}\"}]}",
      LLAMA3, "{\"target\": \"tokens\", \"chat\": \"llama3\"}", NULL },
    { "a file of its own", "chat_template.jinja",
      "{% for m in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ "
      "'<|im_start|>system\nYou help.<|im_end|>\n' }}{% endif %}<|im_start|>{{ m.role }}\n{{ "
      "m.content }}<|im_end|>\n{% endfor %}",
      CHATML, "{\"target\": \"tokens\", \"chat\": \"chatml\", \"system\": \"You help.\"}", NULL },
    { "none, and tokens", "tokenizer_config.json", "{\"chat_template\": null}", CHATML,
      "{\"target\": \"tokens\", \"chat\": \"chatml\"}", NULL },
    { "thoughts", "chat_template.jinja", "{{ '<|im_start|>a\n<think>\n<|im_end|>' }}", CHATML, NULL,
      "is like 'chatml', but writes thoughts before answers; data.chat must be one of" },
    { "a system of two lines", "chat_template.jinja",
      WITH_SYSTEM("'<|im_start|>system\\nYou help.\\nAlways.<|im_end|>\\n'"), CHATML,
      "{\"target\": \"tokens\", \"chat\": \"chatml\", \"system\": \"You help.\\u000aAlways.\"}",
      NULL },
    { "a system with an apostrophe", "chat_template.jinja",
      WITH_SYSTEM("\"<|im_start|>system\\nYou're here to help.<|im_end|>\\n\""), CHATML,
      "{\"target\": \"tokens\", \"chat\": \"chatml\", \"system\": \"You're here to help.\"}",
      NULL },
    { "a system that goes on", "chat_template.jinja",
      WITH_SYSTEM("'<|im_start|>system\\nYou help ' + user + '<|im_end|>\\n'"), CHATML, NULL,
      "is like 'chatml', but is written in a way that is not read" },
    { "messages of users alone", "chat_template.jinja",
      "{% for m in messages %}{% if m.role == 'user' %}{{'<|im_start|>user\n' + m.content + "
      "'<|im_end|>\n'}}{% endif %}{% endfor %}",
      CHATML, NULL, "is written in a way that is not read" },
    { "dates", "chat_template.jinja",
      "{{ '<|start_header_id|><|end_header_id|><|eot_id|>Cutting Knowledge Date' }}", LLAMA3, NULL,
      "writes dates into the system's message" },
    { "another", "chat_template.jinja", "{{ '[INST]' }}", CHATML, NULL,
      "chat_template.jinja is none that is known here" },
    { "nothing", "other.json", "{}", "", NULL,
      "data.chat is auto, but neither a chat template nor tokens of one" },
    { "a damaged file", "tokenizer_config.json", "{\"chat_template\": 5}", CHATML, NULL,
      "tokenizer_config.json" },
    { "no tokens", "chat_template.jinja", MESSAGES, "", NULL,
      "data.chat is chatml, whose '<|im_start|>' must be an added token of the tokenizer" },
};

START_TEST(recognized)
{
    char folder[TEST_PATH], path[TEST_PATH], kept[512] = "";
    if (!put_tokenizer(folder, path, templates[_i].added)) return;
    put(folder, "chats.jsonl", CHAT);
    put(folder, templates[_i].file, templates[_i].text);
    dt_ctx *ctx = sample_context(1);
    dt_data_options o = options_of(folder, path, DT_CHAT_AUTO);
    dt_dataset *d, *validation, *test;
    for (int given = 0; given < 2; given++) { /* beside the tokenizer; by the model */
        if (templates[_i].kept == NULL) {
            TEST_FAILS(ctx, templates[_i].text[2] == 'c' ? DT_ERR_FORMAT : DT_ERR_CONFIG,
                       given == 0 ? templates[_i].says : "",
                       dt_data_open(ctx, &o, &d, &validation, &test));
        } else {
            dt_model_data about;
            open_chats(ctx, &o, &d);
            kept[0] = 0;
            TEST_OK(ctx, dt_model_data_text(d, add_text, kept));
            ck_assert_str_eq(kept, templates[_i].kept);
            TEST_OK(ctx, dt_model_data_parse(ctx, kept, "kept", &about));
            ck_assert_int_ne(about.chat, DT_CHAT_AUTO);
            dt_model_data_free(ctx, &about);
            dt_dataset_free(d);
        }
        if (strcmp(templates[_i].file, "other.json") == 0) break;
        char file[TEST_PATH];
        test_join(file, folder, templates[_i].file);
        if (given == 0) ck_assert_int_eq(remove(file), 0);
        o.given_template = templates[_i].text;
    }
    dt_ctx_free(ctx);
}
END_TEST

/* Templates of Qwen2 and Llama 3, and changes of them after which they write something else. */
static const char qwen2[] =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ "
    "'<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}{% endif %}{{"
    "'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
static const char llama3[] =
    "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = "
    "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | "
    "trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% "
    "endif "
    "%}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ "
    "'<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}";
static const struct {
    const char *template, *from, *to, *says; /* from "": in front; says NULL: recognized */
} changes[] = {
    { qwen2, "", "", NULL },
    { qwen2, "message['role'] +", "message.role +", NULL },
    { qwen2, "{{'<|im_start|>' + message['role'] + '\\n'", "<|im_start|>{{ message.role }}\n{{ ''",
      NULL },
    { qwen2, "'<|im_start|>' + message['role'] + '\\n'", "'<|im_start|>' + role + '<|im_sep|>'",
      "writes other tokens" },
    { qwen2, "'<|im_start|>' + message['role'] + '\\n'", "'<|im_start|>' + message['role'] + ': '",
      "does not end the lines of roles" },
    { qwen2, "assistant\\n'", "assistant'", "does not end the lines of roles" },
    { qwen2, "<|im_end|>' + '\\n'", "<|im_end|>'", "does not end lines behind messages" },
    { qwen2, "<|im_end|>' + '", "<|im_end|>' + eos_token + '", "the token that ends texts" },
    { qwen2, "", "{{ bos_token }}", "the token that begins texts" },
    { qwen2, "message['content']", "message['content']|trim", "leaves out white space" },
    { qwen2, "message['content']", "message['content'].strip()", "leaves out white space" },
    { qwen2, "", "{% set system_message = 'You help.' %}", "a variable of the system's message" },
    { qwen2, "assistant.<", "assistant of ' + strftime_now('%Y') + '.<", "writes dates" },
    { llama3, "", "", NULL },
    { llama3, " | trim", "", "keeps white space around texts" },
    { llama3, "bos_token + ", "", "does not begin with the token" },
    { llama3, "<|end_header_id|>\\n\\n'+", "<|end_header_id|>\\n'+", "has no empty line" },
    { llama3, "", "{{ '<|image|>' }}", "writes other tokens" },
};

/* Of a template of each form one character is left out, drawn: it is refused, unless the character
 * is a blank of the code, or of the message of the system, which then lacks it. */
START_TEST(templates_of_other_characters)
{
    static const char *const bases[] = {
        qwen2, llama3, WITH_SYSTEM("'<|im_start|>system\\nYou help.<|im_end|>\\n'")
    };
    dt_ctx *ctx = sample_context(1);
    for (int i = 0; i < 400; i++) {
        char jinja[2048];
        const char *text = bases[i % 3], *system = strstr(text, "You ");
        const size_t n = strlen(text), at = (size_t)rand() % n;
        const size_t place = system == NULL ? n : (size_t)(system - text);
        dt__chat_found found;
        snprintf(jinja, sizeof jinja, "%.*s%s", (int)at, text, text + at + 1);
        const dt_status s = dt__chat_recognize(ctx, jinja, "x", &found);
        if (s != DT_OK) continue;
        const bool in = at >= place && at < place + strcspn(text + place, "<");
        TEST_EACH(in || text[at] == ' ' || text[at] == '-', "%d: %s", (int)at, jinja);
        if (in) ck_assert_uint_eq(strlen(found.system), strcspn(text + place, "<") - 1);
        dt__release(ctx, found.system);
    }
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(templates_that_write_more)
{
    const char *text = changes[_i].template, *from = changes[_i].from;
    const char *at = strstr(text, from);
    char jinja[2048];
    dt__chat_found found;
    dt_ctx *ctx = sample_context(1);
    ck_assert_ptr_nonnull(at);
    snprintf(jinja, sizeof jinja, "%.*s%s%s", (int)(at - text), text, changes[_i].to,
             at + strlen(from));
    if (changes[_i].says != NULL) {
        TEST_FAILS(ctx, DT_ERR_CONFIG, changes[_i].says,
                   dt__chat_recognize(ctx, jinja, "x", &found));
    } else {
        TEST_OK(ctx, dt__chat_recognize(ctx, jinja, "x", &found));
        ck_assert_int_eq(found.form, text == qwen2 ? DT_CHAT_CHATML : DT_CHAT_LLAMA3);
        dt__release(ctx, found.system);
    }
    dt_ctx_free(ctx);
}
END_TEST

/* Llama 3's template trims as Python does: characters beyond ASCII, no NUL. */
START_TEST(texts_are_trimmed)
{
    static const char
        *const spaces[] = { " ",        "\t",           "\n",           "\x1c",
                            "\xc2\x85", "\xc2\xa0",     "\xe2\x80\x83", "\xe2\x80\xa8",
                            "\x1f\v",   "\xe3\x80\x80", "\r\f" },
               *const texts[] = { "", "a", "\xc3\xa4", "a\xc2\xa0z", "\xe2\x80\x8b", "\xff" };
    dt_ctx *ctx = sample_context(1);
    for (int i = 0; i < 500; i++) {
        const char *text = texts[rand() % DT__COUNT_OF(texts)];
        char all[64] = "";
        dt__chars out = { .ctx = ctx };
        for (int k = rand() % 4; k > 0; k--) strcat(all, spaces[rand() % DT__COUNT_OF(spaces)]);
        strcat(all, text);
        for (int k = rand() % 4; k > 0; k--) strcat(all, spaces[rand() % DT__COUNT_OF(spaces)]);
        dt__chat_trim(&dt__chat_forms[DT_CHAT_LLAMA3], all, strlen(all), &out);
        ck_assert_str_eq(dt__chars_text(&out), text);
        dt__release(ctx, out.bytes);
    }
    dt__chars out = { .ctx = ctx };
    dt__chat_trim(&dt__chat_forms[DT_CHAT_LLAMA3], " a\0 ", 4, &out);
    ck_assert_uint_eq(out.used, 2);
    dt__release(ctx, out.bytes);
    dt_ctx_free(ctx);
}
END_TEST

/* Each form as Jinja, which is recognized when it is read again. */
static const struct {
    dt_chat chat;
    dt__chat_ends ends;
    const char *jinja;
} written[] = {
    { { DT_CHAT_CHATML, "You're here.\n" },
      { NULL, NULL },
      "{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\nYou\\'re "
      "here.\\n<|im_end|>\\n' }}{% endif %}{% for message in messages %}{% if message['role'] == "
      "'system' %}{{ '<|im_start|>system\\n' + message['content'] + '<|im_end|>\\n' }}{% elif "
      "message['role'] == 'user' %}{{ '<|im_start|>user\\n' + message['content'] + "
      "'<|im_end|>\\n' }}{% elif message['role'] == 'assistant' %}{{ '<|im_start|>assistant\\n' + "
      "message['content'] + '<|im_end|>\\n' }}{% endif %}{% endfor %}{% if add_generation_prompt "
      "%}{{ '<|im_start|>assistant\\n' }}{% endif %}" },
    { { DT_CHAT_LLAMA3, NULL },
      { NULL, NULL },
      "<|begin_of_text|>{% for message in messages %}{% if message['role'] == 'system' %}{{ "
      "'<|start_header_id|>system<|end_header_id|>\\n\\n' + (message['content'] | trim) + "
      "'<|eot_id|>' }}{% elif message['role'] == 'user' %}{{ "
      "'<|start_header_id|>user<|end_header_id|>\\n\\n' + (message['content'] | trim) + "
      "'<|eot_id|>' }}{% elif message['role'] == 'assistant' %}{{ "
      "'<|start_header_id|>assistant<|end_header_id|>\\n\\n' + (message['content'] | trim) + "
      "'<|eot_id|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ "
      "'<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}" },
    { { DT_CHAT_PLAIN, NULL },
      { "<s>", "</s>" },
      "<s>{% for message in messages %}{% if message['role'] == 'system' %}{{ 'System:\\n' + "
      "message['content'] + '\\n' }}{% elif message['role'] == 'user' %}{{ 'User:\\n' + "
      "message['content'] + '\\n' }}{% elif message['role'] == 'assistant' %}{{ 'Assistant:\\n' + "
      "message['content'] + '</s>\\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ "
      "'Assistant:\\n' }}{% endif %}" },
};

START_TEST(forms_become_templates)
{
    dt_ctx *ctx = sample_context(1);
    dt__chars t = { .ctx = ctx };
    dt__chat_found found;
    dt_chat how = written[_i].chat;
    dt__chat_put_jinja(&t, &how, &written[_i].ends);
    ck_assert_str_eq(dt__chars_text(&t), written[_i].jinja);
    t.used = 0;
    how.system = how.form == DT_CHAT_LLAMA3 ? " You help.\n" : "You help."; /* llama3 trims */
    dt__chat_put_jinja(&t, &how, &written[_i].ends);
    TEST_OK(ctx, dt__chat_recognize(ctx, dt__chars_text(&t), "x", &found));
    ck_assert_int_eq(found.form, how.form);
    ck_assert_str_eq(found.system, "You help.");
    DT__RELEASE(ctx, found.system, t.bytes);
    dt_ctx_free(ctx);
}
END_TEST

/* In form plain the tokens before texts are those of the tokenizer; transformers does not add them
 * to the text of a template. */
START_TEST(exported_templates_begin_as_texts)
{
    static const char *const names[] = { "tokenizer/gpt2-512", "tokenizer/llama3-512" };
    static const char *const begins[] = { "{% for", "<|begin_of_text|>{% for" };
    char path[TEST_PATH], *jinja;
    size_t n;
    if (!test_golden(path, names[_i])) return;
    test_join(path, path, "tokenizer.json");
    dt_ctx *ctx = sample_context(1);
    char *tokenizer = test_read_file(path, &n);
    tokenizer = realloc(tokenizer, n + 1);
    tokenizer[n] = 0;
    const dt_model_info info = { .data = "{\"target\": \"tokens\", \"chat\": \"plain\"}",
                                 .tokenizer = tokenizer };
    TEST_OK(ctx, dt__hf_chat_of_model(ctx, &info, &jinja));
    ck_assert_msg(strncmp(jinja, begins[_i], strlen(begins[_i])) == 0, "%s", jinja);
    dt__release(ctx, jinja);
    free(tokenizer);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(kept_forms_are_checked)
{
    dt_ctx *ctx = sample_context(1);
    dt_model_data about;
    TEST_FAILS(
        ctx, DT_ERR_FORMAT, "chat is 'auto'; expected 'chatml', 'llama3' or 'plain'",
        dt_model_data_parse(ctx, "{\"target\": \"tokens\", \"chat\": \"auto\"}", "x", &about));
    dt_tokenizer *k;
    dt_ids ids = { .ctx = NULL };
    dt_message m = { DT_ROLE_USER, "a", 1 };
    TEST_OK(ctx, dt_tokenizer_bytes(ctx, &k));
    TEST_FAILS(ctx, DT_ERR_ARG, "form 0 and 1 messages",
               dt_chat_prompt(k, &(dt_chat){ DT_CHAT_AUTO, NULL }, &m, 1, &ids));
    TEST_FAILS(ctx, DT_ERR_ARG, "form 3 and 0 messages",
               dt_chat_prompt(k, &(dt_chat){ DT_CHAT_PLAIN, NULL }, &m, 0, &ids));
    TEST_FAILS(ctx, DT_ERR_CONFIG, "'<|im_start|>' must be an added token",
               dt_chat_prompt(k, &(dt_chat){ DT_CHAT_CHATML, NULL }, &m, 1, &ids));
    m.role = 3;
    TEST_FAILS(ctx, DT_ERR_ARG, "message 0 has role 3",
               dt_chat_prompt(k, &(dt_chat){ DT_CHAT_PLAIN, NULL }, &m, 1, &ids));
    ck_assert_int_eq(ids.n, 0);
    dt_tokenizer_free(k);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- lines that are refused ----------------------------------------------------------------- */

#define USER "{\"role\": \"user\", \"content\": \"a\"}"
#define ANSWER "{\"role\": \"assistant\", \"content\": \"b\"}"

static const struct {
    const char *line, *says;
} bad[] = {
    { "{\"messages\": []}", "no messages; expected a user's and the assistant's" },
    { "{\"messages\": 5}", "\"messages\" must be a list of objects with \"role\" and \"content\"" },
    { "{\"conversations\": {}}", "\"conversations\" must be a list" },
    { "{\"messages\": [\"hello\"]}", "message 1 must be an object with \"role\" and \"content\"" },
    { "{\"messages\": [" USER ", {\"role\": \"assistant\"}]}",
      "message 2 must have \"role\" and \"content\"" },
    { "{\"messages\": [" USER ", {\"role\": \"tool\", \"content\": \"\"}]}",
      "\"role\" of message 2 is 'tool'; expected system, user or assistant" },
    { "{\"conversations\": [{\"from\": \"bot\", \"value\": \"a\"}]}",
      "\"from\" of message 1 is 'bot'; expected system, human or gpt" },
    { "{\"messages\": [{\"role\": 1, \"content\": \"a\"}]}",
      "\"role\" of message 1 must be a string" },
    { "{\"messages\": [" USER ", {\"role\": \"assistant\", \"content\": [{\"type\": \"text\"}]}]}",
      "\"content\" of message 2 must be a string" },
    { "{\"messages\": [" USER ", {\"role\": \"assistant\", \"content\": \"\"}]}",
      "message 2, of the assistant, is empty; expected a text" },
    { "{\"messages\": [" ANSWER "]}", "the first message is of the assistant" },
    { "{\"messages\": [" USER ", " ANSWER ", " USER "]}",
      "the last message must be of the assistant" },
    { "{\"messages\": [" USER ", {\"role\": \"system\", \"content\": \"a\"}, " ANSWER "]}",
      "byte 81 of line 3: message 2 is of the system; expected it first, and once" },
    { "{\"system\": \"x\", \"messages\": [{\"role\": \"system\", \"content\": \"a\"}, " USER
      ", " ANSWER "]}",
      "message 1 is of the system; expected it first, and once" },
    { "{\"messages\": [" USER ", {\"role\": \"assistant\", \"content\": \"a\", \"weight\": 2}]}",
      "\"weight\" of message 2 must be 0 or 1" },
    { "{\"messages\": [" USER ", {\"role\": \"assistant\", \"content\": \"a\", \"weight\": 0}]}",
      "every message of the assistant has weight 0" },
    { "{\"messages\": [" USER
      ", {\"role\": \"assistant\", \"content\": \"a\", \"tool_calls\": [{}]}]}",
      "\"tool_calls\": calls of tools cannot be learned" },
    { "{\"messages\": [" USER
      ", {\"role\": \"assistant\", \"content\": \"a\", \"reasoning_content\": \"b\"}]}",
      "\"reasoning_content\": thoughts are in no form of chats" },
    { "{\"messages\": [" USER
      ", {\"role\": \"assistant\", \"content\": \"a\", \"thinking\": \"b\"}]}",
      "\"thinking\": thoughts are in no form of chats" },
    { "{\"messages\": [" USER ", " ANSWER "], \"functions\": [{\"name\": \"x\"}]}",
      "\"functions\": calls of tools cannot be learned" },
    { "{\"instruction\": \"a\", \"output\": \"b\", \"history\": [[\"c\", \"d\"]]}",
      "\"history\": earlier turns are read as messages alone" },
    { "{\"tools\": [{\"name\": \"x\"}], \"messages\": [" USER ", " ANSWER "]}",
      "\"tools\": calls of tools cannot be learned" },
    { "{\"messages\": [" USER ", {\"role\": \"user\", \"role\": \"user\", \"content\": \"\"}]}",
      "\"role\" occurs twice" },
    { "{\"messages\": [" USER ", " ANSWER "], \"conversations\": []}",
      "\"messages\" and \"conversations\"; expected one of them" },
    { "{\"instruction\": 5, \"output\": \"b\"}", "\"instruction\" must be a string" },
    { "{\"instruction\": \"a\", \"input\": 5, \"output\": \"b\"}", "\"input\" must be a string" },
    { "{\"instruction\": \"a\", \"output\": \"\"}", "message 2, of the assistant, is empty" },
    { "{\"instruction\": \"a\"}", "\"instruction\" and \"output\", must be there" },
    { "{\"text\": \"a\"}",
      "a line with \"text\" behind such with \"messages\"; expected one kind" },
    { "{\"messages\": [" USER ", " ANSWER "", "line 3" },
};

START_TEST(refused)
{
    char folder[TEST_PATH], text[2048];
    test_folder(folder);
    dt_ctx *ctx = sample_context(1);
    snprintf(text, sizeof text, CHAT "\n%s\n", bad[_i].line);
    put(folder, "chats.jsonl", text);
    const dt_data_options o = options_of(folder, "bytes", DT_CHAT_PLAIN);
    dt_dataset *d = NULL, *validation, *test;
    TEST_FAILS(ctx, DT_ERR_FORMAT, bad[_i].says, dt_data_open(ctx, &o, &d, &validation, &test));
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "line 3"));
    ck_assert_ptr_null(d);
    dt_ctx_free(ctx);
}
END_TEST

static void keep_line(void *user, const char *line)
{
    char *to = user;
    snprintf(to + strlen(to), 4000 - strlen(to), "%s\n", line);
}

/* A message with one more field, of a drawn name or one by which other programs choose what is
 * learned: the first is said once, the others are refused, unless they change nothing. */
START_TEST(other_fields_of_messages)
{
    static const char *const masks[] = { "train", "training", "loss", "train_detail" };
    static const char *const values[] = { "false", "true", "null", "0", "[{}]", "[]" };
    char folder[TEST_PATH], text[2048], said[4000], words[80];
    test_folder(folder);
    const dt_data_options o = options_of(folder, "bytes", DT_CHAT_PLAIN);
    for (int i = 0; i < 24; i++) {
        char name[16] = "f_";
        const int value = rand() % 6;
        const bool mask = i % 2 == 0, fails = mask && value != 1 && value != 2 && value != 5;
        dt_ctx_options options = dt_ctx_defaults();
        dt_dataset *d, *validation, *test;
        dt_ctx *ctx;
        for (int k = 0; k < 6; k++) name[2 + k] = (char)('a' + rand() % 26);
        if (mask) strcpy(name, masks[rand() % 4]);
        snprintf(text, sizeof text,
                 "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"%s\": %s, \"role\": "
                 "\"assistant\", \"content\": \"b\"}]}\n" CHAT,
                 name, values[value]);
        const size_t n = strlen(text);
        memcpy(text + n, text, n); /* twice */
        text[2 * n] = 0;
        put(folder, "chats.jsonl", text);
        said[0] = 0;
        options.log = keep_line;
        options.log_user = said;
        TEST_OK(NULL, dt_ctx_create(&ctx, &options));
        if (fails) {
            snprintf(words, sizeof words, "\"%s\" of message 2 is not read", name);
            TEST_FAILS(ctx, DT_ERR_FORMAT, words, dt_data_open(ctx, &o, &d, &validation, &test));
        } else {
            open_chats(ctx, &o, &d);
            dt_dataset_free(d);
            snprintf(words, sizeof words, "'%s' of messages is not read", name);
            const char *line = strstr(said, words);
            ck_assert_int_eq(line != NULL, !mask && value != 2 && value != 5);
            ck_assert(line == NULL || strstr(line + 1, words) == NULL);
        }
        dt_ctx_free(ctx);
    }
}
END_TEST

/* Chats longer than the context are left out; bytes that no form accepts are refused. */
START_TEST(bounds)
{
    char folder[TEST_PATH];
    test_folder(folder);
    put(folder, "chats.jsonl",
        CHAT "{\"instruction\": \"a long one, which has no room\", \"output\": \"b\"}\n");
    dt_ctx *ctx = sample_context(1);
    dt_data_options o = options_of(folder, "bytes", DT_CHAT_PLAIN);
    dt_dataset *d = NULL, *validation, *test;
    o.context = 20;
    open_chats(ctx, &o, &d);
    ck_assert_int_eq(dt_dataset_count(d), 1);
    dt_dataset_free(d);
    o.context = 4;
    TEST_FAILS(ctx, DT_ERR_CONFIG, "but every example of data.train is longer",
               dt_data_open(ctx, &o, &d, &validation, &test));
    o.chat = DT_CHAT_AUTO;
    TEST_FAILS(ctx, DT_ERR_CONFIG, "data.chat must be 'plain', which takes any tokenizer",
               dt_data_open(ctx, &o, &d, &validation, &test));
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_chats_suite(void)
{
    Suite *s = suite_create("chats");
    TCase *t = tcase_create("chats");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, as_templates_write, DT_CHAT_CHATML, DT_CHAT_LLAMA3 + 1);
    tcase_add_loop_test(t, forms_of_lines, 0, (int)(sizeof lines / sizeof lines[0]));
    tcase_add_test(t, weights_and_ends);
    tcase_add_loop_test(t, recognized, 0, (int)(sizeof templates / sizeof templates[0]));
    tcase_add_test(t, templates_of_other_characters);
    tcase_add_loop_test(t, templates_that_write_more, 0, DT__COUNT_OF(changes));
    tcase_add_test(t, texts_are_trimmed);
    tcase_add_loop_test(t, forms_become_templates, 0, (int)(sizeof written / sizeof written[0]));
    tcase_add_loop_test(t, exported_templates_begin_as_texts, 0, 2);
    tcase_add_test(t, kept_forms_are_checked);
    tcase_add_loop_test(t, refused, 0, (int)(sizeof bad / sizeof bad[0]));
    tcase_add_test(t, bounds);
    tcase_add_test(t, other_fields_of_messages);
    suite_add_tcase(s, t);
    return s;
}
