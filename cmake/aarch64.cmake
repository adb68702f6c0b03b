# AArch64. QEMU_CPU in the environment chooses the processor (qemu's own default is one that has
# everything).
set(foreign aarch64)
set(triplet aarch64-linux-gnu)
set(compiler aarch64-linux-gnu-gcc)
set(emulator qemu-aarch64)
include(${CMAKE_CURRENT_LIST_DIR}/foreign.cmake)
