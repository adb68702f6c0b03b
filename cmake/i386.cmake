# 32 bits. SSE2 computes floats, since the x87 would round them twice; the processor runs it itself,
# but the emulator finds the libraries.
set(foreign i386)
set(triplet i386-linux-gnu)
set(compiler i686-linux-gnu-gcc)
set(emulator qemu-i386)
set(CMAKE_C_FLAGS_INIT "-msse2 -mfpmath=sse")
include(${CMAKE_CURRENT_LIST_DIR}/foreign.cmake)
