"""Native graphs: ONNX graphs built from the weights of a checkpoint, without torch or an exporter."""
