/* detent tokenize: converts text to token ids and back. */
#include "cli/cli.h"
#include "cli/print/meter.h"
#include "cli/print/text.h"

#include <detent/experimental/text.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TOKENIZER,
    OUTPUT,
    SAVE,
    SPECIAL,
    WRAP,
    END,
    DECODE,
    JSON,
    QUIET
}; /* options, as in main.c */

typedef struct joined { /* all texts concatenated */
    char *bytes;
    size_t n;
} joined;

static bool append(joined *all, const char *text, size_t n)
{
    char *grown = realloc(all->bytes, all->n + n + 1);
    if (grown == NULL) return false;
    memcpy(grown + all->n, text, n);
    all->bytes = grown;
    all->n += n;
    return true;
}

static int make_chars(const cli_args *args, dt_ctx *ctx, dt_tokenizer **out)
{
    joined all = { NULL, 0 };
    int status = CLI_DONE;
    for (int i = 0; i < args->n_words && status == CLI_DONE; i++) {
        char *text;
        size_t bytes;
        if (dt_text_read(ctx, args->words[i], &text, &bytes) != DT_OK) {
            status = cli_fail_file(args, ctx);
            break;
        }
        if (!append(&all, text, bytes)) status = cli_fail(args, CLI_FAILED, "out of memory");
        dt_text_free(ctx, text);
    }
    if (status == CLI_DONE && dt_tokenizer_chars(ctx, all.bytes, all.n, out) != DT_OK) {
        status = cli_fail(args, dt_error_of_machine(ctx) ? CLI_FAILED : CLI_BAD_FILE, "%s",
                          dt_error(ctx));
    }
    free(all.bytes);
    return status;
}

static int make_tokenizer(const cli_args *args, dt_ctx *ctx, dt_tokenizer **out)
{
    const char *name = args->option[TOKENIZER];
    if (name == NULL) {
        return cli_fail(args, CLI_USAGE, "--tokenizer is missing: bytes, chars, or a file");
    }
    if (strcmp(name, "chars") == 0) {
        if (args->option[DECODE] == NULL) return make_chars(args, ctx, out);
        return cli_fail(args, CLI_USAGE,
                        "--decode requires the tokenizer that --save-tokenizer wrote");
    }
    const dt_status s = strcmp(name, "bytes") == 0 ? dt_tokenizer_bytes(ctx, out)
                                                   : dt_tokenizer_read(ctx, name, out);
    return s == DT_OK ? CLI_DONE : cli_fail_file(args, ctx);
}

static void print_ids(const dt_ids *ids, int64_t from)
{
    for (int64_t i = from; i < ids->n; i++) printf(i == from ? "%d" : " %d", ids->id[i]);
    putchar('\n');
}

static int put_end(const cli_args *args, dt_ctx *ctx, const dt_tokenizer *k, dt_ids *ids)
{
    const int32_t end = dt_tokenizer_end(k);
    if (end < 0) return cli_fail(args, CLI_USAGE, "--end: the tokenizer has no token for it");
    return dt_ids_put(ids, end) == DT_OK ? CLI_DONE : cli_fail_by(args, ctx);
}

static int encode_file(const cli_args *args, dt_ctx *ctx, const dt_tokenizer *k, const char *path,
                       dt_ids *ids)
{
    const dt_encoding how = { .special = args->option[SPECIAL] != NULL,
                              .wrap = args->option[WRAP] != NULL };
    const int64_t from = ids->n;
    char *text;
    size_t bytes;
    if (dt_text_read(ctx, path, &text, &bytes) != DT_OK) return cli_fail_file(args, ctx);
    int status = CLI_DONE;
    if (dt_tokenizer_encode(k, text, bytes, &how, ids) != DT_OK) {
        status = cli_fail(args, cli_exit_by(ctx), "%s: %s", path, dt_error(ctx));
    }
    dt_text_free(ctx, text);
    if (status == CLI_DONE && args->option[END] != NULL) status = put_end(args, ctx, k, ids);
    if (status == CLI_DONE && args->option[OUTPUT] == NULL && args->option[JSON] == NULL) {
        print_ids(ids, from);
    }
    return status;
}

