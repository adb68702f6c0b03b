/* Format c: the emitters of all ops. */
#include "export/c/c_emit.h"
#include "export/trace/trace.h"

static const void *const lists[] = {
    dt__c_emit_products, dt__c_emit_convs, dt__c_emit_maps,     dt__c_emit_shapes, dt__c_emit_pools,
    dt__c_emit_norms,    dt__c_emit_cells, dt__c_emit_language, dt__c_emit_device,
};

const dt__c_emitter *dt__c_emitter_of(const char *op)
{
    return dt__row_of_op(lists, DT__COUNT_OF(lists), sizeof(dt__c_emitter), op);
}
