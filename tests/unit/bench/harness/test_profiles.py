"""How profiles of graphs and of Python are grouped, from events that are written here."""

import pytest

from bench.harness.onnx_profile import read_profile
from bench.harness.python_profile import MODEL, REST, SEARCH, SLOTS, by_kind


def node(operator: str, name: str, microseconds: float) -> dict[str, object]:
    return {"cat": "Node", "name": f"{name}_kernel_time", "dur": microseconds, "args": {"op_name": operator}}


def test_a_product_is_the_sum_over_the_layers_of_the_medians_of_its_nodes():
    events = [{"cat": "Session", "name": "model_run", "dur": 9_000}]
    events += [node("MatMul", "decoder.layers.0.fc1.product", one) for one in (1_000, 3_000, 2_000)]
    events += [node("MatMul", "decoder.layers.1.fc1.product", 4_000), node("Add", "decoder.layers.1.sum", 2_000)]

    profile = read_profile(events)

    assert profile is not None
    assert (profile.calls, profile.ms) == (1, 9.0)
    assert [(one.operator, one.matrix, one.nodes, one.ms) for one in profile.groups] == [
        ("MatMul", "decoder.fc1", 2, 6.0),
        ("Add", "", 1, 2.0),
    ]
    assert profile.groups[0].share == pytest.approx(0.75)


def test_a_graph_that_never_ran_has_no_profile():
    assert read_profile([{"cat": "Session", "name": "session_initialization", "dur": 5}]) is None


def test_what_numpy_takes_counts_where_it_is_called_from():
    decode = ("/src/worker/engine/seq2seq/native/continuous_batching.py", 1, "steps")
    search = ("/src/worker/engine/search/beam.py", 1, "advance")
    bind = ("/src/worker/engine/seq2seq/native/kv_slots.py", 1, "bind")
    run = ("/lib/onnxruntime/capi/onnxruntime_inference_collection.py", 1, "run_with_iobinding")
    numpy = ("~", 0, "<built-in method argsort>")
    stats = {
        decode: (1, 1, 1.0, 20.0, {}),
        search: (1, 1, 2.0, 5.0, {decode: (1, 1, 2.0, 5.0)}),
        numpy: (1, 1, 3.0, 3.0, {search: (1, 1, 3.0, 3.0)}),
        bind: (1, 1, 4.0, 4.0, {decode: (1, 1, 4.0, 4.0)}),
        run: (1, 1, 10.0, 10.0, {decode: (1, 1, 10.0, 10.0)}),
    }

    assert by_kind(stats) == {SEARCH: 5.0, SLOTS: 4.0, MODEL: 10.0, REST: 1.0}
