"""How it is done: the process that leases shards, and the engines inside it."""

import os

# From 1.29 on, onnxruntime on Linux reports to its maker unless told not to before it is loaded (onnxruntime #27379).
# What runs here is nobody's business: people translate their own documents on their own machines.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
