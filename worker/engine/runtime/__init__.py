"""onnxruntime on this machine: sessions, devices, timing, shortage of memory."""
