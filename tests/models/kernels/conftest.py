"""The compiled kernels, one instruction set after the other."""

from collections.abc import Iterator

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidGraph, RuntimeException

from worker.graphs.graph_builder import IR_VERSION, OPSET
from worker.kernels.functions import Kernels
from worker.kernels.library import KERNELS, NoKernelsError, open_library

INSTRUCTION_SETS = ("any", "avx2", "avx512")

Arrays = dict[str, NDArray[np.generic]]
# What onnxruntime raises where an operator refuses a call or its attributes, and where a graph lacks an operand.
REFUSED = Fail, RuntimeException, InvalidGraph


@pytest.fixture(scope="session")
def library_is_there() -> None:
    """Whether it is right is for the tests to say."""
    try:
        open_library()
    except NoKernelsError as error:
        pytest.skip(f"the kernels cannot be used: {error}; {error.mend}")


@pytest.fixture(scope="module", params=INSTRUCTION_SETS)
def kernels(request: pytest.FixtureRequest, library_is_there: None) -> Iterator[Kernels]:
    """The kernels for an instruction set; those of the process again afterwards. The best ones stand for a set that
    this processor lacks."""
    library = open_library()
    choose = library.functions.kvjobs_choose_kernels
    own = library.instruction_set.encode()
    chosen = choose(request.param.encode()) or choose(None)
    assert chosen is not None
    yield Kernels(library)
    choose(own)


def run_node(kernels: Kernels, node: NodeProto, feed: Arrays, outputs: dict[str, int]) -> list[NDArray[np.generic]]:
    """One operator of the kernels in a graph of its own; `outputs`: the type of each output that is asked for."""
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in feed.items()
    ]
    asked = [helper.make_tensor_value_info(name, dtype, None) for name, dtype in outputs.items()]
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(KERNELS, 1)]
    graph = helper.make_graph([node], "one", inputs, asked)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4  # what an operator refuses is raised, too
    options.enable_cpu_mem_arena = False  # a tensor is a block of its own, whose ends a sanitizer watches
    options.register_custom_ops_library(str(kernels.file))
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    found: list[NDArray[np.generic]] = session.run(list(outputs), feed)
    return found


FLOAT, UINT8, INT8 = TensorProto.FLOAT, TensorProto.UINT8, TensorProto.INT8
