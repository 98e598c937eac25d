"""File names of native graphs. Needs only the standard library: commands that load no graph look for them."""

ENCODER = "encoder.onnx"  # of a translation model
DECODER = "decoder.onnx"
SCREENED = "screened_decoder.onnx"  # not every model has one
BODY = "body.onnx"  # of a causal language model
HEAD = "head.onnx"
WEIGHTS = "weights.data"  # of all graphs of a model
