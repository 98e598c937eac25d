/* The part of onnxruntime's C API that custom operators need: its functions by their number, which no version changes
 * (onnxruntime/core/session/onnxruntime_c_api.cc: "Size of version 1 API cannot change"), and the struct of a custom
 * operator (onnxruntime_c_api.h, OrtCustomOp). Nothing of onnxruntime is needed to compile this. */
#ifndef KVJOBS_ORT_API_H
#define KVJOBS_ORT_API_H

#include <stddef.h>
#include <stdint.h>

typedef struct OrtStatus OrtStatus;  /* NULL: success */
typedef struct OrtValue OrtValue;
typedef struct OrtShape OrtShape;    /* OrtTensorTypeAndShapeInfo */
typedef struct OrtKernelInfo OrtKernelInfo;
typedef struct OrtKernelContext OrtKernelContext;
typedef struct OrtCustomOpDomain OrtCustomOpDomain;
typedef struct OrtSessionOptions OrtSessionOptions;

/* ONNXTensorElementDataType */
enum { ELEMENT_FLOAT = 1, ELEMENT_UINT8 = 2, ELEMENT_INT8 = 3, ELEMENT_INT32 = 6, ELEMENT_INT64 = 7 };
enum { REQUIRED = 0, OPTIONAL = 1 };  /* OrtCustomOpInputOutputCharacteristic */

/* OrtApi is an array of functions. */
enum {
    CREATE_STATUS = 0,
    CREATE_CUSTOM_OP_DOMAIN = 26,
    CUSTOM_OP_DOMAIN_ADD = 27,
    ADD_CUSTOM_OP_DOMAIN = 28,
    GET_TENSOR_MUTABLE_DATA = 51,
    GET_TENSOR_ELEMENT_TYPE = 60,
    GET_DIMENSIONS_COUNT = 61,
    GET_DIMENSIONS = 62,
    GET_TENSOR_SHAPE_ELEMENT_COUNT = 64,
    GET_TENSOR_TYPE_AND_SHAPE = 65,
    KERNEL_INFO_GET_FLOAT = 85,
    KERNEL_INFO_GET_INT64 = 86,
    KERNEL_CONTEXT_GET_INPUT_COUNT = 88,
    KERNEL_CONTEXT_GET_OUTPUT_COUNT = 89,
    KERNEL_CONTEXT_GET_INPUT = 90,
    KERNEL_CONTEXT_GET_OUTPUT = 91,
    RELEASE_SHAPE = 99,
    RELEASE_CUSTOM_OP_DOMAIN = 101,
};
typedef void (*OrtFunction)(void);
typedef struct { OrtFunction function[RELEASE_CUSTOM_OP_DOMAIN + 1]; } OrtApi;

typedef struct {
    const OrtApi *(*GetApi)(uint32_t version);
    const char *(*GetVersionString)(void);
} OrtApiBase;

typedef struct OrtCustomOp OrtCustomOp;
struct OrtCustomOp {
    uint32_t version;  /* of the API: which of the members below are read */
    void *CreateKernel;
    const char *(*GetName)(const OrtCustomOp *);
    const char *(*GetExecutionProviderType)(const OrtCustomOp *);
    int (*GetInputType)(const OrtCustomOp *, size_t index);
    size_t (*GetInputTypeCount)(const OrtCustomOp *);
    int (*GetOutputType)(const OrtCustomOp *, size_t index);
    size_t (*GetOutputTypeCount)(const OrtCustomOp *);
    void *KernelCompute;
    void (*KernelDestroy)(void *kernel);
    int (*GetInputCharacteristic)(const OrtCustomOp *, size_t index);
    int (*GetOutputCharacteristic)(const OrtCustomOp *, size_t index);
    int (*GetInputMemoryType)(const OrtCustomOp *, size_t index);
    void *variadic[4];  /* of operators with any number of inputs or outputs */
    OrtStatus *(*CreateKernelV2)(const OrtCustomOp *, const OrtApi *, const OrtKernelInfo *, void **kernel);
    OrtStatus *(*KernelComputeV2)(void *kernel, OrtKernelContext *);
    void *InferOutputShapeFn, *GetStartVersion, *GetEndVersion;
    void *GetMayInplace, *ReleaseMayInplace;
    /* Pairs of an input and an output that share memory: how many, and their indices. */
    size_t (*GetAliasMap)(int **inputs, int **outputs);
    void (*ReleaseAliasMap)(int *inputs, int *outputs);
};
enum { CUSTOM_OP_VERSION = 18 };  /* up to the memory that is shared */

#endif
