"""
Half precision: what a GPU needs of graphs of our own, and what a CPU has no use for.

onnxruntime has the attention of these graphs for a GPU in float16 and bfloat16 alone. Its CPU has next to nothing in
float16: it computes in float32 and rounds in between.
"""

from jobs.errors import SpecError
from jobs.queues import GPU
from worker.graphs.precision import Precision
from worker.models.manifest import Manifest


def runs_on_gpu(manifest: Manifest) -> bool:
    """Whether a GPU can run it. Exports are taken as they are."""
    return not manifest.is_native or manifest.precision == Precision.FP16


def needs_half(name: str, precision: str | None) -> str:
    """Why a model cannot run on a GPU."""
    return (
        f"model {name} is in {precision}, and on a GPU graphs of our own run in fp16 only: "
        "kvjobs models add SOURCE --precision fp16"
    )


def advise(name: str, manifest: Manifest, queue: str) -> str | None:
    """What to say of a model's jobs in a queue, if anything. Raises SpecError where none of its workers could run it
    as the queue promises."""
    if queue == GPU:
        if not runs_on_gpu(manifest):
            raise SpecError(f"{needs_half(name, manifest.precision)}; or submit to --queue cpu")
        return None
    if manifest.precision == Precision.FP16:
        return (
            f"Model {name} is in fp16, which is for GPUs (--queue gpu): a worker on a CPU runs it no faster than in "
            "fp32, and less exactly."
        )
    return None
