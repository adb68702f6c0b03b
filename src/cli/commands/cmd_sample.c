/* detent sample: generates text with a language model, token by token. */
#include "cli/cli.h"
#include "cli/print/text.h"
#include "cli/print/text_stream.h"

#include <detent/experimental/text.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { /* options, as in main.c */
       PROMPT,
       PROMPT_FILE,
       PROMPT_IDS,
       FORMAT,
       TOKENIZER,
       MAX_TOKENS,
       TEMPERATURE,
       TOP_K,
       TOP_P,
       SEED,
       STOP,
       PRINT_IDS,
       SPECIAL,
       CACHE,
       THREADS,
       JSON
};

#define MAX_PROMPT ((size_t)64 << 20) /* bytes of a prompt's file */

/* The reason why a text ends. */
typedef enum ending { GOES_ON, END_TOKEN, STOPPED, ENOUGH, INTERRUPTED } ending;

typedef struct job {
    const cli_args *args;
    dt_ctx *ctx;
    dt_module *m;
    int64_t vocab, context;
    dt_tokenizer *k;    /* NULL: prints ids */
    cli_prompts format; /* --format */
    dt_ids prompt, made;
    dt_sampling sampling;
    int cache;             /* DT_CACHE_... */
    int64_t most;          /* number of tokens to generate */
    int64_t slides;        /* how often the window has moved over the text */
    dt_text_tokens tokens; /* the model's tokens that end and begin texts */
    int32_t stop_id;       /* --stop; -1: none */
    text_stream out;
    double prompt_seconds, seconds; /* of the prompt, and of the tokens after the first */
    ending ending;
} job;

/* ---- options -------------------------------------------------------------------------------- */

static const char *option_name(const cli_args *args, int i)
{
    return args->command->options[i].name;
}

static int read_integer(const cli_args *args, int i, long long least, long long most, int64_t *out)
{
    const char *text = args->option[i];
    if (text == NULL) return CLI_DONE;
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (end != text && *end == 0 && errno == 0 && value >= least && value <= most) {
        *out = value;
        return CLI_DONE;
    }
    return cli_fail(args, CLI_USAGE, "%s is '%s', and should be %lld to %lld", option_name(args, i),
                    text, least, most);
}

static int read_number(const cli_args *args, int i, double most, double *out)
{
    const char *text = args->option[i];
    if (text == NULL) return CLI_DONE;
    char *end;
    const double value = strtod(text, &end);
    if (end != text && *end == 0 && value >= 0 && value <= most && (i != TOP_P || value > 0)) {
        *out = value;
        return CLI_DONE;
    }
    return cli_fail(args, CLI_USAGE, "%s is '%s', and should be a number %s 0 and up to %g",
                    option_name(args, i), text, i == TOP_P ? "above" : "from", most);
}

static int read_options(job *j)
{
    const cli_args *args = j->args;
    int64_t seed = 0;
    j->sampling = dt_sampling_defaults();
    j->most = 256;
    int status = read_integer(args, MAX_TOKENS, 0, INT32_MAX, &j->most);
    if (status == CLI_DONE) status = read_number(args, TEMPERATURE, 1e6, &j->sampling.temperature);
    if (status == CLI_DONE) status = read_integer(args, TOP_K, 0, INT32_MAX, &j->sampling.top_k);
    if (status == CLI_DONE) status = read_number(args, TOP_P, 1, &j->sampling.top_p);
    if (status == CLI_DONE) status = read_integer(args, SEED, 0, INT64_MAX, &seed);
    if (status == CLI_DONE) status = cli_read_choice(args, CACHE, dt_cache_names, &j->cache);
    j->sampling.seed = (uint64_t)seed;
    const int prompts = (args->option[PROMPT] != NULL) + (args->option[PROMPT_FILE] != NULL) +
                        (args->option[PROMPT_IDS] != NULL);
    if (status == CLI_DONE && args->option[PROMPT_IDS] != NULL && args->option[FORMAT] != NULL) {
        return cli_fail(args, CLI_USAGE,
                        "--format is for texts; --prompt-ids are read as they are");
    }
    if (status != CLI_DONE || prompts == 1) return status;
    return cli_fail(args, CLI_USAGE, "%s of --prompt, --prompt-file and --prompt-ids",
                    prompts == 0 ? "give one" : "only one can be given");
}

/* ---- the tokenizer -------------------------------------------------------------------------- */

