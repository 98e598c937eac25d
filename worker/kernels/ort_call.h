/* Calling onnxruntime's C API from an operator: inputs, outputs, attributes, errors. */
#ifndef KVJOBS_ORT_CALL_H
#define KVJOBS_ORT_CALL_H

#include <stdlib.h>
#include <string.h>

#include "ort_api.h"

/* The functions of the API that are called, with their types. */
#define CALL(api, NUMBER, ...) ((OrtStatus * (*)(__VA_ARGS__))(api)->function[NUMBER])

static inline OrtStatus *failure(const OrtApi *api, const char *message) {
    enum { FAIL = 1 };  /* OrtErrorCode */
    return ((OrtStatus * (*)(int, const char *))api->function[CREATE_STATUS])(FAIL, message);
}

/* A graph may come from anywhere. So whatever it says of an operator is checked before memory is read or written:
 * attributes when the operator is made; types, shapes and what is missing in each call. */

static inline int is_finite(float x) { return x - x == 0; }

/* a * b of two numbers that are not negative; -1 of others, and where int64 has no room for it: no tensor has so many
 * numbers. */
static inline int64_t times(int64_t a, int64_t b) {
    int64_t product;
    return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product) ? -1 : product;
}

/* An input: whether the graph gives it, its memory (perhaps NULL where it has no numbers), and its shape. */
struct tensor {
    int is_there;
    void *data;
    int type;
    size_t rank;
    int64_t dims[5];
};

static inline OrtStatus *memory_of(const OrtApi *api, const OrtValue *value, void **data) {
    return CALL(api, GET_TENSOR_MUTABLE_DATA, const OrtValue *, void **)(value, data);
}

static inline OrtStatus *value_of(const OrtApi *api, const OrtKernelContext *context, size_t index,
                                  const OrtValue **value, OrtShape **shape, void **data) {
    OrtStatus *status = CALL(api, KERNEL_CONTEXT_GET_INPUT, const OrtKernelContext *, size_t,
                             const OrtValue **)(context, index, value);
    *data = NULL, *shape = NULL;
    if (status || !*value) return status;
    if ((status = memory_of(api, *value, data))) return status;
    return CALL(api, GET_TENSOR_TYPE_AND_SHAPE, const OrtValue *, OrtShape **)(*value, shape);
}

static inline void release(const OrtApi *api, OrtShape *shape) {
    ((void (*)(OrtShape *))api->function[RELEASE_SHAPE])(shape);
}

static inline OrtStatus *input(const OrtApi *api, const OrtKernelContext *context, size_t index,
                               struct tensor *tensor) {
    const OrtValue *value = NULL;
    OrtShape *shape;
    memset(tensor, 0, sizeof *tensor);
    OrtStatus *status = value_of(api, context, index, &value, &shape, &tensor->data);
    if (status || !value) return status;
    tensor->is_there = 1;
    if (!(status = CALL(api, GET_TENSOR_ELEMENT_TYPE, const OrtShape *, int *)(shape, &tensor->type)) &&
        !(status = CALL(api, GET_DIMENSIONS_COUNT, const OrtShape *, size_t *)(shape, &tensor->rank))) {
        if (tensor->rank > 5)
            status = failure(api, "kvjobs: a tensor of more than 5 dimensions");
        else
            status = CALL(api, GET_DIMENSIONS, const OrtShape *, int64_t *, size_t)(shape, tensor->dims, tensor->rank);
    }
    release(api, shape);
    return status;
}

/* An input of this type, of so many elements, at least one; an error where it is another. NULL: there is none. */
static inline OrtStatus *sized_input(const OrtApi *api, const OrtKernelContext *context, size_t index, int type,
                                     int64_t count, void **data) {
    const OrtValue *value = NULL;
    OrtShape *shape;
    size_t found = 0;
    int found_type = 0;
    OrtStatus *status = value_of(api, context, index, &value, &shape, data);
    if (status || !value) return status;
    if (!(status = CALL(api, GET_TENSOR_SHAPE_ELEMENT_COUNT, const OrtShape *, size_t *)(shape, &found)))
        status = CALL(api, GET_TENSOR_ELEMENT_TYPE, const OrtShape *, int *)(shape, &found_type);
    release(api, shape);
    if (status || (found_type == type && (int64_t)found == count && *data)) return status;
    return failure(api, "kvjobs: an input has another type or size than it must have");
}

static inline OrtStatus *output(const OrtApi *api, OrtKernelContext *context, size_t index, const int64_t *dims,
                                size_t rank, void **data) {
    OrtValue *value = NULL;
    OrtStatus *status = CALL(api, KERNEL_CONTEXT_GET_OUTPUT, OrtKernelContext *, size_t, const int64_t *, size_t,
                             OrtValue **)(context, index, dims, rank, &value);
    *data = NULL;
    return status || !value ? status : memory_of(api, value, data);
}

static inline OrtStatus *integer(const OrtApi *api, const OrtKernelInfo *info, const char *name, int64_t *value) {
    return CALL(api, KERNEL_INFO_GET_INT64, const OrtKernelInfo *, const char *, int64_t *)(info, name, value);
}

static inline OrtStatus *number(const OrtApi *api, const OrtKernelInfo *info, const char *name, float *value) {
    return CALL(api, KERNEL_INFO_GET_FLOAT, const OrtKernelInfo *, const char *, float *)(info, name, value);
}

/* End with the error of a call, if it has one. */
#define TRY(call) do { if ((status = (call))) return status; } while (0)

/* What operators on the CPU have in common. */
static inline const char *no_provider(const OrtCustomOp *op) { return (void)op, NULL; }
static inline int default_memory(const OrtCustomOp *op, size_t index) { return (void)op, (void)index, 0; }
static inline int required(const OrtCustomOp *op, size_t index) { return (void)op, (void)index, REQUIRED; }
static inline void free_kernel(void *kernel) { free(kernel); }
static inline OrtStatus *keep(const OrtApi *api, const void *own, size_t size, void **kernel) {
    if (!(*kernel = malloc(size))) return failure(api, "kvjobs: out of memory");
    memcpy(*kernel, own, size);
    return NULL;
}

/* The operators of this library: attention_operators.c, finish_operator.c. */
extern const OrtCustomOp attend_operator, attend_int8_operator, within_operator;
extern const OrtCustomOp finish_operator, finish_product_operator;

#endif
