/* AttendToCache, AttendToInt8Cache and AttendWithin: attention as operators of onnxruntime.
 *
 *   queries (and new keys and values behind them, where it appends), keys, values, last positions, bias, scales of
 *   keys and of values   ->   attended, keys and values, which the caller binds to the memory of those that come in
 *
 *   queries, keys and values of sentences of one length, and the shape (B, S, ...)   ->   attended */

#include "kernels.h"
#include "ort_call.h"

struct attend_kernel {
    const OrtApi *api;
    int64_t heads, beams, appends;
    float scale;
};
enum { QUERIES, KEYS, VALUES, LAST, BIAS, KEY_SCALES, VALUE_SCALES, NUM_ATTEND_INPUTS };
enum { ATTENDED, PRESENT_KEYS, PRESENT_VALUES, NUM_ATTEND_OUTPUTS };

static OrtStatus *create_attend(const OrtCustomOp *op, const OrtApi *api, const OrtKernelInfo *info, void **kernel) {
    struct attend_kernel own = {.api = api};
    OrtStatus *status;
    (void)op;
    TRY(integer(api, info, "heads", &own.heads));
    TRY(integer(api, info, "beams", &own.beams));
    TRY(integer(api, info, "appends", &own.appends));
    TRY(number(api, info, "scale", &own.scale));
    if (own.heads < 1 || own.beams < 1 || own.appends < 0 || own.appends > 1 || (own.appends && own.beams > 1) ||
        !is_finite(own.scale))
        return failure(api, "kvjobs: attributes that no attention has");
    return keep(api, &own, sizeof own, kernel);
}

/* Whether a head is whole vectors, of any instruction set, and has room in `attend_head`. */
static int is_head(int64_t size) { return size > 0 && size % 16 == 0 && size <= LARGEST_HEAD; }

static OrtStatus *compute_attend(void *kernel, OrtKernelContext *context) {
    const struct attend_kernel *own = kernel;
    const OrtApi *api = own->api;
    struct tensor queries, keys, bias;
    void *values, *last, *key_scales, *value_scales, *attended, *present[2];
    OrtStatus *status;
    TRY(input(api, context, QUERIES, &queries));
    TRY(input(api, context, KEYS, &keys));
    TRY(input(api, context, BIAS, &bias));
    int64_t sources = keys.dims[0], capacity = keys.dims[2], head_size = keys.dims[3];
    int64_t width = times(own->heads, head_size), row_size = queries.dims[1], dims[2] = {queries.dims[0], width};
    int64_t cells = times(times(sources, capacity), width);
    int fits = queries.rank == 2 && queries.type == ELEMENT_FLOAT && keys.rank == 4 && keys.dims[1] == own->heads &&
               is_head(head_size) && queries.dims[0] == times(sources, own->beams) &&
               row_size == times(own->appends ? 3 : 1, width) && cells >= 0;
    if (!fits) return failure(api, "kvjobs: queries and keys do not fit each other");
    TRY(output(api, context, ATTENDED, dims, 2, &attended));
    TRY(output(api, context, PRESENT_KEYS, keys.dims, keys.rank, &present[0]));
    TRY(output(api, context, PRESENT_VALUES, keys.dims, keys.rank, &present[1]));
    if (!sources) return NULL;
    TRY(sized_input(api, context, VALUES, keys.type, cells, &values));
    TRY(sized_input(api, context, LAST, ELEMENT_INT32, sources, &last));
    TRY(sized_input(api, context, KEY_SCALES, ELEMENT_FLOAT, width, &key_scales));
    TRY(sized_input(api, context, VALUE_SCALES, ELEMENT_FLOAT, width, &value_scales));
    fits = values && last && !key_scales == !value_scales && keys.type == (key_scales ? ELEMENT_INT8 : ELEMENT_FLOAT);
    int64_t longest = 0;
    for (int64_t source = 0; fits && source < sources; source++) {
        int64_t length = (int64_t)((const int32_t *)last)[source] + 1;
        fits = length > 0 && length <= capacity;
        longest = length > longest ? length : longest;
    }
    if (fits && bias.is_there) {
        fits = bias.rank == 4 && bias.type == ELEMENT_FLOAT && (bias.dims[0] == 1 || bias.dims[0] == sources) &&
               bias.dims[1] == own->heads && bias.dims[2] == 1 && bias.dims[3] >= longest;
    }
    if (!fits) return failure(api, "kvjobs: queries, keys and values do not fit each other");
    if (!attended || !present[0] || !present[1]) return failure(api, "kvjobs: attention lacks an output");
    size_t bytes = (size_t)cells * (keys.type == ELEMENT_INT8 ? 1 : sizeof(float));
    if (present[0] != keys.data) memcpy(present[0], keys.data, bytes);  /* the caller has bound other memory */
    if (present[1] != values) memcpy(present[1], values, bytes);

    float *scratch = malloc(ATTENTION_SCRATCH((size_t)longest) * sizeof(float));
    if (!scratch) return failure(api, "kvjobs: Failed to allocate memory for scores");
    struct attention attention = {
        .sources = (size_t)sources, .queries_of_source = (size_t)own->beams, .heads = (size_t)own->heads,
        .head_size = (size_t)head_size, .query_step = (size_t)row_size, .key_step = (size_t)head_size,
        .key_head_step = (size_t)(capacity * head_size), .key_source_step = (size_t)(capacity * width),
        .scale = own->scale, .queries = queries.data, .last = last, .length = (size_t)longest,
        .keys = present[0], .values = present[1], .key_scales = key_scales, .value_scales = value_scales,
        .bias = bias.data, .attended = attended, .scratch = scratch,
    };
    if (bias.data) {
        attention.bias_size = (size_t)bias.dims[3];
        attention.bias_source_step = bias.dims[0] > 1 ? (size_t)own->heads * attention.bias_size : 0;
    }
    if (own->appends) {
        attention.new_keys = attention.queries + width;
        attention.new_values = attention.queries + 2 * width;
    }
    chosen_kernels->attend(&attention);
    free(scratch);
    return NULL;
}

