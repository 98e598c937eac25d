"""The worker: processes that lease shards of jobs, and the engines that compute their results."""

import os

# From 1.29 on, onnxruntime on Linux sends telemetry to its maker unless this is set before it is loaded (onnxruntime
# #27379). People process their own documents on their own machines.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
