# cmake -DTEXT=FILE -DARRAY=NAME -DOUT=NAME.c -P embed.cmake : a file as the array
# `const char NAME[]`, which ends with 0.
file(READ ${TEXT} bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1, " bytes "${bytes}")
file(WRITE ${OUT} "extern const char ${ARRAY}[];\n"
    "const char ${ARRAY}[] = {\n${bytes}0\n};\n")
