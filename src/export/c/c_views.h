/* Format c: options of calls by key, and how views access their operand. */
#ifndef DT__EXPORT_C_VIEWS_H
#define DT__EXPORT_C_VIEWS_H

#include "export/c/c_emit.h"

/* A pointer to the option of a call with this key, which the op must have. */
const void *dt__c_field(const dt_trace_call *c, const char *key);
/* Options by type; of a pair, element i. */
int64_t dt__c_int(const dt_trace_call *c, const char *key, int i);
double dt__c_real(const dt_trace_call *c, const char *key);
bool dt__c_flag(const dt_trace_call *c, const char *key);
const dt_ints *dt__c_ints(const dt_trace_call *c, const char *key);
/* A dimension that may count from the end. */

/* Element (i, j, ...) of a view is element offset + i strides[0] + ... of a contiguous operand. */
typedef struct dt__c_view {
    int rank;
    int64_t dims[DT_MAX_RANK], strides[DT_MAX_RANK], offset;
} dt__c_view;

/* The view that a slice, permute or transpose makes of its operand; false: another op. */
bool dt__c_view_of(const dt__c_program *p, const dt_trace_call *c, dt__c_view *v);
/* Whether the elements are contiguous and in order. */
bool dt__c_is_run(const dt__c_view *v);
/* Merges dimensions that are contiguous in memory, and drops those of extent 1; `other`: strides of
 * the result, along which they must also be mergeable. */
void dt__c_merge(dt__c_view *v, int64_t *other);
/* Whether the operands of a concatenation are contiguous parts of its result. */
bool dt__c_is_concat_run(const dt__c_program *p, const dt_trace_call *c);

#endif
