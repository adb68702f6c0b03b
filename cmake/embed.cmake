# cmake "-DTEXTS=FILE;..." -DPREFIX=PREFIX -DOUT=NAME.c -P embed.cmake : each file as the array
# `const char PREFIX<name>[]`, where its name has _ for a dot, which ends with 0.
set(arrays "")
foreach(text IN LISTS TEXTS)
    file(READ ${text} bytes HEX)
    string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1, " bytes "${bytes}")
    get_filename_component(name ${text} ${NAME})
    string(REPLACE "." "_" name ${name})
    string(APPEND arrays "extern const char ${PREFIX}${name}[];\n"
        "const char ${PREFIX}${name}[] = {\n${bytes}0\n};\n")
endforeach()
file(WRITE ${OUT} "${arrays}")
