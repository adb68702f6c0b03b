/* What detent.c lacks: formats and tokenizers that it does not contain are refused by name. */
#include "core/ranks.h"
#include "io/gguf/gguf.h"
#include "io/hf/hf.h"

#include <detent/experimental/text.h>

#include <string.h>

/* ---- formats --------------------------------------------------------------------------------- */

dt_status dt__hf_open(dt_ctx *ctx, const char *folder, dt_file **out)
{
    *out = NULL;
    return dt_fail(ctx, DT_ERR_UNSUPPORTED,
                   "'%s' is a folder: detent.c reads files of detent and safetensors, and only the "
                   "whole library reads folders of Hugging Face",
                   folder);
}

dt_status dt__gguf_read(dt_file *file)
{
    return dt_fail(file->ctx, DT_ERR_UNSUPPORTED,
                   "'%s' is a GGUF file, which only the whole library reads, not detent.c",
                   file->path);
}

bool dt__is_numpy(const dt_file *file)
{
    return file->size >= 6 &&
           (memcmp(file->bytes, "\x93NUMPY", 6) == 0 || memcmp(file->bytes, "PK\3\4", 4) == 0);
}

dt_status dt__numpy_read(dt_file *file)
{
    return dt_fail(file->ctx, DT_ERR_UNSUPPORTED,
                   "'%s' is a file of NumPy, which only the whole library reads, not detent.c",
                   file->path);
}

dt_status dt_tokenizer_parse(dt_ctx *ctx, const char *text, size_t bytes, const char *name,
                             dt_tokenizer **out)
{
    (void)text;
    (void)bytes;
    if (out != NULL) *out = NULL;
    return dt_fail(ctx, DT_ERR_UNSUPPORTED,
                   "%s: only the whole library has tokenizers, not detent.c", name);
}

void dt_tokenizer_free(dt_tokenizer *k) { (void)k; }

dt_status dt_text_tokens_parse(dt_ctx *ctx, const char *text, const char *name, dt_text_tokens *out)
{
    *out = DT_NO_TEXT_TOKENS;
    if (text == NULL) return DT_OK;
    return dt_fail(ctx, DT_ERR_UNSUPPORTED,
                   "%s: only the whole library reads tokens of texts, not detent.c", name);
}

/* Without plugins. */
const dt_plugin_info *dt_plugin_at(const dt_ctx *ctx, int64_t i)
{
    (void)ctx;
    (void)i;
    return NULL;
}

dt_status dt__plugins_put(dt_writer *w, dt_ctx *ctx)
{
    (void)w;
    (void)ctx;
    return DT_OK;
}

dt_status dt__plugins_check(const dt_file *file)
{
    if (dt_file_meta(file, DT__KEY_PLUGINS) == NULL) return DT_OK;
    return dt_fail(file->ctx, DT_ERR_FORMAT, "%s: needs plugins, which detent.c does not load",
                   file->path);
}
