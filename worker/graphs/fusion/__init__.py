"""Native graphs with nodes of `worker.kernels` in place of groups of onnxruntime's: the same results, sooner."""
