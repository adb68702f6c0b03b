/* detent's integer products beside oneDNN's plain int8: its inner product of u8 [m, k] and s8 [n,
 * k] into s32 (at one row twice as fast as its matmul, elsewhere the same), the weights in whatever
 * layout it likes best, as detent's are packed. One primitive for each shape, with a scratchpad of
 * ours, made for as many threads as run it.
 *
 *     bench/onednn [--json] [--quick]        rows of `detent-bench --only products,convolutions`
 *
 * Its convolutions are of u8 and s8 into floats, all three in layouts that it likes best.
 */
#include "bench/bench.h"

#include <dnnl.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SOURCE, WEIGHTS, RESULT, SCRATCH, OPERANDS };

typedef struct product {
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t arguments[OPERANDS];
} product;

/* ---- memory --------------------------------------------------------------------------------- */

static void need(dnnl_status_t status, const char *what)
{
    if (status == dnnl_success) return;
    fprintf(stderr, "bench/onednn: %s: status %d\n", what, (int)status);
    exit(1);
}

static dnnl_memory_desc_t matrix(int64_t rows, int64_t columns, dnnl_data_type_t type,
                                 dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t d;
    const dnnl_dims_t dims = { rows, columns };
    need(dnnl_memory_desc_init_by_tag(&d, 2, dims, type, tag), "a matrix");
    return d;
}

/* Memory of oneDNN's own, filled with bytes that are neither constant nor zero. */
static dnnl_memory_t allocate(const dnnl_memory_desc_t *d, dnnl_engine_t engine)
{
    dnnl_memory_t memory;
    void *data;
    need(dnnl_memory_create(&memory, d, engine, DNNL_MEMORY_ALLOCATE), "memory");
    need(dnnl_memory_get_data_handle(memory, &data), "memory");
    unsigned char *bytes = data;
    const size_t n = bytes == NULL ? 0 : dnnl_memory_desc_get_size(d);
    for (size_t i = 0; i < n; i++) bytes[i] = (unsigned char)(i * 37 % 251);
    return memory;
}

/* ---- a product ------------------------------------------------------------------------------ */

/* A primitive descriptor, with scratch memory of the caller. */
static dnnl_primitive_desc_t describe_op(dnnl_engine_t engine, const void *what)
{
    dnnl_primitive_attr_t attributes;
    dnnl_primitive_desc_t how;
    need(dnnl_primitive_attr_create(&attributes), "attributes");
    need(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user), "scratch");
    need(dnnl_primitive_desc_create(&how, what, attributes, engine, NULL), "a primitive");
    dnnl_primitive_attr_destroy(attributes);
    return how;
}

static dnnl_primitive_desc_t describe(dnnl_engine_t engine, const dnnl_memory_desc_t *u,
                                      const dnnl_memory_desc_t *w, const dnnl_memory_desc_t *y)
{
    dnnl_inner_product_desc_t what;
    need(dnnl_inner_product_forward_desc_init(&what, dnnl_forward_inference, u, w, NULL, y),
         "a product");
    return describe_op(engine, &what);
}

/* The primitive with its operands; releases `how`. */
static product *make(dnnl_engine_t engine, dnnl_primitive_desc_t how)
{
    static const struct {
        dnnl_query_t query;
        int argument;
    } operands[OPERANDS] = { [SOURCE] = { dnnl_query_src_md, DNNL_ARG_SRC },
                             [WEIGHTS] = { dnnl_query_weights_md, DNNL_ARG_WEIGHTS },
                             [RESULT] = { dnnl_query_dst_md, DNNL_ARG_DST },
                             [SCRATCH] = { dnnl_query_scratchpad_md, DNNL_ARG_SCRATCHPAD } };
    product *p = calloc(1, sizeof *p);
    if (p == NULL) return NULL;
    need(dnnl_primitive_create(&p->primitive, how), "a primitive");
    need(dnnl_stream_create(&p->stream, engine, dnnl_stream_default_flags), "a stream");
    for (int i = 0; i < OPERANDS; i++) {
        const dnnl_memory_desc_t *d = dnnl_primitive_desc_query_md(how, operands[i].query, 0);
        p->arguments[i] = (dnnl_exec_arg_t){ operands[i].argument, allocate(d, engine) };
    }
    dnnl_primitive_desc_destroy(how);
    return p;
}

