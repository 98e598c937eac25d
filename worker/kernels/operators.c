/* The kernels as custom operators of onnxruntime, in the domain "kvjobs".
 *
 *   AttendToCache   queries, keys, values, last, [new keys and values are in `queries`], bias, scales
 *                   -> attended, present keys and values: the memory of the past ones
 *   FinishRows      a product, factors, bias, residual, norm's weight and bias
 *                   -> y, the sums before the norm, y in uint8, its scales
 */

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "ort_api.h"

static const struct kernels *chosen;

/* The functions of the API that are called, with their types. */
#define CALL(api, NUMBER, ...) ((OrtStatus * (*)(__VA_ARGS__))(api)->function[NUMBER])

static OrtStatus *failure(const OrtApi *api, const char *message) {
    enum { FAIL = 1 };  /* OrtErrorCode */
    return ((OrtStatus * (*)(int, const char *))api->function[CREATE_STATUS])(FAIL, message);
}

/* An input or output: its memory, NULL where there is none, and its shape. */
struct tensor {
    void *data;
    int type;
    size_t rank;
    int64_t dims[5];
};

static OrtStatus *memory_of(const OrtApi *api, const OrtValue *value, void **data) {
    return CALL(api, GET_TENSOR_MUTABLE_DATA, const OrtValue *, void **)(value, data);
}

static OrtStatus *input(const OrtApi *api, const OrtKernelContext *context, size_t index, void **data) {
    const OrtValue *value = NULL;
    OrtStatus *status =
        CALL(api, KERNEL_CONTEXT_GET_INPUT, const OrtKernelContext *, size_t, const OrtValue **)(context, index, &value);
    *data = NULL;
    return status || !value ? status : memory_of(api, value, data);
}

static OrtStatus *shaped_input(const OrtApi *api, const OrtKernelContext *context, size_t index, struct tensor *tensor) {
    const OrtValue *value = NULL;
    OrtShape *shape = NULL;
    OrtStatus *status =
        CALL(api, KERNEL_CONTEXT_GET_INPUT, const OrtKernelContext *, size_t, const OrtValue **)(context, index, &value);
    memset(tensor, 0, sizeof *tensor);
    if (status || !value) return status;
    if ((status = memory_of(api, value, &tensor->data))) return status;
    if ((status = CALL(api, GET_TENSOR_TYPE_AND_SHAPE, const OrtValue *, OrtShape **)(value, &shape))) return status;
    if (!(status = CALL(api, GET_TENSOR_ELEMENT_TYPE, const OrtShape *, int *)(shape, &tensor->type)) &&
        !(status = CALL(api, GET_DIMENSIONS_COUNT, const OrtShape *, size_t *)(shape, &tensor->rank))) {
        if (tensor->rank > 5)
            status = failure(api, "kvjobs: a tensor of more than 5 dimensions");
        else
            status = CALL(api, GET_DIMENSIONS, const OrtShape *, int64_t *, size_t)(shape, tensor->dims, tensor->rank);
    }
    ((void (*)(OrtShape *))api->function[RELEASE_SHAPE])(shape);
    return status;
}

static OrtStatus *output(const OrtApi *api, OrtKernelContext *context, size_t index, const int64_t *dims, size_t rank,
                         void **data) {
    OrtValue *value = NULL;
    OrtStatus *status = CALL(api, KERNEL_CONTEXT_GET_OUTPUT, OrtKernelContext *, size_t, const int64_t *, size_t,
                             OrtValue **)(context, index, dims, rank, &value);
    *data = NULL;
    return status || !value ? status : memory_of(api, value, data);
}

static OrtStatus *integer(const OrtApi *api, const OrtKernelInfo *info, const char *name, int64_t *value) {
    return CALL(api, KERNEL_INFO_GET_INT64, const OrtKernelInfo *, const char *, int64_t *)(info, name, value);
}

static OrtStatus *number(const OrtApi *api, const OrtKernelInfo *info, const char *name, float *value) {
    return CALL(api, KERNEL_INFO_GET_FLOAT, const OrtKernelInfo *, const char *, float *)(info, name, value);
}

