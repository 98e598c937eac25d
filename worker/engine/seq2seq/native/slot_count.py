"""How many sentences a lane decodes at a time, where the user does not say."""

from worker.engine.seq2seq.native.kv_slots import SlotShape

# A step of a small model costs its calls more than its arithmetic, so many rows share them. Large models lose:
# attention walks through the keys and values of all rows.
_LEAST, _MOST = 32, 128  # a batch of the queue has 4,096 tokens, some 160 sentences
_MULTIPLE = 8
_LANE_BYTES = 64 * 2**20  # of keys, values and logits
_LOGIT_BYTES = 4
_TOKENS = 64  # of a source, and of a target: more than most have


def slot_count(shape: SlotShape, num_ids: int, beams: int) -> int:
    """The number of slots for a model with such keys and values and `num_ids` ids in its head. It depends on nothing
    else, so that a worker's memory does not depend on the load of its machine."""
    token_bytes = 2 * shape.num_layers * shape.num_heads * shape.head_size * shape.dtype.itemsize
    sentence_bytes = (1 + beams) * _TOKENS * token_bytes + beams * num_ids * _LOGIT_BYTES
    fits = _LANE_BYTES // sentence_bytes // _MULTIPLE * _MULTIPLE
    return min(max(fits, _LEAST), _MOST)
