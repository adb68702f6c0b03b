/* --format: reads from a model's file (detent.data) the format of prompts, or the form of chats,
 * that it was trained on, and applies it to prompts. */
#include "cli/cli.h"

#include "cli/print/text.h"
#include "cli/print/text_stream.h"

#include <detent/experimental/io.h>

#include <stdlib.h>
#include <string.h>

void cli_prompts_free(cli_prompts *p)
{
    free(p->format);
    free(p->system);
    *p = (cli_prompts){ .given = false };
}

static bool keep(const char *text, char **out)
{
    if (text == NULL) return true;
    *out = strdup(text);
    return *out != NULL;
}

void cli_prompts_advise(const cli_args *args, dt_ctx *ctx, const dt_model_info *info)
{
    dt_model_data data = { .target = NULL };
    const char *file = args->words[0];
    if (info->data == NULL || dt_model_data_parse(ctx, info->data, file, &data) != DT_OK) return;
    const bool chats = data.chat != DT_CHAT_AUTO;
    if (chats || data.prompt != NULL) {
        cli_tell(stderr, "detent %s: %s was trained on %s: --format puts the text into their form",
                 args->command->name, file, chats ? "chats" : "prompts of a format");
    }
    dt_model_data_free(ctx, &data);
}

int cli_prompts_read(const cli_args *args, dt_ctx *ctx, const dt_model_info *info, cli_prompts *out)
{
    dt_model_data data = { .target = NULL };
    const char *file = args->words[0];
    *out = (cli_prompts){ .given = true };
    if (info->data != NULL && dt_model_data_parse(ctx, info->data, file, &data) != DT_OK) {
        return cli_fail_file(args, ctx);
    }
    int status = CLI_DONE;
    out->chat = data.chat;
    if (data.prompt == NULL && data.chat == DT_CHAT_AUTO) {
        status = cli_fail(args, CLI_USAGE,
                          "--format: %s has no format of prompts; a run with data.prompt, or one "
                          "on chats, writes it into its files",
                          file);
    } else if (!keep(data.prompt, &out->format) || !keep(data.system, &out->system)) {
        status = cli_fail(args, CLI_FAILED, "out of memory");
    }
    dt_model_data_free(ctx, &data);
    return status;
}

static dt_status encode_formatted(const cli_prompts *p, const dt_tokenizer *k,
                                  const dt_message *text, const dt_encoding *how, dt_ids *ids)
{
    text_stream whole = { .to = NULL };
    dt_status s =
        dt_prompt_fill(ids->ctx, p->format, text->text, text->bytes, text_stream_add, &whole);
    if (s == DT_OK) s = dt_tokenizer_encode(k, whole.text, whole.n, how, ids);
    text_stream_free(&whole);
    return s;
}

dt_status cli_prompt_encode(const cli_prompts *p, const dt_tokenizer *k, const dt_message *text,
                            const dt_encoding *how, dt_ids *ids)
{
    const dt_chat chat = { p->chat, p->system };
    if (!p->given) return dt_tokenizer_encode(k, text->text, text->bytes, how, ids);
    if (p->format != NULL) return encode_formatted(p, k, text, how, ids);
    return dt_chat_prompt(k, &chat, text, 1, ids);
}