#define TRY(call) do { if ((status = (call))) return status; } while (0)

/* ---- AttendToCache ---- */

struct attend_kernel {
    const OrtApi *api;
    int64_t heads, beams, appends;
    float scale;
};
enum { QUERIES, KEYS, VALUES, LAST, BIAS, KEY_SCALES, VALUE_SCALES, NUM_ATTEND_INPUTS };
enum { ATTENDED, PRESENT_KEYS, PRESENT_VALUES, NUM_ATTEND_OUTPUTS };

static OrtStatus *create_attend(const OrtCustomOp *op, const OrtApi *api, const OrtKernelInfo *info, void **kernel) {
    struct attend_kernel *own = calloc(1, sizeof *own);
    OrtStatus *status;
    (void)op;
    if (!own) return failure(api, "kvjobs: out of memory");
    own->api = api;
    *kernel = own;
    TRY(integer(api, info, "heads", &own->heads));
    TRY(integer(api, info, "beams", &own->beams));
    TRY(integer(api, info, "appends", &own->appends));
    return number(api, info, "scale", &own->scale);
}

static OrtStatus *compute_attend(void *kernel, OrtKernelContext *context) {
    const struct attend_kernel *own = kernel;
    const OrtApi *api = own->api;
    struct tensor queries, keys, bias;
    void *values, *last, *key_scales, *value_scales, *attended, *present[2];
    OrtStatus *status;
    TRY(shaped_input(api, context, QUERIES, &queries));
    TRY(shaped_input(api, context, KEYS, &keys));
    TRY(input(api, context, VALUES, &values));
    TRY(input(api, context, LAST, &last));
    TRY(shaped_input(api, context, BIAS, &bias));
    TRY(input(api, context, KEY_SCALES, &key_scales));
    TRY(input(api, context, VALUE_SCALES, &value_scales));

    int64_t sources = keys.dims[0], head_size = keys.dims[3], width = own->heads * head_size;
    int64_t row_size = queries.dims[queries.rank - 1];
    int64_t dims[2] = {queries.dims[0], width};
    if (queries.dims[0] != sources * own->beams || row_size != (own->appends ? 3 : 1) * width || head_size > LARGEST_HEAD)
        return failure(api, "kvjobs: queries do not fit the keys");
    TRY(output(api, context, ATTENDED, dims, 2, &attended));
    TRY(output(api, context, PRESENT_KEYS, keys.dims, keys.rank, &present[0]));
    TRY(output(api, context, PRESENT_VALUES, keys.dims, keys.rank, &present[1]));
    size_t bytes = (size_t)(sources * width * keys.dims[2]) * (keys.type == ELEMENT_INT8 ? 1 : sizeof(float));
    if (present[0] != keys.data) memcpy(present[0], keys.data, bytes);  /* the caller has bound other memory */
    if (present[1] != values) memcpy(present[1], values, bytes);

    float *scratch = malloc(ATTENTION_SCRATCH((size_t)keys.dims[2]) * sizeof(float));
    if (!scratch) return failure(api, "kvjobs: Failed to allocate memory for scores");
    struct attention attention = {
        .sources = (size_t)sources, .queries_of_source = (size_t)own->beams, .heads = (size_t)own->heads,
        .head_size = (size_t)head_size, .query_step = (size_t)row_size, .key_step = (size_t)head_size,
        .key_head_step = (size_t)(keys.dims[2] * head_size), .key_source_step = (size_t)(keys.dims[2] * width),
        .scale = own->scale, .queries = queries.data, .last = last, .length = (size_t)keys.dims[2],
        .keys = present[0], .values = present[1], .key_scales = key_scales, .value_scales = value_scales,
        .bias = bias.data, .attended = attended, .scratch = scratch,
    };
    if (bias.data) {
        attention.bias_size = (size_t)bias.dims[bias.rank - 1];
        attention.bias_source_step = bias.dims[0] > 1 ? (size_t)own->heads * attention.bias_size : 0;
    }
    if (own->appends) {
        attention.new_keys = attention.queries + width;
        attention.new_values = attention.queries + 2 * width;
    }
    chosen->attend(&attention);
    free(scratch);
    return NULL;
}

