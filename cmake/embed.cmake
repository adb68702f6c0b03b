# cmake -DTEXT=FILE.c -DNAME=NAME -DOUT=NAME.c -P embed.cmake : a file as the array
# `const char dt__c_text_NAME[]`, which ends with 0.
file(READ ${TEXT} bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1, " bytes "${bytes}")
file(WRITE ${OUT} "extern const char dt__c_text_${NAME}[];\n"
    "const char dt__c_text_${NAME}[] = {\n${bytes}0\n};\n")
