/* Format c: models of integers alone (detent/device.h). Images lie as [rows][columns][channels], as
 * CMSIS-NN has them; codes are int8_t from the input to the output. */
#ifndef DT__EXPORT_C_DEVICE_H
#define DT__EXPORT_C_DEVICE_H

#include "export/c/c_program.h"

/* Whether a trace has codes from layer to layer. */
bool dt__c_is_device(const dt_trace *t);
/* Whether such a model takes a call: nothing computes floats but the quantization of inputs and the
 * dequantization of outputs, which are the caller's. */
bool dt__c_takes_device(const dt_trace *t, const dt_trace_call *c, char *why, size_t size);
/* Whether a value lies as [rows][columns][channels]: images, and lines as images of one row, but
 * for an input that has its channels last already. */
bool dt__c_is_image(const dt_trace *t, int64_t value);
/* Whether the result is its operand, under another name. */
bool dt__c_is_device_view(const dt__c_program *p, const dt_trace_call *c);

/* Elements of a value in the export's order: to[k] is element k of a [channels][rows][columns].
 * `back`: the other way. */
void dt__c_device_turn(const dt__c_program *p, int64_t value, bool back, const int8_t *from,
                       int8_t *to);

/* The coded value that an input becomes, or that an output is or was. */
const dt_trace_value *dt__c_device_codes(const dt_trace *t, int64_t value);

/* Statements that follow are those of CMSIS-NN, then (`plain`) those without it; dt__c_end_cmsis
 * ends them. `room` bytes are what CMSIS-NN needs on any processor, as `room` in a statement. */
void dt__c_begin_cmsis(dt__c_program *p, const char *text, size_t room);
void dt__c_begin_plain(dt__c_program *p);
void dt__c_end_cmsis(dt__c_program *p);

/* The tables of a product, as constant w<call> of type device_matrix. `depthwise`: one channel a
 * group. Returns its bits, 4 or 8; 0 after a failure. */
int dt__c_device_weight(dt__c_program *p, const dt_trace_call *c, int activation, bool depthwise);

#endif