/* ---- AttendWithin ---- */

struct within_kernel {
    const OrtApi *api;
    int64_t heads;
    float scale;
};

static OrtStatus *create_within(const OrtCustomOp *op, const OrtApi *api, const OrtKernelInfo *info, void **kernel) {
    struct within_kernel *own = calloc(1, sizeof *own);
    OrtStatus *status;
    (void)op;
    if (!own) return failure(api, "kvjobs: out of memory");
    own->api = api;
    *kernel = own;
    TRY(integer(api, info, "heads", &own->heads));
    return number(api, info, "scale", &own->scale);
}

static OrtStatus *compute_within(void *kernel, OrtKernelContext *context) {
    const struct within_kernel *own = kernel;
    const OrtApi *api = own->api;
    struct tensor packed;
    void *sentences, *attended;
    OrtStatus *status;
    TRY(shaped_input(api, context, 0, &packed));
    TRY(input(api, context, 1, &sentences));
    int64_t tokens = packed.dims[0], row_size = packed.dims[1], width = row_size / 3, dims[2] = {tokens, width};
    int64_t length = ((const int64_t *)sentences)[1], head_size = width / own->heads;
    TRY(output(api, context, 0, dims, 2, &attended));
    if (!tokens || !length) return NULL;
    float *scratch = malloc(ATTENTION_SCRATCH((size_t)length) * sizeof(float));
    if (!scratch) return failure(api, "kvjobs: Failed to allocate memory for scores");
    float *first = packed.data;
    struct attention attention = {
        .sources = (size_t)(tokens / length), .queries_of_source = (size_t)length, .heads = (size_t)own->heads,
        .head_size = (size_t)head_size, .query_step = (size_t)row_size, .key_step = (size_t)row_size,
        .key_head_step = (size_t)head_size, .key_source_step = (size_t)(length * row_size), .scale = own->scale,
        .queries = first, .length = (size_t)length, .keys = first + width, .values = first + 2 * width,
        .attended = attended, .scratch = scratch,
    };
    chosen->attend(&attention);
    free(scratch);
    return NULL;
}

/* ---- FinishRows ---- */

struct finish_kernel {
    const OrtApi *api;
    int64_t activation, norm;
    float epsilon, lowest;
};
enum { PRODUCT, FACTORS, PRODUCT_BIAS, RESIDUAL, NORM_WEIGHT, NORM_BIAS, NUM_FINISH_INPUTS };
enum { Y, SUMS, QUANTIZED, SCALES, NUM_FINISH_OUTPUTS };

static OrtStatus *create_finish(const OrtCustomOp *op, const OrtApi *api, const OrtKernelInfo *info, void **kernel) {
    struct finish_kernel *own = calloc(1, sizeof *own);
    OrtStatus *status;
    (void)op;
    if (!own) return failure(api, "kvjobs: out of memory");
    own->api = api;
    *kernel = own;
    TRY(integer(api, info, "activation", &own->activation));
    TRY(integer(api, info, "norm", &own->norm));
    TRY(number(api, info, "epsilon", &own->epsilon));
    return number(api, info, "lowest", &own->lowest);
}

