/* FakeQuantTensors and packed parameters: codes computed from values, and values from codes. */
#ifndef DT__QAT_QUANTIZED_H
#define DT__QAT_QUANTIZED_H

#include "autograd/codes.h"
#include "qat/schemes/scheme.h"

#include <detent/experimental/qat.h>

/* A FakeQuantTensor. The handle itself is a dense view of the master's storage. `inner` is the
 * wrapped tensor: a parameter's master, which in-place ops write, or a tensor of the tape, which
 * backward passes the gradient on to. The cache of codes is attached to `inner`, so that all
 * wrappers of one tensor share it. */
typedef struct dt__fq {
    dt_tensor *inner;
    dt_quant_spec quant;
    bool enabled;
    bool simulated;     /* products multiply dequantized values in fp32 */
    bool int8_backward; /* of a weight: dt_set_backward chose integers for its gradients */
    int estimator;      /* of a weight: DT_ESTIMATOR_..., with its strength: dt_set_estimator */
    double strength;
    bool samples;    /* of activations: a row of codes is all dimensions but the first */
    dt__row_map map; /* of a weight */
    /* The static or learned range: f32 and i8, one element or one per block, with references. scale
     * NULL: the range is dynamic; zero_point NULL: all 0. */
    dt_tensor *scale, *zero_point;
    dt_tensor *count; /* i64: 0 until a weight's range is initialized; NULL: it always is */
    /* Backward needs the values, for the gradient of the scale or an estimator: codes keep them or
     * their residuals. */
    bool keeps;
    struct dt__renewal *renewal; /* while the master is written block by block */
} dt__fq;

/* A converted parameter: codes and nothing else. */
typedef struct dt__packed {
    dt_quant_spec quant;
    bool simulated;
    dt__codes *codes;
} dt__packed;

extern const dt__kind dt__fake_quant_kind, dt__packed_kind;

/* The spec and the row map of a quantized parameter; NULL for a plain one. */
const dt_quant_spec *dt__quant_of(const dt_tensor *x);
const dt__row_map *dt__row_map_of_weight(const dt_tensor *x);
bool dt__is_simulated(const dt_tensor *x);

/* Makes the codes of a dense f32 tensor by the settings of a wrapper. `name` is for messages. */
dt_status dt__codes_make(const dt_tensor *x, const dt__fq *like, const char *name, dt__codes **out);
/* Returns codes of a wrapper, from the cache if its master was not written since; retained. */
dt_status dt__fq_codes(dt_tensor *x, dt__codes **out);
/* Initializes the range of a weight if necessary, then returns codes as dt__fq_codes; NULL while x
 * is disabled. `t` may be NULL. */
dt_status dt__fq_made(dt_tape *t, dt_tensor *x, dt__codes **out);
/* Frees cached codes of x that are not of its present version. */
void dt__codes_drop_stale(dt_tensor *x);

/* Renewal of codes in place (codes_renew.c), by the contract of dt__kind.write_begin. Begin returns
 * false where codes cannot be renewed: there are none yet, others hold a reference on them, x is
 * disabled, or one pass over rows in memory order does not make them (granularity tensor, zero
 * points, a row map, a static or learned range). A dt__renewal must not move in memory. */
typedef struct dt__renewal {
    dt_tensor *master;
    dt__codes *codes;
    dt__coding coding;
    dt__panel_source source;
    _Atomic int64_t clipped, renewed;
    struct dt__cached_codes *cached;
} dt__renewal;

bool dt__renew_begin(dt_tensor *x, dt__renewal *r);
void dt__renew_panel(dt__renewal *r, int64_t panel);
void dt__renew_end(dt__renewal *r);
/* The functions of the kind FakeQuantTensor for these. */
const dt__panel_layout *dt__fq_write_begin(dt_tensor *x);
void dt__fq_written(dt_tensor *x, int64_t first, int64_t end);
void dt__fq_write_end(dt_tensor *x);

/* The shape of a weight, and the order of its rows. */
typedef struct dt__weight_shape {
    const dt__row_map *map;
    int rank;
    const int64_t *dims;
} dt__weight_shape;

static inline dt__weight_shape dt__weight_shape_of(const dt_tensor *x, const dt__row_map *map)
{
    return (dt__weight_shape){ map, x->rank, x->dims };
}

/* Rank and extents of the weight with rows first: [rows, columns] of a transposed weight,
 * [N * out, ...] of a grouped one, else those of the weight. */
int dt__matrix_dims(const dt__weight_shape *w, int64_t *out);
/* How the weight is cut into blocks: dt__cut_of its rows. With granularity tensor each expert of a
 * grouped weight has a scale: rows [experts][out * ...] of one group. Errors: SHAPE. */
dt_status dt__weight_cut(dt_ctx *ctx, const dt_quant_spec *quant, const dt__weight_shape *w,
                         dt__cut *out);
/* The layout of the weight's rows in panels and in files. Errors: SHAPE; UNSUPPORTED (no panels can
 * hold it). */
dt_status dt__weight_layout(dt_ctx *ctx, const dt_quant_spec *quant, const dt__weight_shape *w,
                            dt__panel_layout *out);
/* *made = x with rows first, as a new contiguous tensor; NULL where x has this form already. */
dt_status dt__matrix_of(const dt_tensor *x, const dt__row_map *map, dt_tensor **made);
/* Packs codes from rows. Where groups are not consecutive columns, the panels get a column order.
 * Errors: ARG (groups that do not have the layout's sizes), NOMEM. */
dt_status dt__codes_from_rows(dt_ctx *ctx, const dt__panel_layout *layout, bool simulated,
                              const dt_code_rows *rows, dt__codes **out);
/* The number of op groups with a column order; 0: scale groups are consecutive columns. */
int64_t dt__codes_op_groups(const dt__codes *codes);
/* Unpacks codes into rows, in buffers of the layout's extents; `group_of` where there is a column
 * order. */
void dt__codes_to_rows(const dt__codes *codes, const dt_code_rows *rows);

/* Turns a plain parameter into an enabled FakeQuantTensor by the settings of `like`, on the same
 * handle; unwrap turns it back. */
dt_status dt__fq_wrap(dt_tensor *w, const dt__fq *like);
void dt__fq_unwrap(dt_tensor *w);
/* Turns a parameter into a packed one, on the same handle; frees its storage, gradient and codes.
 * Takes ownership of `packed` (from dt__alloc) and of its reference on codes. */
void dt__packed_take(dt_tensor *w, dt__packed *packed);
/* Wraps a tensor of the tape for this pass, with the settings and flags of `like`. */
dt_tensor *dt__fake_quant_as(dt_tape *t, dt_tensor *x, const dt__fq *like);

/* Choices and checks that tables of keys refer to. */
extern const char *const dt__preset_names[], *const dt__forward_names[];
extern const char *const dt__estimator_names[];
/* The largest strength of an estimator; 0: it has none. */
double dt__estimator_most(int estimator);
extern const dt_key dt__qat_rule_keys[];
/* Keys of the fields of a dt_quant_spec except `activation`, for files; those of a static or
 * learned range are in a table of their own. */
extern const dt_key dt__quant_keys[], dt__range_keys[];

bool dt__same_quant(const dt_quant_spec *a, const dt_quant_spec *b);
/* "int4 symmetric group 32" into text; returns text. */
char *dt__quant_text(const dt_quant_spec *quant, char *text, size_t size);

#endif
