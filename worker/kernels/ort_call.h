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

/* An input: its memory, NULL where there is none, and its shape. */
struct tensor {
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

/* An input of so many elements; an error where it has another number: a graph may come from anywhere. */
static inline OrtStatus *sized_input(const OrtApi *api, const OrtKernelContext *context, size_t index, int64_t count,
                                     void **data) {
    const OrtValue *value = NULL;
    OrtShape *shape;
    size_t found;
    OrtStatus *status = value_of(api, context, index, &value, &shape, data);
    if (status || !value) return status;
    status = CALL(api, GET_TENSOR_SHAPE_ELEMENT_COUNT, const OrtShape *, size_t *)(shape, &found);
    release(api, shape);
    if (status || (int64_t)found == count) return status;
    return failure(api, "kvjobs: an input has another size than it must have");
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

/* The operators of this library: attention_operators.c, finish_operator.c. */
extern const OrtCustomOp attend_operator, attend_int8_operator, within_operator;
extern const OrtCustomOp finish_operator, finish_product_operator;

#endif
