"""
Half precision: required of native graphs on a GPU, useless on a CPU.

On a GPU, onnxruntime implements the attention of these graphs in float16 and bfloat16 alone. On a CPU it has next to no
float16 kernels: it computes in float32 and rounds in between.
"""

from jobs.errors import SpecError
from jobs.queues import GPU
from worker.graphs.precision import Precision
from worker.models.manifest import Manifest


def runs_on_gpu(manifest: Manifest) -> bool:
    """Whether a GPU can run the model. Exports are always tried; llama.cpp runs GGUF files on the CPU here."""
    if manifest.is_gguf:
        return False
    return not manifest.is_native or manifest.precision == Precision.FP16


def needs_half(name: str, manifest: Manifest) -> str:
    """The error message for a model that cannot run on a GPU."""
    if manifest.is_gguf:
        return f"model {name} is a GGUF file, which llama.cpp runs on the CPU here"
    return (
        f"model {name} is in {manifest.precision}, and on a GPU native graphs run in fp16 only: "
        "kvjobs models add SOURCE --precision fp16"
    )


def advise(name: str, manifest: Manifest, queue: str) -> str | None:
    """A warning about submitting jobs of this model to `queue`, if one is due. Raises SpecError where no worker of the
    queue can run the model."""
    if queue == GPU:
        if not runs_on_gpu(manifest):
            raise SpecError(f"{needs_half(name, manifest)}; or submit to --queue cpu")
        return None
    if manifest.precision == Precision.FP16:
        return (
            f"Model {name} is in fp16, which is for GPUs (--queue gpu): a worker on a CPU runs it no faster than in "
            "fp32, and less exactly."
        )
    return None
