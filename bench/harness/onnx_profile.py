"""Where a graph's time goes, by onnxruntime's own profile.

Knows: the events of that profile, and how nodes of our graphs are named. Does not know: what is translated.
"""

import json
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnxruntime

_KERNEL = "_kernel_time"
_PRODUCT = re.compile(r"MatMul|Gemm|QLinear")
# Of the name of a product's node: the layer's number, and what builders and optimizers append.
_NOT_MATRIX = re.compile(r"layers\.\d+\.|/.*|\.product.*")


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes of one operator; of a product, those that multiply by the same matrix of every layer."""

    operator: str
    matrix: str  # empty if it is not a product
    nodes: int
    ms: float  # of one call: the sum of the medians of each node
    share: float  # of all nodes


@dataclass(frozen=True, slots=True)
class GraphProfile:
    """The calls of one graph."""

    calls: int
    ms: float  # of a call, the median, with what onnxruntime does between nodes
    groups: list[Group]  # greatest first


@contextmanager
def profiled_sessions(folder: Path) -> Iterator[list[onnxruntime.InferenceSession]]:
    """Every session that is opened in the block writes a profile into `folder`; they come in the order of opening."""
    options, session = onnxruntime.SessionOptions, onnxruntime.InferenceSession
    opened: list[onnxruntime.InferenceSession] = []

    def with_profile() -> onnxruntime.SessionOptions:
        made = options()
        made.enable_profiling = True
        made.profile_file_prefix = str(folder / f"session-{len(opened)}")
        return made

    def open_session(*arguments: Any, **settings: Any) -> onnxruntime.InferenceSession:
        opened.append(session(*arguments, **settings))
        return opened[-1]

    # The engine has no setting for this, since nobody but this command needs it.
    onnxruntime.SessionOptions, onnxruntime.InferenceSession = with_profile, open_session
    try:
        yield opened
    finally:
        onnxruntime.SessionOptions, onnxruntime.InferenceSession = options, session


def end_profile(session: onnxruntime.InferenceSession) -> GraphProfile | None:
    """The profile of a session so far; None if it was never run."""
    return read_profile(json.loads(Path(session.end_profiling()).read_text(encoding="utf-8")))


def read_profile(events: Iterable[Mapping[str, Any]]) -> GraphProfile | None:
    """See `end_profile`."""
    calls: list[float] = []
    nodes: dict[tuple[str, str], list[float]] = defaultdict(list)  # by operator and node: microseconds
    for event in events:
        if event.get("cat") == "Session" and event["name"] == "model_run":
            calls.append(event["dur"])
        elif event.get("cat") == "Node" and event["name"].endswith(_KERNEL):
            nodes[event["args"]["op_name"], event["name"].removesuffix(_KERNEL)].append(event["dur"])
    if not calls:
        return None
    grouped: dict[tuple[str, str], list[float]] = defaultdict(list)
    for (operator, node), durations in nodes.items():
        matrix = _NOT_MATRIX.sub("", node) if _PRODUCT.search(operator) else ""
        grouped[operator, matrix].append(statistics.median(durations) / 1000)
    total = sum(map(sum, grouped.values())) or 1.0
    groups = [Group(*key, len(ms), sum(ms), sum(ms) / total) for key, ms in grouped.items()]
    return GraphProfile(len(calls), statistics.median(calls) / 1000, sorted(groups, key=lambda group: -group.ms))
