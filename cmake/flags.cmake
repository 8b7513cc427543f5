# flags.cmake - Compiler flags of all code, and helpers that find sources by name.

# Debug information is not made unless asked for (RelWithDebInfo): it doubles the time of a build.
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_C_FLAGS_SANITIZE "-O1 -gline-tables-only -fno-omit-frame-pointer")
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    set(CMAKE_C_FLAGS_SANITIZE "-O1 -g1 -fno-omit-frame-pointer")
endif()

add_library(house INTERFACE)
target_compile_definitions(house INTERFACE _GNU_SOURCE)
target_compile_options(house INTERFACE
    -Wall -Wextra -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wpointer-arith -Wvla -Wundef
    $<$<BOOL:${SLUICE_WERROR}>:-Werror>)
if(SLUICE_FUZZ)
    set(SLUICE_SANITIZE "address,undefined")
    target_compile_options(house INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(SLUICE_COVERAGE)
    target_link_options(house INTERFACE -fprofile-instr-generate)
endif()
if(SLUICE_SANITIZE)
    target_compile_options(house INTERFACE -fsanitize=${SLUICE_SANITIZE} -fno-sanitize-recover=all)
    target_link_options(house INTERFACE -fsanitize=${SLUICE_SANITIZE})
endif()
if(SLUICE_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL "Debug")
    target_compile_definitions(house INTERFACE SL_DEBUG)
endif()

# The paths of all files below the folders that end in `suffix`, relative to the root.
function(find_sources out suffix)
    list(TRANSFORM ARGN APPEND "/*${suffix}" OUTPUT_VARIABLE patterns)
    file(GLOB_RECURSE found CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${patterns})
    set(${out} ${found} PARENT_SCOPE)
endfunction()

# engine/text/tokenizer_test.c -> engine_text_tokenizer_test
function(name_of_path out path)
    string(REGEX REPLACE "\\.[a-z]+$" "" name "${path}")
    string(REPLACE "/" "_" name "${name}")
    set(${out} ${name} PARENT_SCOPE)
endfunction()

# Moves the debug information of a target, if there is any, to NAME.debug beside it.
find_program(OBJCOPY ${CMAKE_OBJCOPY} objcopy)
function(separate_debug_information target)
    if(NOT CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo" OR NOT OBJCOPY)
        return()
    endif()
    set(file $<TARGET_FILE:${target}>)
    add_custom_command(TARGET ${target} POST_BUILD
        COMMAND ${OBJCOPY} --only-keep-debug ${file} ${file}.debug
        COMMAND ${OBJCOPY} --strip-debug --add-gnu-debuglink=${file}.debug ${file} VERBATIM)
endfunction()
