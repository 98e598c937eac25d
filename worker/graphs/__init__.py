"""Our own ONNX graphs, built from the weights of a checkpoint: no torch, no exporter."""
