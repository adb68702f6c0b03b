/* Format c: the emitters of all ops. */
#include "export/c/c_emit.h"

#include <string.h>

static const dt__c_emitter *const lists[] = {
    dt__c_emit_products, dt__c_emit_convs, dt__c_emit_maps,     dt__c_emit_shapes, dt__c_emit_pools,
    dt__c_emit_norms,    dt__c_emit_cells, dt__c_emit_language, dt__c_emit_device,
};

static const dt__c_emitter *c_emitter_at(int i)
{
    for (int k = 0; k < DT__COUNT_OF(lists); k++) {
        for (const dt__c_emitter *e = lists[k]; e->op != NULL; e++) {
            if (i-- == 0) return e;
        }
    }
    return NULL;
}

const dt__c_emitter *dt__c_emitter_of(const char *op)
{
    const dt__c_emitter *e;
    for (int i = 0; (e = c_emitter_at(i)) != NULL; i++) {
        if (strcmp(e->op, op) == 0) return e;
    }
    return NULL;
}
