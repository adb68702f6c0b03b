/* plugin.h: shared objects that add losses, metrics, kinds of layers, families of models,
 * optimizers, quantization schemes and sources of data to a context, so that recipes and files may
 * name them.
 * dt_plugin_at of io.h lists them.
 *
 *     #include <detent/experimental/plugin.h>
 *     static dt_status start(dt_ctx *ctx) { return dt_loss_register(ctx, &my_loss); }
 *     DT_PLUGIN("mine", "a loss of mine", start)
 *
 *     cc -shared -fPIC -O2 mine.c -o mine.so       (not linked with detent: the program has it)
 *     detent train r.yaml --plugin ./mine.so
 */
#ifndef DETENT_EXPERIMENTAL_PLUGIN_H
#define DETENT_EXPERIMENTAL_PLUGIN_H

#include <detent/experimental/data.h>
#include <detent/experimental/io.h>
#include <detent/experimental/layers.h>
#include <detent/experimental/optim.h>
#include <detent/experimental/qat.h>
#include <detent/experimental/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Incremented when the interface of plugins changes although the sizes of structs do not. */
#define DT_PLUGIN_ABI 1

/* A number that differs if the structs of a plugin have other sizes. */
#define DT_PLUGIN_LAYOUT                                                                           \
    (((((((uint64_t)sizeof(dt_op) * 31 + sizeof(dt_call)) * 31 + sizeof(dt_key)) * 31 +            \
        sizeof(dt_loss)) *                                                                         \
           31 +                                                                                    \
       sizeof(dt_own_metric)) *                                                                    \
          31 +                                                                                     \
      sizeof(dt_family)) *                                                                         \
         31 +                                                                                      \
     sizeof(dt_layer_type) * 961 + sizeof(dt_data_source) * 29791 + sizeof(dt_module_type) * 17 +  \
     sizeof(dt_own_optimizer) * 13 + sizeof(dt_own_scheme) * 7 + sizeof(dt_quant_spec) * 5 +       \
     sizeof(dt_data_options))

typedef struct dt_plugin {
    int abi;         /* DT_PLUGIN_ABI of the headers that it was compiled with */
    uint64_t layout; /* DT_PLUGIN_LAYOUT likewise */
    const char *name;
    const char *text; /* one sentence */
    /* Registers the plugin's items. Called once for each context that loads the plugin; the items
     * must stay valid as long as the process. */
    dt_status (*start)(dt_ctx *ctx);
} dt_plugin;

/* The symbol by which dt_plugin_load finds a plugin. */
#if defined(__GNUC__)
#define DT_PLUGIN_VISIBLE __attribute__((visibility("default")))
#else
#define DT_PLUGIN_VISIBLE
#endif
#define DT_PLUGIN(NAME, TEXT, START)                                                               \
    extern const dt_plugin dt_this_plugin;                                                         \
    DT_PLUGIN_VISIBLE const dt_plugin dt_this_plugin = { DT_PLUGIN_ABI, DT_PLUGIN_LAYOUT, NAME,    \
                                                         TEXT, START };

/* Loads a shared object and starts it. `path` may end in "@xxh3:" and 16 digits, the hash that the
 * file must have. A file that the context has already loaded is not started again. The code of a
 * plugin runs in this process with all its rights. Errors: IO (no file), CONFIG (not a plugin;
 * compiled with other headers; a missing symbol; a different hash; a name that another plugin has),
 * those of its `start`, NOMEM. */
DT_API dt_status dt_plugin_load(dt_ctx *ctx, const char *path);

#ifdef __cplusplus
}
#endif
#endif
