/* select.c - Selects the best kernels that this machine supports.  Compiled once, for the
 * baseline. */
#include "runtime/cpu/kernel_set.h"
#include <stdbool.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

extern const sl_kernel_set sl_kernel_set_baseline;
static bool runs_always(void) {
    return true;
}

/* SL_HAVE_<ISA>: the build contains its kernels. */
#if defined(__x86_64__)
#if defined(SL_HAVE_AVX2)
extern const sl_kernel_set sl_kernel_set_avx2;
#endif
#if defined(SL_HAVE_AVX512)
extern const sl_kernel_set sl_kernel_set_avx512;
#endif

/* Some compilers' __builtin_cpu_supports does not know f16c. */
static bool has_f16c(void) {
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}

__attribute__((unused)) static bool runs_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

__attribute__((unused)) static bool runs_avx512(void) {
    return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}
#elif defined(__aarch64__) && defined(SL_HAVE_NEON)
extern const sl_kernel_set sl_kernel_set_neon;

static bool runs_neon(void) {
    const unsigned long wanted = HWCAP_ASIMDDP | HWCAP_ASIMDHP;
    return (getauxval(AT_HWCAP) & wanted) == wanted;
}
#endif

/* Best first. */
static const struct {
    const sl_kernel_set *set;
    bool (*runs)(void);
} candidates[] = {
#if defined(SL_HAVE_AVX512)
    {&sl_kernel_set_avx512, runs_avx512},
#endif
#if defined(SL_HAVE_AVX2)
    {&sl_kernel_set_avx2, runs_avx2},
#endif
#if defined(SL_HAVE_NEON)
    {&sl_kernel_set_neon, runs_neon},
#endif
    {&sl_kernel_set_baseline, runs_always},
};

const sl_kernel_set *sl_cpu_kernel_set(const char *isa) {
    for (size_t i = 0; i < sizeof candidates / sizeof candidates[0]; i++) {
        const sl_kernel_set *set = candidates[i].set;
        if (isa && strcmp(isa, set->isa) != 0) continue;
        if (candidates[i].runs()) return set;
    }
    return NULL;
}

const sl_kernel *sl_cpu_kernel_find(const sl_kernel_set *set, sl_op op,
                                    const sl_type *input_types) {
    const sl_type *weight = &input_types[sl_op_info_of(op)->input_count > 1 ? 1 : 0];
    for (uint32_t i = 0; i < set->count; i++) {
        const sl_kernel *kernel = &set->kernels[i];
        if (kernel->op != op) continue;
        if (kernel->weight == SL_ANY_WEIGHT || kernel->weight == (int)weight->dtype) return kernel;
    }
    return NULL;
}