static int open_tokenizer(job *j, const dt_model_info *info)
{
    const char *path = j->args->option[TOKENIZER];
    dt_status s = dt_text_tokens_parse(j->ctx, info->tokens, j->args->words[0], &j->tokens);
    if (s == DT_OK && path != NULL && strcmp(path, "bytes") == 0) {
        s = dt_tokenizer_bytes(j->ctx, &j->k);
    } else if (s == DT_OK && path != NULL) {
        s = dt_tokenizer_read(j->ctx, path, &j->k);
    } else if (s == DT_OK && info->tokenizer != NULL) {
        s = dt_tokenizer_parse(j->ctx, info->tokenizer, strlen(info->tokenizer), j->args->words[0],
                               &j->k);
    }
    if (s != DT_OK) return cli_fail_file(j->args, j->ctx);
    if (j->k != NULL && dt_tokenizer_vocab(j->k) > j->vocab) {
        return cli_fail(j->args, CLI_USAGE,
                        "the tokenizer has %lld tokens, the model's vocabulary %lld",
                        (long long)dt_tokenizer_vocab(j->k), (long long)j->vocab);
    }
    return CLI_DONE;
}

/* ---- the prompt ----------------------------------------------------------------------------- */

static int add_id(job *j, dt_ids *ids, int32_t id)
{
    if (ids->n == ids->room) {
        const int64_t room = 2 * ids->room + 64;
        int32_t *grown = realloc(ids->id, (size_t)room * sizeof *grown);
        if (grown == NULL) return cli_fail(j->args, CLI_FAILED, "out of memory");
        ids->id = grown;
        ids->room = room;
    }
    ids->id[ids->n++] = id;
    return CLI_DONE;
}

/* Skips a comma or white space between two ids; NULL if there is neither. */
static const char *behind_gap(const char *at)
{
    const char *end = at + strspn(at, " \n\t");
    if (*end == 0) return end;
    if (*end != ',') return end == at ? NULL : end;
    end += 1 + strspn(end + 1, " \n\t");
    return *end >= '0' && *end <= '9' ? end : NULL;
}

/* Reads "1,2,3", also with spaces. */
static int read_ids(job *j)
{
    const char *text = j->args->option[PROMPT_IDS];
    for (const char *at = text; *at != 0;) {
        char *end;
        const long long id = strtoll(at, &end, 10);
        const char *next = behind_gap(end);
        if (end == at || next == NULL) {
            return cli_fail(j->args, CLI_USAGE, "--prompt-ids is '%s', and should be like 1,2,3",
                            text);
        }
        if (id < 0 || id >= j->vocab) {
            return cli_fail(j->args, CLI_USAGE,
                            "--prompt-ids has %lld; the model's ids lie in 0...%lld", id,
                            (long long)j->vocab - 1);
        }
        const int status = add_id(j, &j->prompt, (int32_t)id);
        if (status != CLI_DONE) return status;
        at = next;
    }
    return CLI_DONE;
}

static int encode(job *j, const char *text, size_t bytes, int blame)
{
    const dt_encoding how = { .special = j->args->option[SPECIAL] != NULL, .wrap = true };
    dt_ids ids = { .ctx = j->ctx };
    const dt_message message = { DT_ROLE_USER, text, bytes };
    const dt_status s = cli_prompt_encode(&j->format, j->k, &message, &how, &ids);
    if (s != DT_OK) {
        dt_ids_free(&ids);
        return cli_fail(j->args, dt_error_of_machine(j->ctx) ? CLI_FAILED : blame, "the prompt: %s",
                        dt_error(j->ctx));
    }
    int status = CLI_DONE;
    for (int64_t i = 0; i < ids.n && status == CLI_DONE; i++) {
        status = add_id(j, &j->prompt, ids.id[i]);
    }
    dt_ids_free(&ids);
    return status;
}

