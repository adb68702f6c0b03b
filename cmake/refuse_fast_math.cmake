# Refuses -ffast-math and its parts among the flags of a user (CFLAGS, CMAKE_C_FLAGS, linker flags):
# kernels that must have the same bits everywhere would silently have others, and a program linked
# with it flushes denormal numbers. `cmake -DFLAGS=... -P refuse_fast_math.cmake` checks FLAGS.
cmake_policy(SET CMP0057 NEW) # IN_LIST, in script mode too
function(detent_refuse_fast_math flags)
    string(REGEX REPLACE "[ \t\n]+" ";" list "${flags}")
    set(refused -ffast-math -Ofast -funsafe-math-optimizations -fassociative-math
        -freciprocal-math -ffinite-math-only -fno-signed-zeros -fapprox-func -fno-honor-nans
        -fno-honor-infinities -fsingle-precision-constant -ffp-model=fast -ffp-model=aggressive
        -fp-model=fast -mdaz-ftz)
    foreach(flag IN LISTS list)
        if(flag IN_LIST refused)
            message(FATAL_ERROR "detent gives the same bits everywhere only without ${flag}: take "
                "it out of CFLAGS, CMAKE_C_FLAGS and linker flags")
        endif()
    endforeach()
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
    detent_refuse_fast_math("${FLAGS}")
endif()
