/* Format c: integer-only models (detent/device.h). Images are [rows][columns][channels] in memory,
 * as in CMSIS-NN; values are int8_t codes from the input to the output. */
#ifndef DT__EXPORT_C_DEVICE_H
#define DT__EXPORT_C_DEVICE_H

#include "export/c/c_program.h"

/* Whether layers pass codes to each other: an integer-only model. */
bool dt__c_is_device(const dt_trace *t);
/* Whether an integer-only model can contain this call. Only quantization of inputs and
 * dequantization of outputs may compute floats; the caller does both. */
bool dt__c_takes_device(const dt_trace *t, const dt_trace_call *c, char *why, size_t size);
/* Whether a value is [rows][columns][channels] in memory: images, and signals as images of one row,
 * except inputs that have channels last already. */
bool dt__c_is_image(const dt_trace *t, int64_t value);
/* Whether the result is an alias of its operand. */
bool dt__c_is_device_view(const dt__c_program *p, const dt_trace_call *c);

/* Reorders a value to the export's order: to[k] is element k of [channels][rows][columns]. `back`:
 * the inverse. */
void dt__c_device_turn(const dt__c_program *p, int64_t value, bool back, const int8_t *from,
                       int8_t *to);

/* The coded value of an input after quantization, or of an output before dequantization. */
const dt_trace_value *dt__c_device_codes(const dt_trace *t, int64_t value);

/* Begins statements that call CMSIS-NN; with `plain`, those used without it; dt__c_end_cmsis ends
 * both. `room`: bytes of scratch memory that CMSIS-NN needs on any processor; a statement names it
 * `room`. */
void dt__c_begin_cmsis(dt__c_program *p, const char *text, size_t room);
void dt__c_begin_plain(dt__c_program *p);
void dt__c_end_cmsis(dt__c_program *p);

/* Writes the tables of a product's weight, as constant w<call> of type device_matrix. `depthwise`:
 * one channel per group. Returns the bits per code, 4 or 8; 0 after an error. */
int dt__c_device_weight(dt__c_program *p, const dt_trace_call *c, int activation, bool depthwise);

#endif
