"""
One step of a native decoder over all running rows: which decoder makes it, and how its logits are corrected.

Knows: which kind of step serves a search. Does not know: sentences, how a token is chosen, stages.

Shapes: R rows · V ids of the head · D width.
"""

import numpy as np
from numpy.typing import NDArray

from worker.engine.runtime.run_context import RunContext
from worker.engine.search.generation_config import GenerationConfig
from worker.engine.search.greedy import Rescore
from worker.engine.search.logit_rules import Floats, Ids
from worker.engine.seq2seq.native.decoder_graphs import StepKind
from worker.engine.seq2seq.native.decoder_stage import Outputs
from worker.engine.seq2seq.native.graphs import NativeSeq2SeqGraphs
from worker.engine.seq2seq.native.lane_decoder import LaneDecoder


class DecodeStep:
    """One lane's steps for one kind of search."""

    def __init__(
        self,
        graphs: NativeSeq2SeqGraphs,
        rules: GenerationConfig,
        *,
        exact: bool = False,
        queries: tuple[int, ...] = (),
    ) -> None:
        """`exact`: give exact logits, also where a screened decoder would serve the rules. `queries`: layers whose
        queries the steps give too."""
        self.rescore: Rescore | None = None  # finds the best ids where logits are approximate
        may_screen = rules.num_beams == 1 and rules.repetition_penalty == 1.0 and rules.sampling is None and not exact
        self._screen = screen = graphs.screen() if may_screen else None
        if screen is not None:
            self.rescore = lambda logits, scales, normalizer: screen.best(
                logits, scales, self._outputs["hidden"], normalizer, renormalize=rules.renormalize_logits
            )
        self._kind = StepKind(rules.num_beams, screen is not None, queries)
        self._head = graphs.head
        self._outputs: Outputs = {}  # of the last step

    @property
    def queries(self) -> NDArray[np.float32]:
        """Of the last step (R, C N H), for C layers; the next step overwrites them."""
        return self._outputs["cross_queries"]

    def run(self, last_ids: Ids, slots: LaneDecoder, context: RunContext, step: int) -> tuple[Floats, Floats | None]:
        """Append one id (R,) to each row. Returns the logits of the next id (R, V), and the factor of each row (R,) by
        which they are to be multiplied, None for 1. The caller may change both until the next step."""
        self._outputs = slots.step(self._kind, self._head.to_ids(last_ids), context, step)
        logits, scales = np.asarray(self._outputs["logits"], np.float32), self._outputs.get("scales")
        if scales is None:
            return logits, None
        if self._screen is not None:
            self._screen.add_bias(logits, scales[:, 0])
        return logits, scales[:, 0]
