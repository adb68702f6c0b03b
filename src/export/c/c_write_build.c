/* Format c: build files Makefile and CMakeLists.txt, and NAME.json, metadata about the training
 * data, for programs. */
#include "export/c/c_write.h"

static const char makefile[] =
    "# make test: compares this compiler's results with detent's, bit for bit.\n"
    "# make @.o CC=arm-none-eabi-gcc CFLAGS='-O2 -mcpu=cortex-m4 -mthumb': the model alone.\n"
    "CC ?= cc\n"
    "CFLAGS ?= -O2\n\n"
    "@_test: @_test.c @.o\n"
    "\t$(CC) $(CFLAGS) @_test.c @.o -o $@\n\n"
    "%.o: %.c @.h\n"
    "\t$(CC) $(CFLAGS) -c $< -o $@\n\n"
    "test: @_test\n"
    "\t./@_test\n\n"
    "clean:\n"
    "\trm -f *.o @_test\n\n"
    ".PHONY: test clean\n";

static const char cmake[] =
    "# add_subdirectory(FOLDER), then target_link_libraries(PROGRAM PRIVATE @_model).\n"
    "# By itself: cmake -B build && cmake --build build && ctest --test-dir build\n"
    "cmake_minimum_required(VERSION 3.13)\n"
    "project(@_model C)\n"
    "if(NOT CMAKE_BUILD_TYPE)\n"
    "    set(CMAKE_BUILD_TYPE Release)\n"
    "endif()\n";

static const char cmake_end[] =
    "set_target_properties(@_model PROPERTIES C_STANDARD 99)\n"
    "target_include_directories(@_model PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})\n"
    "if(CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR)\n"
    "    enable_testing()\n"
    "    add_executable(@_test @_test.c)\n"
    "    target_link_libraries(@_test PRIVATE @_model)\n"
    "    add_test(NAME selftest COMMAND @_test)\n"
    "endif()\n";

/* The name is inserted separately, as `$@` and `$<` belong to make. */
void dt__c_put_makefile(const dt__c_about *a, dt__chars *to)
{
    for (const char *c = makefile; *c != 0; c++) {
        if (*c == '@' && (c == makefile || c[-1] != '$')) dt__put_text(to, a->name);
        else dt__put(to, c, 1);
    }
}

void dt__c_put_cmake(const dt__c_about *a, dt__chars *to)
{
    for (int part = 0; part < 2; part++) {
        const char *text = part == 0 ? cmake : cmake_end;
        for (const char *c = text; *c != 0; c++) {
            if (*c == '@') dt__put_text(to, a->name);
            else dt__put(to, c, 1);
        }
        if (part == 1) break;
        dt__c_printf(to, "add_library(%s_model STATIC %s.c", a->name, a->name);
        if (a->tokenizer != NULL) dt__c_printf(to, " %s_text.c", a->name);
        dt__put_text(to, ")\n");
    }
}

void dt__c_put_data(const dt__c_about *a, dt__chars *to)
{
    DT__PUT_ALL(to, a->call->info->data, "\n");
}
