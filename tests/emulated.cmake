# detent-test-emulated: suites whose kernels of every instruction set run through SIMDe, on any x86.
# Kernels of a set are compiled again without its flags, and so is the code that detects instruction
# sets; the rest comes from the library.
if(NOT simd STREQUAL x86)
    message(FATAL_ERROR "DETENT_EMULATE runs the kernels of x86: set DETENT_SIMD")
endif()
find_path(SIMDE simde/x86/avx512.h)
if(NOT SIMDE)
    message(FATAL_ERROR "DETENT_EMULATE needs SIMDe: install Debian's libsimde-dev")
endif()

set(emulated kernels sets panels qgemm gemm quant fidelity qlinear integer_linear blocks linear_act
    fake_quant optim ops)
set(costs gemm:7 qlinear:5 qgemm:4 ops:4 kernels:3 linear_act:3) # seconds

file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/kernels/x86/*.c)
list(APPEND sources ${PROJECT_SOURCE_DIR}/src/kernels/cpu.c ${PROJECT_SOURCE_DIR}/src/kernels/sets.c)
add_library(detent_kernels_emulated OBJECT ${sources})

set(list "")
set(sources main.c testing.c) # which asks how many draws there are
foreach(topic IN LISTS emulated)
    list(APPEND sources test_${topic}.c)
    string(APPEND list "SUITE(${topic})\n")
    add_test(NAME emulated-${topic} COMMAND detent-test-emulated ${topic})
    set_tests_properties(emulated-${topic} PROPERTIES TIMEOUT 7200)
endforeach()
foreach(cost IN LISTS costs)
    string(REPLACE ":" ";" pair ${cost})
    list(GET pair 0 topic)
    list(GET pair 1 seconds)
    set_tests_properties(emulated-${topic} PROPERTIES COST ${seconds})
endforeach()
file(CONFIGURE OUTPUT emulated/suites.inc CONTENT "${list}" @ONLY)

# The emulated kernels precede the library, so that the linker does not take the library's.
add_executable(detent-test-emulated ${sources} $<TARGET_OBJECTS:detent_kernels_emulated>)
set_target_properties(detent-test-emulated PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
foreach(target detent_kernels_emulated detent-test-emulated)
    target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/emulated
        ${CMAKE_CURRENT_SOURCE_DIR})
    target_include_directories(${target} SYSTEM PRIVATE ${SIMDE} ${PROJECT_BINARY_DIR}/generated)
    target_compile_definitions(${target} PRIVATE DETENT_EMULATE=1 TEST_SANITIZED=1 # as slow
        DETENT_SOURCE_DIR="${PROJECT_SOURCE_DIR}" DETENT_BINARY_DIR="${PROJECT_BINARY_DIR}")
    # its warning concerns vectors passed between files: there are none
    target_compile_options(${target} PRIVATE -Wno-psabi)
    target_link_libraries(${target} PRIVATE detent_flags PkgConfig::TEST_DEPS)
endforeach()
target_compile_options(detent_kernels_emulated PRIVATE -O1)
target_compile_options(detent-test-emulated PRIVATE -O1)
target_link_libraries(detent-test-emulated PRIVATE detent-test-parts detent_static)
target_link_options(detent-test-emulated PRIVATE ${failing})
