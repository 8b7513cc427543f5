# install.cmake - The installed program and libraries, and files for pkg-config and CMake.

# The public API only: exports.map names what include/sluice declares and hides the rest.
file(GLOB public_headers CONFIGURE_DEPENDS include/sluice/*.h)
set(exported "")
foreach(header IN LISTS public_headers)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
    file(STRINGS ${header} lines REGEX "^SL_API ")
    foreach(line IN LISTS lines)
        string(REGEX MATCH "(sl_[a-z0-9_]+)\\(" _ "${line}")
        list(APPEND exported ${CMAKE_MATCH_1})
    endforeach()
endforeach()
list(JOIN exported "; " exported)
file(CONFIGURE OUTPUT exports.map CONTENT "{ global: @exported@; local: *; };\n" @ONLY)
add_library(libsluice_shared SHARED EXCLUDE_FROM_ALL ${objects})
set_target_properties(libsluice_shared PROPERTIES OUTPUT_NAME sluice EXPORT_NAME sluice
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
    LINK_DEPENDS ${CMAKE_BINARY_DIR}/exports.map)
target_include_directories(libsluice_shared INTERFACE $<INSTALL_INTERFACE:include>)
target_link_libraries(libsluice_shared PRIVATE library_settings)
target_link_options(libsluice_shared PRIVATE
    -Wl,--version-script=${CMAKE_BINARY_DIR}/exports.map -Wl,--no-undefined)
separate_debug_information(libsluice_shared)

# What the program says of itself: the manual page and completion scripts.
set(said "")
foreach(row IN ITEMS "sluice.1|man" "completion.bash|completion bash" "completion.zsh|completion zsh"
                     "completion.fish|completion fish")
    string(REGEX MATCH "^(.*)\\|(.*)$" _ "${row}")
    string(REPLACE " " ";" arguments "${CMAKE_MATCH_2}")
    set(file ${CMAKE_BINARY_DIR}/said/${CMAKE_MATCH_1})
    add_custom_command(OUTPUT ${file} DEPENDS sluice COMMAND ${CMAKE_COMMAND} -E make_directory said
        COMMAND ${CMAKE_COMMAND} -E env SLUICE_CONFIG= $<TARGET_FILE:sluice> ${arguments} > ${file} VERBATIM)
    list(APPEND said ${file})
endforeach()

# `make install` builds this first.
add_custom_target(package DEPENDS sluice libsluice libsluice_shared ${said})
if(TARGET cuda_images)
    add_dependencies(package cuda_images)
endif()

install(TARGETS sluice libsluice)
install(TARGETS libsluice_shared EXPORT SluiceTargets)
if(TARGET cuda_images AND NOT SLUICE_CUDA STREQUAL "ptx")
    install(TARGETS cuda_images LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY include/sluice TYPE INCLUDE FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
install(DIRECTORY models/fable DESTINATION ${CMAKE_INSTALL_DATADIR}/sluice/models)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/sluice RENAME copyright)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/sluice
        FILES_MATCHING PATTERN "*.md" PATTERN "*.png" PATTERN "*.svg")
install(FILES ${CMAKE_BINARY_DIR}/said/sluice.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${CMAKE_BINARY_DIR}/said/completion.bash RENAME sluice
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${CMAKE_BINARY_DIR}/said/completion.zsh RENAME _sluice
        DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${CMAKE_BINARY_DIR}/said/completion.fish RENAME sluice.fish
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(EXPORT SluiceTargets NAMESPACE sluice:: FILE SluiceConfig.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Sluice)
write_basic_package_version_file(SluiceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/SluiceConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Sluice)
set(private_modules "jansson libpcre2-8 libxxhash")
if(uring_FOUND)
    string(APPEND private_modules " liburing")
endif()
file(RELATIVE_PATH prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(tools/sluice.pc.in sluice.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/sluice.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
configure_file(cmake/cpack.cmake.in cpack.cmake @ONLY)
file(CONFIGURE OUTPUT triggers CONTENT "activate-noawait ldconfig\n") # of the Debian package
if(TARGET tests) # of what is installed
    add_dependencies(tests package)
endif()
