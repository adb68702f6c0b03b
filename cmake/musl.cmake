# x86-64 with musl in place of glibc, by Debian's wrapper of gcc. The libraries are compiled from
# Debian's sources by `scripts/foreign-root musl`; programs run without an emulator, and oneDNN and
# OpenBLAS, which are glibc's here, are not loaded.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
get_filename_component(root ${CMAKE_CURRENT_LIST_DIR}/../build/musl-root ABSOLUTE)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES DETENT_MUSL_LIBRARIES)
if(NOT DETENT_MUSL_LIBRARIES AND NOT EXISTS ${root}/done) # the script sets it for the libraries
    message(FATAL_ERROR "${root} has no libraries: run scripts/foreign-root musl")
endif()
set(CMAKE_C_COMPILER musl-gcc)
set(CMAKE_FIND_ROOT_PATH ${root})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} ${root}/lib/pkgconfig:${root}/share/pkgconfig)
set(CMAKE_C_FLAGS_INIT "-isystem ${root}/include")
# The wrapper omits this option of gcc: the table by which a program finds its unwinding tables.
set(CMAKE_EXE_LINKER_FLAGS_INIT -Wl,--eh-frame-hdr)
