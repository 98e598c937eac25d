"""onnxruntime on this machine: sessions, devices, buffers, timing, running out of memory."""
