/* Random networks and quantization settings, for suites that check a promise on many networks:
 * convolutional networks (images and signals, transposed or not, groups, norms, pools, with or
 * without a linear head), and networks of the families, language models included. */
#ifndef RANDOM_NETS_H
#define RANDOM_NETS_H

#include "core/core.h"

#include <detent/experimental/nn.h>
#include <detent/experimental/qat.h>

#define RANDOM_NET_DEEPEST 4

typedef struct random_layer {
    bool transposed, norm;
    dt_conv_layer conv;
    int activation;
    int pool; /* pool behind it: 0 none, 1 max, 2 average */
    dt_pool_options window;
} random_layer;

typedef struct random_net {
    uint64_t seed;
    const dt_family *family; /* NULL: `layers` describe the network */
    int axes;                /* 2: images, 1: signals */
    int64_t batch, channels, size[2];
    int n;
    random_layer layers[RANDOM_NET_DEEPEST];
    bool average;              /* the head reads the mean of each channel; else all values */
    int64_t features, outputs; /* of the head; outputs 0: none */
    dt_qat_options qat;
    bool float_step; /* a step before prepare */
    bool freeze;     /* folded norms, after a step, before one more */
    union {
        dt_mlp_options mlp;
        dt_cnn_options cnn;
        dt_resnet_options resnet;
        dt_unet_options unet;
        dt_gpt_options gpt;
        dt_llama_options llama;
    } options;             /* of the family */
    int64_t vocab, tokens; /* of a language model: its input is [batch, tokens] of ids; else 0 */
} random_net;

/* The network of a seed. */
random_net random_net_of(uint64_t seed);
/* A network of a family: "mlp", "cnn", "resnet" or "unet", whose inputs are images, "gpt" or
 * "llama". */
random_net random_net_of_family(uint64_t seed, const char *family);

/* Creates the network with random weights, and a batch that fits it. */
dt_module *random_net_create(dt_ctx *ctx, const random_net *d);
dt_tensor *random_net_input(dt_ctx *ctx, const random_net *d);
/* Replaces the batch in x by the next one, of as many bytes. */
void random_net_fill(const random_net *d, dt_tensor *x);
/* A batch in training mode, which initializes static and learned ranges. */
void random_net_observe(dt_ctx *ctx, const random_net *d, dt_module *m);

/* From now on *calls counts the calls of m's modules that have no children. */
dt_status random_net_count_calls(dt_module *m, int64_t *calls);

/* Saves and loads the network; one without a family is built first. */
void random_net_save(const random_net *d, dt_module *m, const char *path);
dt_module *random_net_load(dt_ctx *ctx, const random_net *d, const char *path);

#endif