static void print_json(const cli_args *args, const dt_tokenizer *k, const dt_ids *ids)
{
    printf("{\"tokenizer\": ");
    cli_json_string(dt_tokenizer_kind(k));
    printf(", \"vocab\": %lld, \"tokens\": %lld", (long long)dt_tokenizer_vocab(k),
           (long long)ids->n);
    if (args->option[OUTPUT] == NULL) {
        printf(", \"ids\": [");
        for (int64_t i = 0; i < ids->n; i++) printf(i == 0 ? "%d" : ", %d", ids->id[i]);
        putchar(']');
    } else {
        printf(", \"file\": ");
        cli_json_string(args->option[OUTPUT]);
    }
    printf("}\n");
}

static int write_all(const cli_args *args, dt_ctx *ctx, const dt_tokenizer *k, const dt_ids *ids)
{
    const char *to = args->option[OUTPUT], *save = args->option[SAVE];
    if (to != NULL && dt_tokens_write(ctx, to, ids->id, ids->n, 0) != DT_OK) {
        return cli_fail_by(args, ctx);
    }
    if (save != NULL && dt_tokenizer_write(k, save) != DT_OK) return cli_fail_by(args, ctx);
    if (args->option[JSON] != NULL) {
        print_json(args, k, ids);
    } else if (to != NULL) {
        cli_say("%s: %lld token%s, %s, a vocabulary of %lld", to, (long long)ids->n, CLI_S(ids->n),
                dt_tokenizer_kind(k), (long long)dt_tokenizer_vocab(k));
    }
    return CLI_DONE;
}

static int encode(const cli_args *args, dt_ctx *ctx, const dt_tokenizer *k)
{
    dt_ids ids = { .ctx = ctx };
    int status = cli_check_apart(args, args->option[OUTPUT]);
    if (status == CLI_DONE) status = cli_check_apart(args, args->option[SAVE]);
    const bool prints = args->option[OUTPUT] == NULL && args->option[JSON] == NULL;
    meter_begin("tokenize", args->option[QUIET] != NULL || prints);
    for (int i = 0; i < args->n_words && status == CLI_DONE; i++) {
        if (args->n_words > 1) meter_at(i, args->n_words, args->words[i]);
        status = encode_file(args, ctx, k, args->words[i], &ids);
    }
    meter_end();
    if (status == CLI_DONE) status = write_all(args, ctx, k, &ids);
    dt_ids_free(&ids);
    return status;
}

#define AT_ONCE 4096

static int decode_file(const cli_args *args, dt_ctx *ctx, const dt_tokenizer *k, const char *path)
{
    dt_tokens *t;
    int32_t ids[AT_ONCE];
    if (dt_tokens_open(ctx, path, 0, &t) != DT_OK) return cli_fail_file(args, ctx);
    const int64_t count = dt_tokens_count(t);
    dt_status s = DT_OK;
    for (int64_t i = 0; i < count && s == DT_OK; i += AT_ONCE) {
        const int64_t n = count - i < AT_ONCE ? count - i : AT_ONCE;
        s = dt_tokens_read(t, i, n, ids);
        if (s != DT_OK) break;
        for (int64_t j = 0; j < n && s == DT_OK; j++) {
            if (ids[j] < dt_tokenizer_vocab(k)) continue;
            s = dt_fail(ctx, DT_ERR_FORMAT, "%s: id %lld is %d; the tokenizer has %lld", path,
                        (long long)(i + j), ids[j], (long long)dt_tokenizer_vocab(k));
        }
        if (s != DT_OK) break;
        s = i == 0 ? dt_tokenizer_decode(k, ids, n, false, cli_stdout, NULL)
                   : dt_tokenizer_decode_on(k, ids, n, false, cli_stdout, NULL);
    }
    dt_tokens_free(t);
    return s == DT_OK || s == DT_ERR_IO ? cli_written(s) : cli_fail_by(args, ctx);
}

static int decode(const cli_args *args, dt_ctx *ctx, const dt_tokenizer *k)
{
    static const int others[] = { OUTPUT, SAVE, SPECIAL, WRAP, END, JSON };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (args->option[others[i]] == NULL) continue;
        return cli_fail(args, CLI_USAGE, "--decode and %s exclude each other",
                        args->command->options[others[i]].name);
    }
    int status = CLI_DONE;
    for (int i = 0; i < args->n_words && status == CLI_DONE; i++) {
        status = decode_file(args, ctx, k, args->words[i]);
    }
    return status;
}

int cli_tokenize(const cli_args *args, dt_ctx *ctx)
{
    dt_tokenizer *k = NULL;
    int status = make_tokenizer(args, ctx, &k);
    if (status == CLI_DONE) status = (args->option[DECODE] != NULL ? decode : encode)(args, ctx, k);
    dt_tokenizer_free(k);
    return status;
}
