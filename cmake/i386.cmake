# 32 bits. SSE2 computes floats, since the x87 would round them twice. An x86-64 processor runs the
# programs itself, by the loader and the libraries that scripts/foreign-root unpacked.
set(foreign i386)
set(triplet i386-linux-gnu)
set(compiler i686-linux-gnu-gcc)
set(CMAKE_C_FLAGS_INIT "-msse2 -mfpmath=sse -Wno-psabi") # no notes about older compilers
include(${CMAKE_CURRENT_LIST_DIR}/foreign.cmake)
unset(CMAKE_CROSSCOMPILING_EMULATOR)
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,--dynamic-linker=${root}/lib/ld-linux.so.2 \
-Wl,--disable-new-dtags -Wl,-rpath,${root}/lib/${triplet}:${root}/usr/lib/${triplet}")
