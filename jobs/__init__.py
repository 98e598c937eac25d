"""Jobs and their results: corpora, the store, dispatch, the command line. Never imports onnxruntime or numpy."""

__version__ = "0.2.0"
