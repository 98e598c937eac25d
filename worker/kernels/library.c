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

/* The digest of the sources (files.py). */
const char *kvjobs_sources(void) { return SOURCES; }

/* The best kernels for this processor, or the kernels called `name`; NULL if it cannot run them. */
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

int kvjobs_best_continuations(const struct continuations *continuations) {
    if (continuations->count < 1 || continuations->count > MAX_CONTINUATIONS) return REFUSED;
    chosen_kernels->best_continuations(continuations);
    return DONE;
}

/* The sizes of the structs that Python passes (structs.py). */
const size_t kvjobs_struct_sizes[] = {
    sizeof(struct continuations), sizeof(struct row_copies), sizeof(struct layouts),
};

static void release_domain(const OrtApi *api, OrtCustomOpDomain *domain) {
    ((void (*)(OrtCustomOpDomain *))api->function[RELEASE_CUSTOM_OP_DOMAIN])(domain);
}

static OrtStatus *add_operators(const OrtApi *api, OrtCustomOpDomain *domain) {
    const OrtCustomOp *operators[] = {
        &attend_operator, &attend_int8_operator, &within_operator, &finish_operator, &finish_product_operator,
    };
    OrtStatus *status;
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        TRY(CALL(api, CUSTOM_OP_DOMAIN_ADD, OrtCustomOpDomain *, const OrtCustomOp *)(domain, operators[i]));
    return NULL;
}

/* The domain of this process, which the first call makes. Threads that call at once all see one that has all operators:
 * it is published after they are added, and a thread that comes second releases its own. */
static OrtStatus *shared_domain(const OrtApi *api, OrtCustomOpDomain **domain) {
    static OrtCustomOpDomain *shared;  /* lives as long as the process */
    OrtCustomOpDomain *own = NULL, *first = NULL;
    OrtStatus *status;
    *domain = __atomic_load_n(&shared, __ATOMIC_ACQUIRE);
    if (*domain) return NULL;
    TRY(CALL(api, CREATE_CUSTOM_OP_DOMAIN, const char *, OrtCustomOpDomain **)("kvjobs", &own));
    if ((status = add_operators(api, own))) {
        release_domain(api, own);
        return status;
    }
    *domain = own;
    if (!__atomic_compare_exchange_n(&shared, &first, own, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        release_domain(api, own);
        *domain = first;
    }
    return NULL;
}

OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
    const OrtApi *api = base->GetApi(CUSTOM_OP_VERSION);
    OrtCustomOpDomain *domain;
    OrtStatus *status;
    if (!api) return failure(base->GetApi(1), "kvjobs: this onnxruntime is too old for the compiled kernels");
    if (!chosen_kernels) kvjobs_choose_kernels(NULL);
    TRY(shared_domain(api, &domain));
    return CALL(api, ADD_CUSTOM_OP_DOMAIN, OrtSessionOptions *, OrtCustomOpDomain *)(options, domain);
}
