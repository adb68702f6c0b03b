# The z series: 64 bits, big-endian.
set(foreign s390x)
set(triplet s390x-linux-gnu)
set(compiler s390x-linux-gnu-gcc)
set(emulator qemu-s390x)
# gcc would compute floats in double here, as ISO C allows, and round them twice
set(CMAKE_C_FLAGS_INIT -fexcess-precision=fast)
include(${CMAKE_CURRENT_LIST_DIR}/foreign.cmake)
