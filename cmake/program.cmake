# The program, the examples, the benchmarks.
# ---- the program: public headers alone ---------------------------------------------------------
detent_sources(sources src/cli)
if(sources AND NOT DETENT_LAYERS)
    list(REMOVE_ITEM sources ${PROJECT_SOURCE_DIR}/src/cli/entry.c)
    add_library(detent_cli STATIC ${sources})
    target_include_directories(detent_cli PRIVATE src) # for "cli/..."
    # utf8proc: widths of characters on a terminal
    target_link_libraries(detent_cli PRIVATE detent_strict PkgConfig::DETENT_DEPS
        PUBLIC detent_static)
    add_executable(detent src/cli/entry.c)
    target_include_directories(detent PRIVATE src)
    target_link_libraries(detent PRIVATE detent_strict detent_cli)
    # plugins use the library's functions in the program, also those that it does not call itself
    set_target_properties(detent PROPERTIES ENABLE_EXPORTS ON
        LINK_LIBRARY_OVERRIDE "WHOLE_ARCHIVE,detent_static")
    target_link_options(detent PRIVATE -Wl,--gc-sections)
endif()

# Suites start programs by their names, also those that need an emulator: a script of that name
# starts them. The programs stay in their folder, from which `detent` finds the shipped recipes.
function(under_emulator target folder name)
    if(NOT CMAKE_CROSSCOMPILING_EMULATOR)
        return()
    endif()
    set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name}.foreign)
    string(JOIN " " emulator ${CMAKE_CROSSCOMPILING_EMULATOR})
    file(GENERATE OUTPUT ${folder}/${name}
        CONTENT "#!/bin/sh\nexec ${emulator} '${folder}/${name}.foreign' \"$@\"\n"
        FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endfunction()
if(TARGET detent)
    under_emulator(detent ${PROJECT_BINARY_DIR} detent)
endif()

# ---- detent-bench: sees all of src/ and is not installed ----------------------------------------
detent_sources(sources src/bench)
list(REMOVE_ITEM sources ${PROJECT_SOURCE_DIR}/src/bench/program.c)
add_library(detent_bench STATIC ${sources})
target_link_libraries(detent_bench PRIVATE detent_flags PUBLIC detent_static)
if(NOT DETENT_LAYERS)
    add_executable(detent-bench src/bench/program.c)
    target_include_directories(detent-bench PRIVATE src)
    target_link_libraries(detent-bench PRIVATE detent_strict detent_bench)
    target_link_options(detent-bench PRIVATE -Wl,--gc-sections)
    under_emulator(detent-bench ${PROJECT_BINARY_DIR} detent-bench)
endif()

# ---- examples, and comparisons with other libraries ---------------------------------------------
foreach(folder examples bench)
    file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.c)
    foreach(source IN LISTS sources)
        get_filename_component(name ${source} NAME_WE)
        add_executable(${folder}-${name} ${source})
        set_target_properties(${folder}-${name} PROPERTIES OUTPUT_NAME ${name}
            RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${folder})
        if(name STREQUAL "onednn") # joins the rows of detent-bench
            target_include_directories(${folder}-${name} PRIVATE src)
            target_link_libraries(${folder}-${name} PRIVATE detent_strict detent_bench m)
        else()
            target_link_libraries(${folder}-${name} PRIVATE detent_strict detent_${linked} m)
        endif()
        if(name STREQUAL "ranks") # what modules for MPI give
            target_include_directories(${folder}-${name} PRIVATE src)
            target_link_libraries(${folder}-${name} PRIVATE ${CMAKE_DL_LIBS})
        endif()
        list(APPEND ${folder}_targets ${folder}-${name})
    endforeach()
endforeach()
under_emulator(bench-accumulators ${PROJECT_BINARY_DIR}/bench accumulators)

# plugins for the program, in which they find the library's functions
set(plugins examples/plugins/pact.c examples/plugins/power_scales.c
    examples/plugins/stochastic.c)
if(DETENT_TESTS)
    list(APPEND plugins tests/plugins/no_plugin.c tests/plugins/other_abi.c
        tests/plugins/failing.c tests/plugins/values.c)
endif()
foreach(source IN LISTS plugins)
    get_filename_component(name ${source} NAME_WE)
    add_library(examples-${name} MODULE ${source})
    target_include_directories(examples-${name} PRIVATE include)
    target_link_libraries(examples-${name} PRIVATE detent_strict)
    set_target_properties(examples-${name} PROPERTIES PREFIX "" OUTPUT_NAME ${name}
        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/examples)
endforeach()

# a plugin, and a program that loads it
if(TARGET detent_shared)
    add_library(examples-squareplus MODULE examples/plugin_op/squareplus.c)
    add_executable(examples-plugin_host examples/plugin_op/host.c)
    set_target_properties(examples-squareplus PROPERTIES PREFIX "" OUTPUT_NAME squareplus
        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/examples)
    set_target_properties(examples-plugin_host PROPERTIES OUTPUT_NAME plugin_host
        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/examples)
    foreach(target examples-squareplus examples-plugin_host)
        target_link_libraries(${target} PRIVATE detent_strict detent_shared m ${CMAKE_DL_LIBS})
    endforeach()
endif()

target_link_libraries(bench-grid PRIVATE PkgConfig::OPENBLAS)

# scripts/check-exports draws its grid with this program
add_executable(detent-grid scripts/exports/grid/grid.c scripts/exports/grid/draw.c
    scripts/exports/grid/language.c)
target_link_libraries(detent-grid PRIVATE detent_strict detent_${linked} m)
set_target_properties(detent-grid PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})

find_package(OpenMP QUIET COMPONENTS C) # of oneDNN's threads, for bench/onednn alone
if(DNNL AND DNNL_INCLUDE AND OpenMP_C_FOUND)
    target_include_directories(bench-onednn SYSTEM PRIVATE ${DNNL_INCLUDE})
    target_link_libraries(bench-onednn PRIVATE ${DNNL} OpenMP::OpenMP_C)
else()
    set_target_properties(bench-onednn PROPERTIES EXCLUDE_FROM_ALL ON)
endif()
