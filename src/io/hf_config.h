/* What the readers and writers of config.json share (hf_config.c, hf_config_put.c,
 * hf_config_gpt2.c). */
#ifndef DT__IO_HF_CONFIG_H
#define DT__IO_HF_CONFIG_H

#include "io/hf.h"

/* Reads an object: known keys by their table, others by `other`, which must skip the value. null
 * means absent. */
dt_status dt__hf_read_object(dt__json *j, const dt_key *keys, void *options,
                             dt_status (*other)(dt__json *j, const char *name, void *options));

/* Of the whole config.json. */
dt_status dt__hf_config_read_gpt2(dt__json *j, dt_gpt_options *out);
/* `dtype` as config.json names it. */
dt_status dt__hf_config_put_gpt2(dt__chars *t, const dt_gpt_options *o, const char *dtype);

/* `,`, a line, the key and its value. */
void dt__hf_put_bool(dt__chars *t, const char *key, bool value);
void dt__hf_put_int(dt__chars *t, const char *key, int64_t value);
void dt__hf_put_real(dt__chars *t, const char *key, double value);
void dt__hf_put_text(dt__chars *t, const char *key, const char *value);

#endif
