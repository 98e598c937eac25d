"""
Kernels in C: attention of single queries, what stands between two products, and what a search asks of logits.

Compiled when kvjobs is installed (`build.py`), for several instruction sets, of which the best that the processor has
runs. Without them everything works, on onnxruntime's own operators and numpy, and small models more slowly.
"""
