// A model in TensorFlow Lite Micro's interpreter, for tflm_run.c.
#include <cstddef>
#include <cstdint>

#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"
#include "tensorflow/lite/schema/schema_generated.h"

namespace {
alignas(16) const unsigned char model[] = {
#include "model_bytes.inc"
};
alignas(16) uint8_t arena[192 * 1024];
tflite::MicroInterpreter *interpreter;
}  // namespace

extern "C" {
void *__dso_handle;  // of destructors, which a board never runs
int tflm_begin(void);
int8_t *tflm_input(void);
const int8_t *tflm_output(void);
int tflm_invoke(void);
size_t tflm_arena(void);
}

// 0: the model is ready.
int tflm_begin(void)
{
    static tflite::MicroMutableOpResolver<10> ops;
    ops.AddConv2D();
    ops.AddDepthwiseConv2D();
    ops.AddFullyConnected();
    ops.AddMaxPool2D();
    ops.AddAveragePool2D();
    ops.AddReshape();
    ops.AddAdd();
    ops.AddPad();
    ops.AddSoftmax();
    ops.AddTranspose();
    static tflite::MicroInterpreter made(tflite::GetModel(model), ops, arena, sizeof arena);
    interpreter = &made;
    return interpreter->AllocateTensors() != kTfLiteOk;
}

int8_t *tflm_input(void) { return interpreter->input(0)->data.int8; }
const int8_t *tflm_output(void) { return interpreter->output(0)->data.int8; }
int tflm_invoke(void) { return interpreter->Invoke() != kTfLiteOk; }
size_t tflm_arena(void) { return interpreter->arena_used_bytes(); }
