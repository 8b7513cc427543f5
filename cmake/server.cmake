# server.cmake - The server of `sluice serve`, a library that its tests link too.  The command itself is part
# of the program.
set(server "")
if(NOT microhttpd_FOUND OR SLUICE_BARE)
    list(APPEND program_sources apps/server/absent.c)
    return()
endif()
find_sources(server_sources .c apps/server)
list(FILTER server_sources EXCLUDE REGEX "${beside}|/(absent|serve)\\.c$")
list(APPEND program_sources apps/server/serve.c)

# The page, embedded again when one of its files changes.
set(page_source ${CMAKE_BINARY_DIR}/generated/web_files.c)
file(GLOB page_files CONFIGURE_DEPENDS apps/server/web/*)
add_custom_command(OUTPUT ${page_source}
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${CMAKE_SOURCE_DIR}/apps/server/web -DOUT=${page_source}
        -P ${CMAKE_SOURCE_DIR}/cmake/web_files.cmake
    DEPENDS ${page_files} cmake/web_files.cmake)
add_library(server STATIC EXCLUDE_FROM_ALL ${server_sources} ${page_source})
target_include_directories(server PUBLIC include .)
target_link_libraries(server PUBLIC house PkgConfig::jansson PkgConfig::microhttpd Threads::Threads m)
set(server server)
