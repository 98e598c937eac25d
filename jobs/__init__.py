"""What to do and what came of it: corpora, the store, the command line. Never imports onnxruntime."""

__version__ = "0.2.0"
