# python.cmake - The Python package: build/python/sluice for the tests, and what a wheel gets.
#
# pip runs this by scikit-build-core (pyproject.toml), which builds python_package and nothing else.
find_package(Python3 3.9 QUIET COMPONENTS Interpreter)
if(NOT Python3_Interpreter_FOUND)
    message(STATUS "python3 not found: no Python package (apt: python3)")
    return()
endif()
set(package_folder ${CMAKE_BINARY_DIR}/python/sluice)
file(GLOB package_files CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/python/sluice
     python/sluice/*.py python/sluice/py.typed)

# The declarations are made from the public headers, so that they cannot differ.
set(package_outputs ${package_folder}/_declarations.py)
add_custom_command(OUTPUT ${package_folder}/_declarations.py
    COMMAND ${CMAKE_COMMAND} -E make_directory ${package_folder}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/python/make_declarations.py
            ${CMAKE_SOURCE_DIR}/include/sluice ${package_folder}/_declarations.py
    DEPENDS ${public_headers} python/make_declarations.py VERBATIM)
foreach(file IN LISTS package_files)
    add_custom_command(OUTPUT ${package_folder}/${file}
        COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_SOURCE_DIR}/python/sluice/${file} ${package_folder}/${file}
        DEPENDS python/sluice/${file} VERBATIM)
    list(APPEND package_outputs ${package_folder}/${file})
endforeach()
add_custom_target(python_package DEPENDS ${package_outputs})
add_dependencies(python_package libsluice_shared)
if(TARGET tests)
    add_dependencies(tests python_package)
endif()
if(TEST python_tests_python_test)
    set_tests_properties(python_tests_python_test PROPERTIES TIMEOUT 3600) # make test-long runs pip
endif()

# The sources come from pyproject.toml.  A wheel has no links, so the library has its plain name.
set(in_wheel COMPONENT python EXCLUDE_FROM_ALL)
install(FILES ${package_folder}/_declarations.py DESTINATION sluice ${in_wheel})
install(PROGRAMS $<TARGET_FILE:libsluice_shared> DESTINATION sluice RENAME libsluice.so ${in_wheel})
if(TARGET cuda_images AND NOT SLUICE_CUDA STREQUAL "ptx")
    add_dependencies(python_package cuda_images)
    install(FILES $<TARGET_FILE:cuda_images> DESTINATION sluice ${in_wheel})
endif()