static OrtStatus *compute_finish(void *kernel, OrtKernelContext *context) {
    const struct finish_kernel *own = kernel;
    const OrtApi *api = own->api;
    struct tensor product;
    void *in[NUM_FINISH_INPUTS], *out[NUM_FINISH_OUTPUTS];
    OrtStatus *status;
    TRY(shaped_input(api, context, PRODUCT, &product));
    for (size_t i = FACTORS; i < NUM_FINISH_INPUTS; i++) TRY(input(api, context, i, &in[i]));
    size_t rows = 1;
    for (size_t i = 0; i + 1 < product.rank; i++) rows *= (size_t)product.dims[i];
    TRY(output(api, context, Y, product.dims, product.rank, &out[Y]));
    TRY(output(api, context, SUMS, product.dims, product.rank, &out[SUMS]));
    TRY(output(api, context, QUANTIZED, product.dims, product.rank, &out[QUANTIZED]));
    int64_t dims[2] = {(int64_t)rows, 1};
    TRY(output(api, context, SCALES, dims, 2, &out[SCALES]));
    struct rows finished = {
        .num_rows = rows, .size = (size_t)product.dims[product.rank - 1], .x = product.data, .factors = in[FACTORS],
        .bias = in[PRODUCT_BIAS], .activation = (enum activation)own->activation, .residual = in[RESIDUAL],
        .sums = out[SUMS], .norm = (enum norm)own->norm, .norm_weight = in[NORM_WEIGHT], .norm_bias = in[NORM_BIAS],
        .epsilon = own->epsilon, .y = out[Y], .lowest = own->lowest, .quantized = out[QUANTIZED], .scales = out[SCALES],
    };
    if (finished.sums && finished.norm == NO_NORM) return failure(api, "kvjobs: sums without a norm are y itself");
    chosen->finish(&finished);
    return NULL;
}

/* ---- Registration ---- */

static const char *provider(const OrtCustomOp *op) { (void)op; return NULL; }  /* the CPU's */
static int memory_type(const OrtCustomOp *op, size_t index) { (void)op, (void)index; return 0; }
static void destroy(void *kernel) { free(kernel); }

/* A type that varies has to be inferred from a single input, so there are two operators: keys and values in float32 and
 * in int8. */
/* Each number of y is written after all that it depends on was read. */
static size_t finish_in_place(int **inputs, int **outputs) {
    static int from[] = {PRODUCT, RESIDUAL}, to[] = {Y, SUMS};
    *inputs = from, *outputs = to;
    return sizeof from / sizeof *from;
}
static void nothing(int *inputs, int *outputs) { (void)inputs, (void)outputs; }

static const OrtCustomOp attend_operator, attend_int8_operator;
static const char *attend_name(const OrtCustomOp *op) {
    return op == &attend_operator ? "AttendToCache" : "AttendToInt8Cache";
}
static int cached_type(const OrtCustomOp *op) { return op == &attend_operator ? ELEMENT_FLOAT : ELEMENT_INT8; }
static size_t attend_inputs(const OrtCustomOp *op) { (void)op; return NUM_ATTEND_INPUTS; }
static size_t attend_outputs(const OrtCustomOp *op) { (void)op; return NUM_ATTEND_OUTPUTS; }
static int attend_input(const OrtCustomOp *op, size_t i) {
    return i == KEYS || i == VALUES ? cached_type(op) : i == LAST ? ELEMENT_INT32 : ELEMENT_FLOAT;
}
static int attend_output(const OrtCustomOp *op, size_t i) { return i == ATTENDED ? ELEMENT_FLOAT : cached_type(op); }
static int attend_needs(const OrtCustomOp *op, size_t i) { (void)op; return i < BIAS ? REQUIRED : OPTIONAL; }
static int required(const OrtCustomOp *op, size_t i) { (void)op, (void)i; return REQUIRED; }

static const char *within_name(const OrtCustomOp *op) { (void)op; return "AttendWithin"; }
static size_t within_inputs(const OrtCustomOp *op) { (void)op; return 2; }
static size_t within_outputs(const OrtCustomOp *op) { (void)op; return 1; }
static int within_input(const OrtCustomOp *op, size_t i) { (void)op; return i == 0 ? ELEMENT_FLOAT : ELEMENT_INT64; }
static int within_output(const OrtCustomOp *op, size_t i) { (void)op, (void)i; return ELEMENT_FLOAT; }

