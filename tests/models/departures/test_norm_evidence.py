"""Whether a graph normalizes as its architecture does."""

import pytest

from tests.models.departures.node_graphs import SOFTMAX, find
from worker.models.departures.departures import Departures


@pytest.mark.parametrize("wrong", ["SimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_an_architecture_with_layer_norm_has_it_in_its_graph(tmp_path, wrong):
    """onnxruntime-genai exports OLMo with RMSNorm."""
    (sentence,) = find(tmp_path, [(wrong, ["x"], {}), SOFTMAX], model_type="olmo").contradictions

    assert sentence.startswith("config.json names the architecture olmo, which normalizes by LayerNorm")
    assert find(tmp_path, [("LayerNormalization", ["x"], {}), SOFTMAX], model_type="olmo") == Departures()
    assert find(tmp_path, [(wrong, ["x"], {}), SOFTMAX], model_type="llama") == Departures()
    assert find(tmp_path, [(wrong, ["x"], {}), SOFTMAX], type="olmo").contradictions  # the name in genai_config.json
