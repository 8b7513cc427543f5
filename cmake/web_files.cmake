# web_files.cmake - Turns the files of a folder into a C file: cmake -DFOLDER=... -DOUT=... -P web_files.cmake
# Each has its bytes, and a hash that tells a browser whether it has them already.
file(GLOB paths ${FOLDER}/*.html ${FOLDER}/*.js ${FOLDER}/*.css ${FOLDER}/*.svg ${FOLDER}/*.png)
set(arrays "")
set(rows "")
set(number 0)
foreach(path IN LISTS paths)
    get_filename_component(name ${path} NAME)
    file(READ ${path} hex HEX)
    file(SHA256 ${path} hash)
    string(SUBSTRING ${hash} 0 16 hash)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
    string(REGEX REPLACE "(....,....,....,....,....,....,....,....,....,....,....,....,....,....,....,....,)" "\\1\n" bytes "${bytes}")
    string(APPEND arrays "static const unsigned char file_${number}[] = {\n${bytes}\n};\n")
    string(APPEND rows "    {\"${name}\", \"\\\"${hash}\\\"\", file_${number}, sizeof file_${number}},\n")
    math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${OUT} "/* Made by cmake/web_files.cmake. */\n#include \"apps/server/page.h\"\n\n${arrays}\n"
    "const server_page_file server_page_files[] = {\n${rows}    {0},\n};\n"
    "const size_t server_page_file_count = ${number};\n")
