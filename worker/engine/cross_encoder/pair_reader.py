"""What turns two texts into the ids of a cross-encoder, and its logit into a score."""

import math
from dataclasses import dataclass
from pathlib import Path

from jobs.errors import ModelError
from worker.engine.cross_encoder.model import CrossEncoder
from worker.models.relevance_settings import Activation, RelevanceSettings
from worker.text.text_pair_tokenizer import TextPairTokenizer


@dataclass(frozen=True, slots=True)
class PairReader:
    """The tokenizer of a model with its settings. Shared by all lanes."""

    tokenizer: TextPairTokenizer
    activation: Activation
    max_length: int  # of a pair, in tokens, where a job asks for no other

    def score(self, logit: float) -> float:
        """The score that sentence-transformers gives for a logit, computed in float64. What is not finite stays so."""
        if self.activation is Activation.IDENTITY or not math.isfinite(logit):
            return logit
        if logit < 0:  # each branch takes the exponential of a number that is not positive
            return math.exp(logit) / (1 + math.exp(logit))
        return 1 / (1 + math.exp(-logit))


def open_pair_reader(folder: Path, model: CrossEncoder) -> PairReader:
    """Open the tokenizer and the settings of the model in `folder`. Raises ModelError where they are damaged, not
    supported, or of another model."""
    tokenizer, settings = TextPairTokenizer.open(folder), RelevanceSettings.read(folder)
    if tokenizer.max_id >= model.vocab_size:
        raise ModelError(
            f"{folder / 'tokenizer.json'} makes ids up to {tokenizer.max_id:,}, and the model knows those below "
            f"{model.vocab_size:,}: the files belong to different models"
        )
    if model.padding_id in tokenizer.ids:
        raise ModelError(
            f"{folder / 'tokenizer.json'} gives texts the id {model.padding_id}, which config.json calls pad_token_id: "
            "positions leave padding out, so the files belong to different models"
        )
    if model.token_types and max(tokenizer.template.types) >= model.token_types:
        raise ModelError(
            f"{folder / 'tokenizer.json'} gives tokens the types 0 to {max(tokenizer.template.types)}, and the model "
            f"knows {model.token_types}: the files belong to different models, or model_input_names in "
            "tokenizer_config.json lists token_type_ids where it should not"
        )
    configured = settings.max_length or tokenizer.max_length or model.max_positions
    return PairReader(tokenizer, settings.activation, min(configured, model.max_positions))