static int read_file(job *j)
{
    const char *path = j->args->option[PROMPT_FILE];
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    text_stream text = { .to = NULL };
    char part[4096];
    size_t n;
    if (f == NULL) return cli_fail(j->args, cli_exit_errno(errno), "%s: %s", path, strerror(errno));
    while (text.n <= MAX_PROMPT && (n = fread(part, 1, sizeof part, f)) > 0) {
        if (text_stream_add(&text, part, n) != DT_OK) break;
    }
    const int error = errno;
    const bool failed = ferror(f) != 0 || (!feof(f) && text.n <= MAX_PROMPT);
    if (f != stdin) fclose(f);
    const size_t mark = text.n >= 3 && memcmp(text.text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    int status;
    if (failed) status = cli_fail(j->args, cli_exit_errno(error), "%s cannot be read", path);
    else if (text.n > MAX_PROMPT) status = cli_fail(j->args, CLI_BAD_FILE, "%s is too long", path);
    else status = encode(j, text.text + mark, text.n - mark, CLI_BAD_FILE);
    text_stream_free(&text);
    return status;
}

/* Replaces an empty prompt by the model's begin token, or by an end token, behind which a new text
 * begins. */
static int begin_text(job *j)
{
    const dt_text_tokens *t = &j->tokens;
    const int32_t id = t->begin >= 0 ? t->begin : t->n_end > 0 ? t->end[0] : -1;
    if (j->prompt.n > 0) return CLI_DONE;
    if (id >= 0) return add_id(j, &j->prompt, id);
    return cli_fail(j->args, CLI_USAGE,
                    "the prompt is empty, and no token of the model begins a text; give it a first "
                    "character, such as a newline");
}

static int read_prompt(job *j)
{
    int status;
    if (j->args->option[PROMPT_IDS] != NULL) {
        status = read_ids(j);
    } else if (j->k == NULL) {
        return cli_fail(
            j->args, CLI_USAGE,
            "%s carries no tokenizer: give --tokenizer FILE (or bytes), or --prompt-ids",
            j->args->words[0]);
    } else if (j->args->option[PROMPT] != NULL) {
        const char *text = j->args->option[PROMPT];
        status = encode(j, text, strlen(text), CLI_USAGE);
    } else {
        status = read_file(j);
    }
    if (status == CLI_DONE) status = begin_text(j);
    if (status != CLI_DONE || j->prompt.n <= j->context) return status;
    return cli_fail(j->args, CLI_USAGE, "the prompt has %lld token%s; the model's context is %lld",
                    (long long)j->prompt.n, CLI_S(j->prompt.n), (long long)j->context);
}

/* ---- stopping ------------------------------------------------------------------------------- */

/* Looks up an end token by its name in the tokenizer, where the model does not say which it is. */
static void find_end(job *j)
{
    const int32_t end = j->k == NULL ? -1 : dt_tokenizer_end(j->k);
    if (j->tokens.n_end == 0 && end >= 0) j->tokens.end[j->tokens.n_end++] = end;
}

/* Reads --stop, an id or a text. A text that is a single token is replaced by its id. */
static int read_stop(job *j)
{
    const char *text = j->args->option[STOP];
    find_end(j);
    j->stop_id = -1;
    /* without an end token, an answer in a plain chat ends with its line */
    if (text == NULL && j->format.chat == DT_CHAT_PLAIN && j->tokens.n_end == 0) text = "\n";
    if (text == NULL) return CLI_DONE;
    if (*text != 0 && strspn(text, "0123456789") == strlen(text)) {
        int64_t id = -1;
        const int status = read_integer(j->args, STOP, 0, j->vocab - 1, &id);
        j->stop_id = (int32_t)id;
        return status;
    }
    if (*text == 0 || j->k == NULL) {
        return cli_fail(j->args, CLI_USAGE, "--stop requires a text, or an id%s",
                        j->k == NULL ? "; without a tokenizer an id" : "");
    }
    j->stop_id = dt_tokenizer_id(j->k, text);
    j->out.stop = text;
    return CLI_DONE;
}

/* ---- making text ---------------------------------------------------------------------------- */

/* Prints a token, as text or as a number. */
static dt_status put(job *j, int32_t id)
{
    dt_status s;
    if (j->args->option[PRINT_IDS] != NULL || j->k == NULL) {
        char text[16];
        const int n = snprintf(text, sizeof text, "%s%d", j->made.n == 1 ? "" : " ", (int)id);
        s = text_stream_add(&j->out, text, (size_t)n);
    } else {
        const bool skip = j->args->option[SPECIAL] == NULL;
        s = dt_tokenizer_decode_on(j->k, &id, 1, skip, text_stream_add, &j->out);
    }
    if (s == DT_OK) s = text_stream_flush(&j->out);
    if (s == DT_OK && j->out.to != NULL && fflush(stdout) != 0) s = DT_ERR_IO;
    return s;
}

/* Copies text for a terminal: control characters except tabs and newlines become '?'. */
static dt_status to_screen(void *user, const char *text, size_t bytes)
{
    char out[DT_TEXT_JSON];
    (void)user;
    for (size_t i = 0, took; i < bytes; i += took) {
        took = dt_text_json(text + i, bytes - i, out);
        const bool hidden = out[0] == '\\' && out[1] == 'u';
        if (!hidden || text[i] == '\n' || text[i] == '\t') fwrite(text + i, 1, took, stdout);
        else putchar('?');
    }
    return ferror(stdout) ? DT_ERR_IO : DT_OK;
}

/* The exit status after writing to the stream. main reports failures of stdout. */
static int written(const job *j, dt_status s)
{
    if (s == DT_OK) return CLI_DONE;
    return s == DT_ERR_IO ? CLI_FAILED : cli_fail(j->args, CLI_FAILED, "out of memory");
}

/* Samples and prints the next token; sets *status on failure. */
static ending take(job *j, const dt_tensor *logits, int *status)
{
    int32_t id;
    if (j->made.n >= j->most) return ENOUGH;
    if (cli_stopped(NULL)) return INTERRUPTED;
    if (dt_sample(j->ctx, &j->sampling, j->made.n, logits, &id) != DT_OK) {
        *status = cli_fail_by(j->args, j->ctx);
        return STOPPED;
    }
    if (dt_text_tokens_end(&j->tokens, id)) return END_TOKEN;
    if (id == j->stop_id) return STOPPED;
    *status = add_id(j, &j->made, id);
    if (*status == CLI_DONE) *status = written(j, put(j, id));
    if (*status != CLI_DONE || j->out.stopped) return STOPPED;
    return j->made.n >= j->most ? ENOUGH : GOES_ON;
}

/* Feeds the newest token. Where the context is full, the window moves: the decoder restarts with
 * the last half of the text, so that a pass over many tokens is rare. */
static dt_status feed(job *j, dt_decoder *d, dt_tensor **logits)
{
    const int64_t half = j->context > 1 ? j->context / 2 : 1;
    if (dt_decoder_length(d) < j->context) {
        return dt_decoder_feed(d, &j->made.id[j->made.n - 1], 1, logits);
    }
    dt_status s = dt_decoder_rewind(d, 0);
    const int64_t of_prompt = half > j->made.n ? half - j->made.n : 0;
    if (s == DT_OK && of_prompt > 0) {
        s = dt_decoder_feed(d, j->prompt.id + j->prompt.n - of_prompt, of_prompt, logits);
    }
    const int64_t made = half - of_prompt;
    if (s == DT_OK) s = dt_decoder_feed(d, j->made.id + j->made.n - made, made, logits);
    j->slides++;
    return s;
}

static int generate(job *j, dt_decoder *d)
{
    dt_tensor *logits;
    int status = CLI_DONE;
    const double start = cli_seconds();
    if (dt_decoder_feed(d, j->prompt.id, j->prompt.n, &logits) != DT_OK) {
        return cli_fail_by(j->args, j->ctx);
    }
    const double begun = cli_seconds();
    j->prompt_seconds = begun - start;
    while ((j->ending = take(j, logits, &status)) == GOES_ON) {
        if (feed(j, d, &logits) == DT_OK) continue;
        status = cli_fail_by(j->args, j->ctx);
        break;
    }
    j->seconds = cli_seconds() - begun;
    const dt_status end = text_stream_end(&j->out);
    return status == CLI_DONE ? written(j, end) : status;
}

/* ---- the report ---------------------------------------------------------------------------- */

static const char *const endings[] = {
    [GOES_ON] = "error", [END_TOKEN] = "end token",     [STOPPED] = "stop",
    [ENOUGH] = "tokens", [INTERRUPTED] = "interrupted",
};

static double rate(int64_t tokens, double in) { return in > 0 ? (double)tokens / in : 0; }

/* The number of tokens that were decoded one by one: all but the last. */
static int64_t fed(const job *j) { return j->made.n > 0 ? j->made.n - 1 : 0; }

static void print_summary(const job *j)
{
    static const char *const reasons[] = { [END_TOKEN] = "the model ended the text",
                                           [STOPPED] = "--stop has come",
                                           [ENOUGH] = "as many as --max-tokens says",
                                           [INTERRUPTED] = "interrupted" };
    cli_text l = { .used = 0 };
    if (isatty(1)) fputc('\n', stderr);
    cli_text_add(&l, "prompt: %lld token%s, %.0f tokens/s; %lld more", (long long)j->prompt.n,
                 CLI_S(j->prompt.n), rate(j->prompt.n, j->prompt_seconds), (long long)j->made.n);
    if (fed(j) > 0) cli_text_add(&l, ", %.1f tokens/s", rate(fed(j), j->seconds));
    if (j->slides > 0) {
        cli_text_add(&l, "; the window of %lld tokens slid %lld time%s", (long long)j->context,
                     (long long)j->slides, CLI_S(j->slides));
    }
    cli_text_add(&l, "; %s", reasons[j->ending]);
    cli_tell(stderr, "%s", l.text);
}

static void print_json(const job *j)
{
    printf("{\"ids\": [");
    for (int64_t i = 0; i < j->made.n; i++) printf("%s%d", i == 0 ? "" : ", ", j->made.id[i]);
    printf("], \"text\": ");
    if (j->k == NULL || j->args->option[PRINT_IDS] != NULL) fputs("null", stdout);
    else cli_json_text(j->out.text, j->out.n);
    printf(", \"prompt_tokens\": %lld, \"tokens\": %lld, \"ended_by\": ", (long long)j->prompt.n,
           (long long)j->made.n);
    cli_json_string(endings[j->ending]);
    printf(", \"prompt_tokens_per_s\": ");
    cli_json_number(rate(j->prompt.n, j->prompt_seconds));
    printf(", \"tokens_per_s\": ");
    cli_json_number(rate(fed(j), j->seconds));
    printf("}\n");
}

static void report(const job *j)
{
    if (j->args->option[JSON] != NULL) {
        print_json(j);
        return;
    }
    if (j->made.n > 0 && (j->k == NULL || j->args->option[PRINT_IDS] != NULL)) putchar('\n');
    fflush(stdout);
    print_summary(j);
}

/* ---- the command ---------------------------------------------------------------------------- */

static int decode(job *j)
{
    dt_decoder *d;
    dt_decoder_options o = { .capacity = j->prompt.n + j->most, .cache = j->cache };
    if (o.capacity > j->context) o.capacity = j->context;
    if (dt_decoder_create(j->m, &o, &d) != DT_OK) return cli_fail_by(j->args, j->ctx);
    cli_catch_signals();
    const int status = generate(j, d);
    dt_decoder_free(d);
    if (status != CLI_DONE) return status;
    report(j);
    return j->ending == INTERRUPTED ? CLI_INTERRUPTED : CLI_DONE;
}

/* Reads --format: whether prompts get the format on which the model was trained. */
static int take_format(job *j, const dt_model_info *info)
{
    if (j->args->option[FORMAT] == NULL) {
        const bool as_it_is =
            j->args->option[PROMPT_IDS] != NULL || j->args->option[SPECIAL] != NULL;
        if (!as_it_is) cli_prompts_advise(j->args, j->ctx, info);
        return CLI_DONE;
    }
    return cli_prompts_read(j->args, j->ctx, info, &j->format);
}

static int open_model(job *j)
{
    dt_model_info info = { .family = NULL };
    if (dt_model_load(j->ctx, j->args->words[0], &j->m, &info) != DT_OK) {
        return cli_fail_file(j->args, j->ctx);
    }
    const dt_language *language = dt_module_type_of(j->m)->language;
    int status = CLI_DONE;
    if (language == NULL) {
        status = cli_fail(j->args, CLI_USAGE, "%s is not a language model", j->args->words[0]);
    } else {
        j->vocab = language->vocab(j->m);
        j->context = language->context(j->m);
        status = open_tokenizer(j, &info);
        if (status == CLI_DONE) status = take_format(j, &info);
    }
    dt_model_info_free(j->ctx, &info);
    return status;
}

static int run(job *j)
{
    int status = open_model(j);
    if (status == CLI_DONE) status = read_stop(j);
    if (status == CLI_DONE) status = read_prompt(j);
    if (status == CLI_DONE) status = decode(j);
    text_stream_free(&j->out);
    free(j->prompt.id);
    free(j->made.id);
    cli_prompts_free(&j->format);
    dt_tokenizer_free(j->k);
    dt_module_free(j->m);
    return status;
}

int cli_sample(const cli_args *args)
{
    job j = { .args = args };
    int64_t threads = 0;
    j.out.to = args->option[JSON] != NULL ? NULL : isatty(1) ? to_screen : cli_stdout;
    int status = read_options(&j);
    if (status == CLI_DONE) status = read_integer(args, THREADS, 1, 1024, &threads);
    if (status == CLI_DONE) status = cli_open(args, (int)threads, &j.ctx);
    if (status != CLI_DONE) return status;
    status = run(&j);
    dt_ctx_free(j.ctx);
    return status;
}
