/* figures.h: effects of quantization on each layer of a model, measured on a batch: the noise in
 * weight and input, clipped values, unused codes. */
#ifndef DETENT_EXPERIMENTAL_FIGURES_H
#define DETENT_EXPERIMENTAL_FIGURES_H

#include <detent/experimental/qat.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The largest number of codes that are counted. */
#define DT_FIGURE_CODES 256
/* The number of bins of a histogram. */
#define DT_FIGURE_BINS 48

/* The figures of one quantized tensor x, whose dequantized values are x^. */
typedef struct dt_quant_figures {
    bool given;       /* the tensor is quantized, and a pass used it */
    bool compared;    /* x is known; false for a converted weight, which has no master */
    int64_t elements; /* of x */
    /* 10 log10(sum x^2 / sum (x - x^)^2) in dB; infinite without any error. `snr`, `clipped` and
     * `bin` are set only if `compared` */
    double snr;
    double clipped; /* share of elements outside the range of the codes */
    double dead;    /* share of the code values that no element has */
    double least_scale, most_scale;
    int64_t codes;                 /* number of codes: 2^bits */
    int64_t code[DT_FIGURE_CODES]; /* number of elements with each code, the lowest code first */
    double bound;                  /* largest magnitude in x */
    int64_t bin[DT_FIGURE_BINS];   /* number of elements in equal parts of -bound ... bound */
} dt_quant_figures;

/* The figures of one layer. */
typedef struct dt_layer_figures {
    const char *path, *type; /* lent for the call */
    dt_quant_spec weight_quant, input_quant;
    char weight_scheme[96], input_scheme[96]; /* "int4 symmetric group 32"; "": float */
    dt_quant_figures weight, input;
} dt_layer_figures;

/* Called with the figures of each layer. */
typedef void (*dt_figures_visit)(void *user, const dt_layer_figures *layer);

/* Runs m on the batch x in evaluation mode, without gradients, and visits every layer with a
 * quantized weight or input, in the order of the module tree. The weight is the one that the layer
 * computes with, including a folded norm or an adapter. The input is that of the layer's first
 * call, after a learned shift. A layer whose fake quantization is disabled counts as float. The
 * model keeps its mode, and no random numbers are drawn. Errors: STATE (m is neither prepared nor
 * converted), those of the model, NUMERIC (a value that is not finite), NOMEM. */
DT_API dt_status dt_figures(dt_module *m, dt_tensor *x, dt_figures_visit visit, void *user);

#ifdef __cplusplus
}
#endif
#endif