static void *open_product(void *user, int threads, const int64_t mnk[3])
{
    const int64_t m = mnk[0], n = mnk[1], k = mnk[2];
    omp_set_num_threads(threads);
    dnnl_engine_t engine = *(dnnl_engine_t *)user;
    const dnnl_memory_desc_t u = matrix(m, k, dnnl_u8, dnnl_ab);
    const dnnl_memory_desc_t w = matrix(n, k, dnnl_s8, dnnl_format_tag_any);
    const dnnl_memory_desc_t y = matrix(m, n, dnnl_s32, dnnl_ab);
    return make(engine, describe(engine, &u, &w, &y));
}

static dnnl_memory_desc_t images(int64_t n, int64_t channels, int64_t size, dnnl_data_type_t type)
{
    dnnl_memory_desc_t d;
    const dnnl_dims_t dims = { n, channels, size, size };
    need(dnnl_memory_desc_init_by_tag(&d, 4, dims, type, dnnl_format_tag_any), "images");
    return d;
}

static void *open_conv(void *user, int threads, const dt_bench_conv *c)
{
    if (c->groups != 1) return NULL;
    omp_set_num_threads(threads);
    dnnl_engine_t engine = *(dnnl_engine_t *)user;
    const dnnl_memory_desc_t u = images(c->batch, c->in, c->size, dnnl_u8);
    const dnnl_memory_desc_t w = images(c->out, c->in, 3, dnnl_s8);
    const dnnl_memory_desc_t y = images(c->batch, c->out, (c->size - 1) / c->stride + 1, dnnl_f32);
    const dnnl_dims_t stride = { c->stride, c->stride }, padding = { 1, 1 };
    dnnl_convolution_desc_t what;
    need(dnnl_convolution_forward_desc_init(&what, dnnl_forward_inference, dnnl_convolution_direct,
                                            &u, &w, NULL, &y, stride, padding, padding),
         "a convolution");
    return make(engine, describe_op(engine, &what));
}

static void run_product(void *user)
{
    const product *p = user;
    need(dnnl_primitive_execute(p->primitive, p->stream, OPERANDS, p->arguments), "a run");
    need(dnnl_stream_wait(p->stream), "a run");
}

static void close_product(void *user)
{
    product *p = user;
    for (int i = 0; i < OPERANDS; i++) dnnl_memory_destroy(p->arguments[i].memory);
    dnnl_primitive_destroy(p->primitive);
    dnnl_stream_destroy(p->stream);
    free(p);
}

/* ---- the program ---------------------------------------------------------------------------- */

/* Chooses OpenBLAS's core as src/bench/program.c does. oneDNN's own threads, which the rival uses,
 * sleep early, so that the library's threads have the processors. */
static void prepare_environment(char **argv)
{
    const bool chosen = getenv("OMP_WAIT_POLICY") != NULL;
    if (chosen && getenv("OPENBLAS_CORETYPE") == NULL) return;
    unsetenv("OPENBLAS_CORETYPE");
    if (setenv("OMP_WAIT_POLICY", "passive", 0) == 0) execv("/proc/self/exe", argv);
}

static dt_status print(void *user, const char *text, size_t bytes)
{
    (void)user;
    return fwrite(text, 1, bytes, stdout) == bytes && fflush(stdout) == 0 ? DT_OK : DT_ERR_IO;
}

static int measure(bool json, const dt_bench_options *options)
{
    dt_ctx *ctx;
    if (dt_ctx_create(&ctx, NULL) != DT_OK) return 1;
    const dt_status s = dt_bench_write(ctx, options, json, print, NULL);
    if (s != DT_OK) fprintf(stderr, "bench/onednn: %s\n", dt_error(ctx));
    dt_ctx_free(ctx);
    return s == DT_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    prepare_environment(argv);
    dt_bench_options options = dt_bench_defaults();
    options.parts = DT_BENCH_PRODUCTS | DT_BENCH_CONVOLUTIONS;
    bool json = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            json = true;
        } else if (strcmp(argv[i], "--quick") == 0) {
            options.quick = true;
        } else {
            fprintf(stderr, "usage: bench/onednn [--json] [--quick]\n");
            return 2;
        }
    }
    dnnl_engine_t engine;
    need(dnnl_engine_create(&engine, dnnl_cpu, 0), "the processor");
    options.rival = (dt_bench_rival){ .name = "onednn-int8",
                                      .open = open_product,
                                      .open_conv = open_conv,
                                      .run = run_product,
                                      .close = close_product,
                                      .user = &engine };
    const int status = measure(json, &options);
    dnnl_engine_destroy(engine);
    return status;
}
