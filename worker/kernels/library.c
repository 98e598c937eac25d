/* The shared library: which kernels this process uses, and what is called from outside. The operators, of the domain
 * "kvjobs", are written into graphs by worker/graphs/fusion. */

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <string.h>

#include "kernels.h"
#include "ort_call.h"

const struct kernels *chosen_kernels;

#if defined(__x86_64__)
/* Asked here and not by __builtin_cpu_supports, which is always false with zig's runtime library. Bits of the answers:
 * Intel, Architecture Instruction Set Extensions Programming Reference, CPUID leaves 1 and 7, and XCR0. */
static int has(unsigned leaf, int in_ebx, unsigned bits) {
    unsigned a, b, c, d;
    return __get_cpuid_count(leaf, 0, &a, &b, &c, &d) && ((in_ebx ? b : c) & bits) == bits;
}

/* Whether the system keeps these registers when it switches threads. */
static int keeps(unsigned registers) {
    unsigned low, high;
    if (!has(1, 0, 1u << 27)) return 0;  /* OSXSAVE */
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & registers) == registers;
}

static int has_avx2(void) { return keeps(0x06) && has(1, 0, 1u << 12 | 1u << 28) && has(7, 1, 1u << 5); }  /* and FMA */
static int has_avx512(void) {  /* F, DQ, BW, VL */
    return has_avx2() && keeps(0xe6) && has(7, 1, 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31);
}
#endif

/* Which sources these are: see files.py. */
const char *kvjobs_sources(void) { return SOURCES; }

/* The best kernels for this processor, or those of a name; NULL where it cannot run them. */
const char *kvjobs_choose_kernels(const char *name) {
    const struct kernels *known[] = {
#if defined(__x86_64__)
        has_avx512() ? &kernels_avx512 : NULL,
        has_avx2() ? &kernels_avx2 : NULL,
#endif
        &kernels_any,
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i] && (!name || !strcmp(known[i]->instruction_set, name))) {
            chosen_kernels = known[i];
            return chosen_kernels->instruction_set;
        }
    }
    return NULL;
}

/* See `struct kernels`. */
void kvjobs_sum_powers(const float *x, size_t rows, size_t size, const float *factors, float *sums) {
    chosen_kernels->sum_powers(x, rows, size, factors, sums);
}

void kvjobs_best_continuations(const struct continuations *continuations) {
    chosen_kernels->best_continuations(continuations);
}

OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
    static OrtCustomOpDomain *domain;  /* lives as long as the process: sessions share it */
    const OrtApi *api = base->GetApi(CUSTOM_OP_VERSION);
    OrtStatus *status;
    if (!chosen_kernels) kvjobs_choose_kernels(NULL);
    if (!domain) {
        TRY(CALL(api, CREATE_CUSTOM_OP_DOMAIN, const char *, OrtCustomOpDomain **)("kvjobs", &domain));
        const OrtCustomOp *operators[] = {
            &attend_operator, &attend_int8_operator, &within_operator, &finish_operator, &finish_product_operator,
        };
        for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
            TRY(CALL(api, CUSTOM_OP_DOMAIN_ADD, OrtCustomOpDomain *, const OrtCustomOp *)(domain, operators[i]));
    }
    return CALL(api, ADD_CUSTOM_OP_DOMAIN, OrtSessionOptions *, OrtCustomOpDomain *)(options, domain);
}
