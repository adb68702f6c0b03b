# Builds for Linux on another processor with Debian's cross compiler and the libraries that
# `scripts/foreign-root ${foreign}` unpacked, and runs tests under qemu-user. The file that includes
# this one sets `foreign`, `triplet` and `compiler`, and `emulator` where one is needed.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${foreign})

get_filename_component(root ${CMAKE_CURRENT_LIST_DIR}/../build/${foreign}-root ABSOLUTE)
if(NOT EXISTS ${root}/done)
    message(FATAL_ERROR "${root} has no libraries: run scripts/foreign-root ${foreign}")
endif()
set(CMAKE_SYSROOT ${root})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${root})
set(ENV{PKG_CONFIG_LIBDIR} ${root}/usr/lib/${triplet}/pkgconfig)

set(CMAKE_C_COMPILER ${compiler})
set(CMAKE_LIBRARY_ARCHITECTURE ${triplet})
set(CMAKE_CROSSCOMPILING_EMULATOR ${emulator} -L ${root})
