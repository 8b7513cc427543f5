# cuda_kernels.cmake - runtime/cuda/kernels, compiled by nvcc into one file beside the program.
#
# The file, sluice-cuda.so, carries a compressed image per .cu file and is opened when a GPU is wanted
# (runtime/cuda/images.c); nothing else is linked with it.  SLUICE_CUDA says for what it is made:
#   auto   this machine's GPU if it has a driver, else not at all
#   ON     this machine's GPU, or PTX, which any later GPU's driver compiles when it is loaded
#   all    every generation from compute capability 8.0 on
#   ptx    only up to PTX: what CI needs to see that nvcc accepts the kernels
#   80 90  a list of compute capabilities
#   OFF    not at all
set(SLUICE_CUDA auto CACHE STRING "CUDA kernels: auto, ON, OFF, all, ptx or compute capabilities")

find_sources(cuda_kernels .cu runtime)
find_sources(cuda_headers .cuh runtime)
find_sources(cuda_argument_headers .h runtime/cuda/kernels)
find_sources(cuda_core_headers .h core)
find_sources(cuda_tables .def runtime/cuda core)
list(APPEND cuda_headers ${cuda_argument_headers} ${cuda_core_headers} ${cuda_tables} core/splat.c)

# What the kernels were compiled from, so that a file of other sources is recognised.
set(cuda_stamp ${CMAKE_BINARY_DIR}/generated/runtime/cuda/stamp.h)
list(JOIN cuda_kernels "," stamped_kernels)
list(JOIN cuda_headers "," stamped_headers)
add_custom_command(OUTPUT ${cuda_stamp}
    COMMAND ${CMAKE_COMMAND} -D SOURCES=${stamped_kernels},${stamped_headers} -D OUT=${cuda_stamp}
            -P ${CMAKE_SOURCE_DIR}/cmake/stamp.cmake
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} DEPENDS ${cuda_kernels} ${cuda_headers} cmake/stamp.cmake
    COMMENT "Stamping CUDA kernels" VERBATIM)
add_custom_target(cuda_stamp DEPENDS ${cuda_stamp})

find_program(NVCC nvcc PATHS /usr/local/cuda/bin)
find_program(NVIDIA_SMI nvidia-smi)
set(capabilities "")
set(wanted ${SLUICE_CUDA})
if(SLUICE_CUDA STREQUAL "auto" OR SLUICE_CUDA STREQUAL "ON")
    if(NVIDIA_SMI AND NVCC)
        execute_process(COMMAND ${NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader
            OUTPUT_VARIABLE found ERROR_QUIET RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE)
        if(NOT failed)
            string(REPLACE "." "" found "${found}")
            string(REGEX MATCHALL "[0-9]+" capabilities "${found}")
            list(REMOVE_DUPLICATES capabilities)
        endif()
    endif()
    if(NOT capabilities AND SLUICE_CUDA STREQUAL "auto")
        set(wanted OFF)
    endif()
elseif(SLUICE_CUDA STREQUAL "all")
    set(capabilities 80 90 100 120)
elseif(SLUICE_CUDA MATCHES "^[0-9 ;,]+$")
    string(REGEX MATCHALL "[0-9]+" capabilities "${SLUICE_CUDA}")
endif()
if(wanted AND NOT NVCC)
    message(FATAL_ERROR "SLUICE_CUDA=${SLUICE_CUDA}: nvcc was not found on PATH or in /usr/local/cuda/bin")
endif()
if(NOT wanted OR SLUICE_BARE)
    return()
endif()

# -fmad=false: whether nvcc turns a product and a sum into one FMA depends on the code around them, so
# that two kernels with the same formula would differ in the last bit.  Kernels call fmaf where it pays.
set(nvcc_flags -std=c++17 -O3 -fmad=false -I${CMAKE_SOURCE_DIR} --expt-relaxed-constexpr
    -Wno-deprecated-gpu-targets)
if(SLUICE_CUDA STREQUAL "ptx")
    list(APPEND nvcc_flags -ptx -arch=compute_90)
else()
    list(APPEND nvcc_flags -fatbin --compress-mode=size)
    foreach(capability IN LISTS capabilities)
        list(APPEND nvcc_flags -gencode arch=compute_${capability},code=sm_${capability})
    endforeach()
    # PTX for GPUs that come later; alone where no GPU is known.
    set(oldest 80)
    if(capabilities)
        list(GET capabilities 0 oldest)
    endif()
    if(SLUICE_CUDA STREQUAL "all" OR NOT capabilities)
        list(APPEND nvcc_flags -gencode arch=compute_${oldest},code=compute_${oldest})
    endif()
endif()

set(images "")
foreach(path IN LISTS cuda_kernels)
    name_of_path(name ${path})
    set(image ${CMAKE_BINARY_DIR}/cuda/${name}.image)
    add_custom_command(OUTPUT ${image} COMMAND ${NVCC} ${nvcc_flags} -o ${image}
        ${CMAKE_SOURCE_DIR}/${path} DEPENDS ${path} ${cuda_headers}
        COMMENT "Compiling CUDA kernels ${path}" VERBATIM)
    list(APPEND images ${image})
    string(APPEND cuda_carried
        "__asm__(\".section .rodata\\n.balign 64\\n.globl ${name}\\n${name}:\\n"
        ".incbin \\\"${image}\\\"\\n.byte 0\\n.previous\\n\");\n"
        "extern const char ${name}[] __attribute__((visibility(\"hidden\")));\n")
    string(APPEND cuda_named "${name}, ")
endforeach()
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/cuda)
if(SLUICE_CUDA STREQUAL "ptx")
    add_custom_target(cuda_images DEPENDS ${images})
    return()
endif()
file(CONFIGURE OUTPUT cuda_images.c CONTENT [[
#include "runtime/cuda/stamp.h"
@cuda_carried@extern const void *const sl_cuda_images[];
const void *const sl_cuda_images[] = {@cuda_named@(void *)0};
extern const char sl_cuda_images_stamp[];
const char sl_cuda_images_stamp[] = SL_CUDA_STAMP;
]] @ONLY)
add_library(cuda_images MODULE cuda_images.c)
set_target_properties(cuda_images PROPERTIES PREFIX "" OUTPUT_NAME sluice-cuda)
target_include_directories(cuda_images PRIVATE ${CMAKE_BINARY_DIR}/generated)
add_dependencies(cuda_images cuda_stamp)
set_source_files_properties(${CMAKE_BINARY_DIR}/cuda_images.c PROPERTIES
    OBJECT_DEPENDS "${images};${cuda_stamp}")
