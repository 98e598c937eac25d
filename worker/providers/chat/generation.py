"""Jobs that generate, and servers."""

NO_GENERATION = "only onnx and llamacpp continue prompts: a server's chat template and its sampling are its own"
