/* Instructions of exported C, estimated. */
#ifndef DT__EXPORT_C_INSTRUCTIONS_H
#define DT__EXPORT_C_INSTRUCTIONS_H

#include "export/c/c_program.h"

/* Of one call for one example, on a Cortex-M4 (c_instructions.c). */
double dt__c_instructions(const dt__c_program *p, const dt_trace_call *c);

#endif
