"""Runs a converted model by ctypes, without a binding:
    python3 run_model.py MODEL SHAPE < NUMBERS        such as  m.safetensors 1,28,28 < pixels.txt
One example a row of numbers; prints the outputs of each. DETENT_LIBRARY names the library."""
import array
import ctypes as c
import os
import sys

lib = c.CDLL(os.environ.get("DETENT_LIBRARY", "libdetent.so.0"))
pointer, f32 = c.c_void_p, 0  # DT_F32
lib.dt_error.restype = c.c_char_p
lib.dt_error.argtypes = [pointer]
lib.dt_ctx_create.argtypes = [pointer, pointer]
lib.dt_tape_create.argtypes = [pointer, pointer]
lib.dt_no_grad.argtypes = [pointer, c.c_bool]
lib.dt_model_load.argtypes = [pointer, c.c_char_p, pointer, pointer]
lib.dt_train.argtypes = [pointer, c.c_bool]
lib.dt_tensor_from.argtypes = [pointer, c.c_int, c.c_int, pointer, pointer, pointer]
lib.dt_forward.restype = pointer
lib.dt_forward.argtypes = [pointer, pointer, pointer]
lib.dt_contiguous.restype = pointer
lib.dt_contiguous.argtypes = [pointer, pointer]
lib.dt_count.restype = c.c_int64
lib.dt_count.argtypes = [pointer]
lib.dt_data.restype = pointer
lib.dt_data.argtypes = [pointer]
for name in ("dt_tensor_free", "dt_module_free", "dt_tape_free", "dt_ctx_free"):
    getattr(lib, name).argtypes = [pointer]

ctx, tape, model, x = pointer(), pointer(), pointer(), pointer()


def check(status):
    """A status other than 0 is an error, whose message the context has."""
    if status != 0:
        sys.exit(f"run_model: {lib.dt_error(ctx).decode()}")


path, shape = sys.argv[1], [int(n) for n in sys.argv[2].split(",")]
numbers = array.array("f", (float(n) for n in sys.stdin.read().split()))
size = 1
for n in shape:
    size *= n
rows = len(numbers) // size
if rows == 0 or rows * size != len(numbers):
    sys.exit(f"run_model: {len(numbers)} numbers, not a multiple of {size}")

check(lib.dt_ctx_create(c.byref(ctx), None))
check(lib.dt_tape_create(ctx, c.byref(tape)))
check(lib.dt_model_load(ctx, path.encode(), c.byref(model), None))
lib.dt_train(model, False)
lib.dt_no_grad(tape, True)
dims = (c.c_int64 * (len(shape) + 1))(rows, *shape)
data = (c.c_float * len(numbers)).from_buffer(numbers)
check(lib.dt_tensor_from(ctx, f32, len(dims), dims, data, c.byref(x)))
y = lib.dt_contiguous(tape, lib.dt_forward(tape, model, x))  # lent by the tape
if y is None:
    sys.exit(f"run_model: {lib.dt_error(ctx).decode()}")
count = lib.dt_count(y) // rows
out = c.cast(lib.dt_data(y), c.POINTER(c.c_float))
for i in range(rows):
    print(" ".join(f"{out[i * count + k]:.9g}" for k in range(count)))
lib.dt_tensor_free(x)
lib.dt_module_free(model)
lib.dt_tape_free(tape)
lib.dt_ctx_free(ctx)