static const char *finish_name(const OrtCustomOp *op) { (void)op; return "FinishRows"; }
static size_t finish_inputs(const OrtCustomOp *op) { (void)op; return NUM_FINISH_INPUTS; }
static size_t finish_outputs(const OrtCustomOp *op) { (void)op; return NUM_FINISH_OUTPUTS; }
static int finish_input(const OrtCustomOp *op, size_t i) { (void)op, (void)i; return ELEMENT_FLOAT; }
static int finish_output(const OrtCustomOp *op, size_t i) { (void)op; return i == QUANTIZED ? ELEMENT_UINT8 : ELEMENT_FLOAT; }
static int finish_needs(const OrtCustomOp *op, size_t i) { (void)op; return i == PRODUCT ? REQUIRED : OPTIONAL; }
static int optional(const OrtCustomOp *op, size_t i) { (void)op, (void)i; return OPTIONAL; }

#define ATTEND_OPERATOR { \
    .version = CUSTOM_OP_VERSION, .GetName = attend_name, .GetExecutionProviderType = provider, \
    .GetInputType = attend_input, .GetInputTypeCount = attend_inputs, \
    .GetOutputType = attend_output, .GetOutputTypeCount = attend_outputs, .KernelDestroy = destroy, \
    .GetInputCharacteristic = attend_needs, .GetOutputCharacteristic = required, .GetInputMemoryType = memory_type, \
    .CreateKernelV2 = create_attend, .KernelComputeV2 = compute_attend, \
}
static const OrtCustomOp attend_operator = ATTEND_OPERATOR, attend_int8_operator = ATTEND_OPERATOR;
static const OrtCustomOp within_operator = {
    .version = CUSTOM_OP_VERSION, .GetName = within_name, .GetExecutionProviderType = provider,
    .GetInputType = within_input, .GetInputTypeCount = within_inputs,
    .GetOutputType = within_output, .GetOutputTypeCount = within_outputs, .KernelDestroy = destroy,
    .GetInputCharacteristic = required, .GetOutputCharacteristic = required, .GetInputMemoryType = memory_type,
    .CreateKernelV2 = create_within, .KernelComputeV2 = compute_within,
};
static const OrtCustomOp finish_operator = {
    .version = CUSTOM_OP_VERSION, .GetName = finish_name, .GetExecutionProviderType = provider,
    .GetInputType = finish_input, .GetInputTypeCount = finish_inputs,
    .GetOutputType = finish_output, .GetOutputTypeCount = finish_outputs, .KernelDestroy = destroy,
    .GetInputCharacteristic = finish_needs, .GetOutputCharacteristic = optional, .GetInputMemoryType = memory_type,
    .CreateKernelV2 = create_finish, .KernelComputeV2 = compute_finish,
    .GetMayInplace = finish_in_place, .ReleaseMayInplace = nothing,
};

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
            chosen = known[i];
            return chosen->instruction_set;
        }
    }
    return NULL;
}

/* See `struct kernels`. */
void kvjobs_sum_powers(const float *x, size_t rows, size_t size, const float *factors, float *sums) {
    chosen->sum_powers(x, rows, size, factors, sums);
}

void kvjobs_best_continuations(const struct continuations *continuations) { chosen->best_continuations(continuations); }

OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
    static OrtCustomOpDomain *domain;  /* lives as long as the process: sessions share it */
    const OrtApi *api = base->GetApi(CUSTOM_OP_VERSION);
    OrtStatus *status;
    if (!chosen) kvjobs_choose_kernels(NULL);
    if (!domain) {
        TRY(CALL(api, CREATE_CUSTOM_OP_DOMAIN, const char *, OrtCustomOpDomain **)("kvjobs", &domain));
        const OrtCustomOp *operators[] = {&attend_operator, &attend_int8_operator, &within_operator, &finish_operator};
        for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
            TRY(CALL(api, CUSTOM_OP_DOMAIN_ADD, OrtCustomOpDomain *, const OrtCustomOp *)(domain, operators[i]));
    }
    return CALL(api, ADD_CUSTOM_OP_DOMAIN, OrtSessionOptions *, OrtCustomOpDomain *)(options, domain);
}
