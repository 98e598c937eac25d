"""File names of native graphs. Needs only the standard library: commands that load no graph look for them."""

ENCODER = "encoder.onnx"  # of a translation model
DECODER = "decoder.onnx"
SCREENED = "screened_decoder.onnx"  # not every model has one
BODY = "body.onnx"  # of a causal language model
HEAD = "head.onnx"
CROSS_ENCODER = "cross_encoder.onnx"
WEIGHTS = "weights.data"  # of all graphs of a model


def stage_files(stages: int, *, has_head: bool) -> tuple[str, ...]:
    """The graphs and weights of a model that is split into `stages` stages. `has_head`: the head is a graph of its
    own."""
    return *stage_graphs(stages, has_head=has_head), *map(stage_weights, range(stages))


def stage_graphs(stages: int, *, has_head: bool) -> tuple[str, ...]:
    """The graphs of such a model, in their order."""
    return *map(stage_graph, range(stages)), *[HEAD] * has_head


def stage_graph(number: int) -> str:
    """The graph of a stage of a split model."""
    return f"stage.{number}.onnx"


def stage_weights(number: int) -> str:
    """The weights of a stage; the last stage's file also holds the weights of the head."""
    return f"stage.{number}.data"
