/* FinishRows and FinishProduct: what stands between two products, as an operator of onnxruntime.
 *
 *   a product, factors, bias, residual, the norm's weight and bias   ->   y, the sums before the norm, y in uint8, its
 *   scales */

#include "kernels.h"
#include "ort_call.h"

struct finish_kernel {
    const OrtApi *api;
    int64_t activation, norm, mixed;
    float epsilon, lowest;
};
enum { PRODUCT, FACTORS, PRODUCT_BIAS, RESIDUAL, NORM_WEIGHT, NORM_BIAS, NUM_FINISH_INPUTS };
enum { Y, SUMS, QUANTIZED, SCALES, NUM_FINISH_OUTPUTS };

static OrtStatus *create_finish(const OrtCustomOp *op, const OrtApi *api, const OrtKernelInfo *info, void **kernel) {
    struct finish_kernel own = {.api = api};
    OrtStatus *status;
    (void)op;
    TRY(integer(api, info, "activation", &own.activation));
    TRY(integer(api, info, "norm", &own.norm));
    TRY(integer(api, info, "mixed", &own.mixed));
    TRY(number(api, info, "epsilon", &own.epsilon));
    TRY(number(api, info, "lowest", &own.lowest));
    if (own.activation < NO_ACTIVATION || own.activation > SILU || own.norm < NO_NORM || own.norm > RMS_NORM ||
        own.epsilon < 0 || !is_finite(own.epsilon) || !is_finite(own.lowest))
        return failure(api, "kvjobs: attributes that no row has");
    return keep(api, &own, sizeof own, kernel);
}

/* Whether there is a kernel for these parts. Without y, the product itself is quantized. */
static int go_together(const struct rows *r) {
    int is_activated = r->activation != NO_ACTIVATION, is_normed = r->norm != NO_NORM;
    if (!r->quantized != !r->scales || (is_activated && r->residual)) return 0;
    if (!r->y) return !(r->factors || r->bias || is_activated || r->residual || is_normed || r->sums);
    return is_normed ? r->norm_weight != NULL : !(r->sums || r->norm_weight || r->norm_bias);
}

static OrtStatus *compute_finish(void *kernel, OrtKernelContext *context) {
    const struct finish_kernel *own = kernel;
    const OrtApi *api = own->api;
    struct tensor product;
    void *in[NUM_FINISH_INPUTS], *out[NUM_FINISH_OUTPUTS];
    OrtStatus *status;
    TRY(input(api, context, PRODUCT, &product));
    int64_t rows = 1, size = product.rank ? product.dims[product.rank - 1] : 1;
    for (size_t i = 0; i + 1 < product.rank; i++) rows = times(rows, product.dims[i]);
    const int64_t counts[] = {times(rows, size), rows, size, times(rows, size), size, size};
    if (!product.is_there || product.type != ELEMENT_FLOAT || counts[PRODUCT] < 0 || !size)
        return failure(api, "kvjobs: a product without rows of numbers");
    TRY(output(api, context, Y, product.dims, product.rank, &out[Y]));
    TRY(output(api, context, SUMS, product.dims, product.rank, &out[SUMS]));
    TRY(output(api, context, QUANTIZED, product.dims, product.rank, &out[QUANTIZED]));
    int64_t dims[2] = {rows, 1};
    TRY(output(api, context, SCALES, dims, 2, &out[SCALES]));
    if (!rows) return NULL;
    for (size_t i = FACTORS; i < NUM_FINISH_INPUTS; i++)
        TRY(sized_input(api, context, i, ELEMENT_FLOAT, counts[i], &in[i]));
    struct rows finished = {
        .num_rows = (size_t)rows, .size = (size_t)size, .x = product.data, .factors = in[FACTORS],
        .bias = in[PRODUCT_BIAS], .activation = (enum activation)own->activation, .residual = in[RESIDUAL],
        .sums = out[SUMS], .norm = (enum norm)own->norm, .norm_weight = in[NORM_WEIGHT], .norm_bias = in[NORM_BIAS],
        .epsilon = own->epsilon, .y = out[Y], .lowest = own->lowest, .quantized = out[QUANTIZED], .scales = out[SCALES],
    };
    if (!go_together(&finished) || (own->mixed && (!finished.quantized || size % 16)))
        return failure(api, "kvjobs: parts of a row that do not go together");
    if (own->mixed && !(finished.mixed = aligned_alloc(64, (size_t)size * sizeof(float))))
        return failure(api, "kvjobs: Failed to allocate memory for a row");
    chosen_kernels->finish(&finished);
    free(finished.mixed);
    return NULL;
}

static const char *finish_name(const OrtCustomOp *op) {
    return op == &finish_product_operator ? "FinishProduct" : "FinishRows";
}
static size_t finish_inputs(const OrtCustomOp *op) { return (void)op, NUM_FINISH_INPUTS; }
static size_t finish_outputs(const OrtCustomOp *op) { return (void)op, NUM_FINISH_OUTPUTS; }
static int finish_input(const OrtCustomOp *op, size_t i) { return (void)op, (void)i, ELEMENT_FLOAT; }
static int finish_output(const OrtCustomOp *op, size_t i) {
    return (void)op, i == QUANTIZED ? ELEMENT_UINT8 : ELEMENT_FLOAT;
}
static int finish_needs(const OrtCustomOp *op, size_t i) { return (void)op, i == PRODUCT ? REQUIRED : OPTIONAL; }
static int optional(const OrtCustomOp *op, size_t i) { return (void)op, (void)i, OPTIONAL; }

/* y lies in the memory of the product: each number is written after all that it depends on was read. */
static size_t share_product(int **inputs, int **outputs) {
    static int from[] = {PRODUCT}, to[] = {Y};
    *inputs = from, *outputs = to;
    return 1;
}
static void nothing(int *inputs, int *outputs) { (void)inputs, (void)outputs; }

#define FINISH_OPERATOR \
    .version = CUSTOM_OP_VERSION, .GetName = finish_name, .GetExecutionProviderType = no_provider, \
    .GetInputType = finish_input, .GetInputTypeCount = finish_inputs, \
    .GetOutputType = finish_output, .GetOutputTypeCount = finish_outputs, .KernelDestroy = free_kernel, \
    .GetInputCharacteristic = finish_needs, .GetOutputCharacteristic = optional, \
    .GetInputMemoryType = default_memory, .CreateKernelV2 = create_finish, .KernelComputeV2 = compute_finish

const OrtCustomOp finish_operator = {FINISH_OPERATOR};
/* FinishProduct: for a product that nothing else reads. onnxruntime finds out by itself where memory may be shared only
 * if it knows the shapes, which custom operators do not tell it. */
const OrtCustomOp finish_product_operator = {
    FINISH_OPERATOR, .GetAliasMap = share_product, .ReleaseAliasMap = nothing,
};
