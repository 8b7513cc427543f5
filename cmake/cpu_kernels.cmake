# cpu_kernels.cmake - runtime/cpu/kernels, compiled once per instruction set.
#
# SLUICE_ISA: native  baseline and the best set that this machine runs, in half the time;
#             all     every set of the architecture, for packages and CI.
# Gives: isas, flags_<isa>, and the object libraries kernels_<isa>.
set(SLUICE_ISA native CACHE STRING "Instruction sets of the CPU kernels: native or all")
set_property(CACHE SLUICE_ISA PROPERTY STRINGS native all)

set(flags_plain -U__SSE2__) # for tests: as on a machine that vec.h does not know
set(flags_avx2 -mavx2 -mfma -mf16c)
set(flags_avx512 ${flags_avx2} -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni)
set(flags_neon -march=armv8.2-a+dotprod+fp16)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    set(isas baseline avx2 avx512)
    set(test_isas plain)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    set(isas baseline neon)
else()
    set(isas baseline)
endif()

if(SLUICE_ISA STREQUAL "native" AND NOT CMAKE_CROSSCOMPILING)
    # The same question that select.c asks at run time; avx512 comes with avx2.
    include(CheckCSourceRuns)
    check_c_source_runs("int main(void) { return !(__builtin_cpu_supports(\"avx512f\") && __builtin_cpu_supports(\"avx512bw\")
        && __builtin_cpu_supports(\"avx512vl\") && __builtin_cpu_supports(\"avx512dq\") && __builtin_cpu_supports(\"avx512vnni\")
        && __builtin_cpu_supports(\"avx2\") && __builtin_cpu_supports(\"fma\")); }" SLUICE_RUNS_AVX512)
    check_c_source_runs("int main(void) { return !(__builtin_cpu_supports(\"avx2\") && __builtin_cpu_supports(\"fma\")); }"
        SLUICE_RUNS_AVX2)
    if(SLUICE_RUNS_AVX512)
        list(REMOVE_ITEM isas avx2)
    elseif(SLUICE_RUNS_AVX2)
        list(REMOVE_ITEM isas avx512)
    elseif(NOT "neon" IN_LIST isas)
        set(isas baseline)
    endif()
endif()
list(LENGTH isas isa_count)

# Those that take longest to compile come first, so that no core waits for the last one.
set(slowest linear_i8 linear_panel signal_fft sdpa convolution fused)
list(TRANSFORM slowest REPLACE "(.+)" "runtime/cpu/kernels/\\1.c")
list(REMOVE_ITEM kernel_sources ${slowest})
list(PREPEND kernel_sources ${slowest})

set(unrolled linear_i8 linear_panel)
list(TRANSFORM unrolled REPLACE "(.+)" "runtime/cpu/kernels/\\1.c")
set_source_files_properties(${unrolled} PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release,RelWithDebInfo>:-O2>")

foreach(isa IN LISTS isas)
    add_library(kernels_${isa} OBJECT ${kernel_sources})
    target_link_libraries(kernels_${isa} PRIVATE library_settings)
    target_compile_definitions(kernels_${isa} PRIVATE SL_ISA=${isa})
    target_compile_options(kernels_${isa} PRIVATE ${flags_${isa}} -ffp-contract=fast)
    # gcc takes 0.2 s to read this header, most of a small kernel's time; ccache does better by itself.
    if(NOT isa STREQUAL "baseline" AND CMAKE_C_COMPILER_ID STREQUAL "GNU" AND NOT CCACHE
            AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
        target_precompile_headers(kernels_${isa} PRIVATE <immintrin.h>)
    endif()
    # -O3 pays (delta_chunk: twice as fast), except for the kernels that are unrolled by hand, which would
    # only take twice as long to compile.
    target_compile_options(kernels_${isa} PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:-O3>)
    # Where this machine has better kernels, those of the baseline are there for the build to be
    # movable; nobody waits for them.
    if(isa STREQUAL "baseline" AND SLUICE_ISA STREQUAL "native" AND isa_count GREATER 1)
        target_compile_options(kernels_${isa} PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:-O1>)
    endif()
endforeach()
