# cpack makes three Debian packages and one for each MPI, or an archive: `scripts/packages`.
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_VENDOR "the maintainers of detent")
set(CPACK_PACKAGE_CONTACT
    "The maintainers of detent <maintainers@detent.example>")
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ
    GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL library development program ${mpis})
set(CPACK_ARCHIVE_COMPONENT_INSTALL OFF)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)

set(library libdetent${DETENT_ABI})
set(loaded libopenblas0) # what is loaded when it is first needed
if(DETENT_ONEDNN)
    string(APPEND loaded ", libdnnl2")
endif()
if(DETENT_SNDFILE)
    string(APPEND loaded ", libsndfile1")
endif()
if(DETENT_SQLITE)
    string(APPEND loaded ", libsqlite3-0")
endif()
if(DETENT_ZSTD)
    string(APPEND loaded ", libzstd1")
endif()
set(what "detent trains small models in floating point, lets them learn with integer
weights and activations (quantization-aware training), and converts them to
integer models whose results have the same bits.")

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME ${library})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_RECOMMENDS "${loaded}")
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "training of small models for integers - shared library
${what}
.
This package holds the shared library.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libdetent-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "libyaml-dev, zlib1g-dev, libpng-dev, \
libjpeg-dev, libxxhash-dev, libutf8proc-dev, libprotobuf-c-dev")
set(CPACK_COMPONENT_DEVELOPMENT_DEPENDS library)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "training of small models for integers - development
${what}
.
This package holds headers, the static library, and files for CMake and
pkg-config. Linking the static library needs the packages suggested here.")

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME detent)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "${loaded}")
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "training of small models for integers - program
${what}
.
This package holds the program, recipes, manual pages, and completion for
bash, zsh and fish.")

foreach(mpi IN LISTS mpis)
    string(TOUPPER ${mpi} upper)
    set(CPACK_DEBIAN_${upper}_PACKAGE_NAME detent-${mpi})
    set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION science)
    set(CPACK_COMPONENT_${upper}_DEPENDS program)
    set(CPACK_COMPONENT_${upper}_DESCRIPTION "training of small models for integers - ${mpi}
${what}
.
This package holds the module by which a run of ${mpi} trains on
many machines.")
    list(APPEND documented ${mpi}:detent-${mpi})
endforeach()

# ---- documents of each package ------------------------------------------------------------------
# The two changelogs and the copyright file, with the terms of Random123, of which compiled code is
# in the library.
set(documents ${PROJECT_BINARY_DIR}/documents)
add_custom_command(OUTPUT ${documents}/done
    COMMAND ${PROJECT_SOURCE_DIR}/packages/documents.sh ${PROJECT_SOURCE_DIR} ${PROJECT_VERSION}
        ${CPACK_DEBIAN_PACKAGE_RELEASE} ${CPACK_PACKAGE_CONTACT} ${documents}
    DEPENDS packages/documents.sh packages/copyright CHANGELOG.md VERBATIM)
add_custom_target(documents DEPENDS ${documents}/done)
set(symbols ${PROJECT_BINARY_DIR}/symbols/symbols)
add_custom_command(OUTPUT ${symbols}
    COMMAND ${PROJECT_SOURCE_DIR}/packages/symbols.sh ${PROJECT_SOURCE_DIR}
        $<TARGET_FILE:detent_shared> ${library} ${DETENT_ABI} ${PROJECT_VERSION} ${symbols}
    DEPENDS detent_shared packages/symbols.sh VERBATIM)
add_custom_target(symbols DEPENDS ${symbols})
list(TRANSFORM mpis PREPEND detent_ OUTPUT_VARIABLE modules)
add_custom_target(packages DEPENDS documents symbols ${modules}) # `cmake --build build/packages -t packages`
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${symbols} ${PROJECT_SOURCE_DIR}/packages/triggers)
set(CPACK_POST_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/repack.cmake)
foreach(pair library:${library} development:libdetent-dev program:detent ${documented})
    string(REPLACE ":" ";" pair ${pair})
    list(GET pair 0 component)
    list(GET pair 1 package)
    install(FILES ${documents}/copyright ${documents}/changelog.gz ${documents}/changelog.Debian.gz
        DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} COMPONENT ${component} OPTIONAL)
endforeach()
include(CPack)