/* A type that varies has to be inferred from a single input, so there are two operators: keys and values in float32 and
 * in int8. */
static const char *attend_name(const OrtCustomOp *op) {
    return op == &attend_operator ? "AttendToCache" : "AttendToInt8Cache";
}
static int cached_type(const OrtCustomOp *op) { return op == &attend_operator ? ELEMENT_FLOAT : ELEMENT_INT8; }
static size_t attend_inputs(const OrtCustomOp *op) { return (void)op, NUM_ATTEND_INPUTS; }
static size_t attend_outputs(const OrtCustomOp *op) { return (void)op, NUM_ATTEND_OUTPUTS; }
static int attend_input(const OrtCustomOp *op, size_t i) {
    return i == KEYS || i == VALUES ? cached_type(op) : i == LAST ? ELEMENT_INT32 : ELEMENT_FLOAT;
}
static int attend_output(const OrtCustomOp *op, size_t i) { return i == ATTENDED ? ELEMENT_FLOAT : cached_type(op); }
static int attend_needs(const OrtCustomOp *op, size_t i) { return (void)op, i < BIAS ? REQUIRED : OPTIONAL; }

#define ATTEND_OPERATOR { \
    .version = CUSTOM_OP_VERSION, .GetName = attend_name, .GetExecutionProviderType = no_provider, \
    .GetInputType = attend_input, .GetInputTypeCount = attend_inputs, \
    .GetOutputType = attend_output, .GetOutputTypeCount = attend_outputs, .KernelDestroy = free_kernel, \
    .GetInputCharacteristic = attend_needs, .GetOutputCharacteristic = required, .GetInputMemoryType = default_memory, \
    .CreateKernelV2 = create_attend, .KernelComputeV2 = compute_attend, \
}
const OrtCustomOp attend_operator = ATTEND_OPERATOR, attend_int8_operator = ATTEND_OPERATOR;

/* ---- AttendWithin ---- */

struct within_kernel {
    const OrtApi *api;
    int64_t heads;
    float scale;
};

static OrtStatus *create_within(const OrtCustomOp *op, const OrtApi *api, const OrtKernelInfo *info, void **kernel) {
    struct within_kernel own = {.api = api};
    OrtStatus *status;
    (void)op;
    TRY(integer(api, info, "heads", &own.heads));
    TRY(number(api, info, "scale", &own.scale));
    if (own.heads < 1 || !is_finite(own.scale)) return failure(api, "kvjobs: attributes that no attention has");
    return keep(api, &own, sizeof own, kernel);
}

static OrtStatus *compute_within(void *kernel, OrtKernelContext *context) {
    const struct within_kernel *own = kernel;
    const OrtApi *api = own->api;
    struct tensor packed;
    void *sentences, *attended;
    OrtStatus *status;
    TRY(input(api, context, 0, &packed));
    TRY(sized_input(api, context, 1, ELEMENT_INT64, 3, &sentences));
    int64_t tokens = packed.dims[0], row_size = packed.dims[1], width = row_size / 3, dims[2] = {tokens, width};
    int64_t length = sentences ? ((const int64_t *)sentences)[1] : -1, head_size = width / own->heads;
    if (packed.rank != 2 || packed.type != ELEMENT_FLOAT || row_size % 3 || !is_head(head_size) ||
        width != times(own->heads, head_size) || length < 0 || (length ? tokens % length : tokens))
        return failure(api, "kvjobs: tokens do not fit their sentences");
    TRY(output(api, context, 0, dims, 2, &attended));
    if (!tokens) return NULL;
    if (!attended) return failure(api, "kvjobs: attention lacks an output");
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
    chosen_kernels->attend(&attention);
    free(scratch);
    return NULL;
}

static const char *within_name(const OrtCustomOp *op) { return (void)op, "AttendWithin"; }
static size_t within_inputs(const OrtCustomOp *op) { return (void)op, 2; }
static size_t within_outputs(const OrtCustomOp *op) { return (void)op, 1; }
static int within_input(const OrtCustomOp *op, size_t i) { return (void)op, i == 0 ? ELEMENT_FLOAT : ELEMENT_INT64; }
static int within_output(const OrtCustomOp *op, size_t i) { return (void)op, (void)i, ELEMENT_FLOAT; }

const OrtCustomOp within_operator = {
    .version = CUSTOM_OP_VERSION, .GetName = within_name, .GetExecutionProviderType = no_provider,
    .GetInputType = within_input, .GetInputTypeCount = within_inputs,
    .GetOutputType = within_output, .GetOutputTypeCount = within_outputs, .KernelDestroy = free_kernel,
    .GetInputCharacteristic = required, .GetOutputCharacteristic = required, .GetInputMemoryType = default_memory,
    .CreateKernelV2 = create_within, .KernelComputeV2 = compute_within,
};
