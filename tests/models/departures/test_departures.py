"""The limit that follows from all departures of a graph together."""

from tests.causal_exports import LongRope
from tests.models.departures.node_graphs import PLAIN, find, rotary_nodes


def test_the_shortest_limit_applies(tmp_path):
    rope = LongRope()
    window = {"model_type": "mistral", "sliding_window": 16}

    found = find(tmp_path, rotary_nodes(PLAIN / rope.short, rope.factor), **rope.config(), **window)

    assert found.limit is not None
    assert found.limit.positions == 16
