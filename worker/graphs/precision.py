"""The precision of a graph."""

import enum


class Precision(enum.StrEnum):
    """Of matrix products; everything between them is float32 on a CPU, float16 on a GPU."""

    FP32 = "fp32"  # exact: gives the ids that the checkpoint gives
    INT8 = "int8"  # weights scaled per column, activations per row: a row's result does not depend on its neighbours
    FP16 = "fp16"  # for CUDA
