"""Optimum's export of a checkpoint on disk: `python -m bench.checkpoints.export CHECKPOINT OUT merged|two|none`."""

import sys
from pathlib import Path

from bench.checkpoints.models import export_checkpoint

if __name__ == "__main__":
    export_checkpoint(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
