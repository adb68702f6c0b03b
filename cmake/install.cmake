# What is installed, in three components: the shared library, what compiling with it needs, and the
# program with its manual pages, completion and recipes.
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/detent)
install(TARGETS detent_shared EXPORT detent-shared
    LIBRARY COMPONENT library NAMELINK_COMPONENT development)
install(TARGETS detent_static EXPORT detent-static ARCHIVE COMPONENT development)
foreach(kind static shared)
    install(EXPORT detent-${kind} NAMESPACE detent:: DESTINATION ${package_dir}
        COMPONENT development)
endforeach()
install(DIRECTORY include/detent DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
list(JOIN requires " " requires_of_static)
configure_package_config_file(cmake/detentConfig.cmake.in detentConfig.cmake
    INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(detentConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/detentConfig.cmake
    ${PROJECT_BINARY_DIR}/detentConfigVersion.cmake
    DESTINATION ${package_dir} COMPONENT development)

file(RELATIVE_PATH prefix_of_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
# Requires.private would add what the *static* forms of these libraries need, such as gfortran.
list(JOIN DETENT_DEPS_LDFLAGS " " libraries_of_pc)
configure_file(cmake/detent.pc.in detent.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/detent.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
    COMPONENT development)

if(TARGET detent)
    install(TARGETS detent COMPONENT program)
    install(DIRECTORY configs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/detent/configs
        COMPONENT program FILES_MATCHING PATTERN *.yaml)

    # Debian's zsh reads vendor-completions below /usr
    set(zsh site-functions)
    if(CMAKE_INSTALL_PREFIX STREQUAL /usr AND EXISTS /etc/debian_version)
        set(zsh vendor-completions)
    endif()
    install(FILES completions/detent.bash RENAME detent COMPONENT program
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
    install(FILES completions/_detent COMPONENT program
        DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/${zsh})
    install(FILES completions/detent.fish COMPONENT program
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)

    # manual pages: the program writes them
    if(NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR)
        set(manuals ${PROJECT_BINARY_DIR}/manuals)
        find_program(GZIP gzip REQUIRED)
        add_custom_command(OUTPUT ${manuals}/done
            COMMAND ${CMAKE_COMMAND} -E rm -rf ${manuals}
            COMMAND ${CMAKE_COMMAND} -E make_directory ${manuals}
            COMMAND detent pages ${manuals}
            COMMAND ${GZIP} -9nr ${manuals}
            COMMAND ${CMAKE_COMMAND} -E touch ${manuals}/done
            DEPENDS detent VERBATIM)
        add_custom_target(manuals ALL DEPENDS ${manuals}/done)
        install(DIRECTORY ${manuals}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
            COMPONENT program FILES_MATCHING PATTERN *.1.gz)
    endif()
endif()

if(PROJECT_IS_TOP_LEVEL)
    include(cmake/packages.cmake)
endif()
