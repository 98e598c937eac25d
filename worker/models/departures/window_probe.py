"""
Whether this onnxruntime counts a window of attention as the models do.

With a window of W, a token attends to itself and to the W - 1 before it. Earlier kernels of GroupQueryAttention attend
to one more (gqa_attention_base.h, `local_window_size_ + 1`) without any error.
"""

import functools

import numpy as np
import onnxruntime

from worker.graphs.graph_builder import CONTRIB, GraphBuilder
from worker.graphs.weights import WrittenWeights

_TOKENS, _WINDOW, _HEAD_SIZE = 6, 3, 16


@functools.cache
def windows_are_exact() -> bool:
    """Run a uniform attention with a window once, and see how many tokens the last one averages; cached."""
    net = GraphBuilder("window", WrittenWeights({}))
    packed = net.input("packed", np.float32, [1, _TOKENS, 3 * _HEAD_SIZE])
    for name in ("past.key", "past.value"):
        net.input(name, np.float32, [1, 1, 0, _HEAD_SIZE])
    attended, *_ = net.ops(
        "GroupQueryAttention", packed, "", "", "past.key", "past.value",
        net.constant("ends", [_TOKENS - 1], np.int32), net.constant("longest", [_TOKENS], np.int32),
        outputs=["attended", "key", "value"], domain=CONTRIB, num_heads=1, kv_num_heads=1, local_window_size=_WINDOW,
    )  # fmt: skip
    net.output(attended, "seen", np.float32, [1, _TOKENS, _HEAD_SIZE])
    session = onnxruntime.InferenceSession(net.model().SerializeToString(), providers=["CPUExecutionProvider"])
    values = np.zeros((1, _TOKENS, 3 * _HEAD_SIZE), np.float32)
    values[0, :, -_HEAD_SIZE:] = 2.0 ** np.arange(_TOKENS)[:, None]
    nothing = np.zeros((1, 1, 0, _HEAD_SIZE), np.float32)
    seen = session.run(["seen"], {"packed": values, "past.key": nothing, "past.value": nothing})[0]
    wanted = np.mean(2.0 ** np.arange(_TOKENS - _WINDOW, _TOKENS))
    return bool(np.allclose(seen[0, -1], wanted, rtol=1e-4))
