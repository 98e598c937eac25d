"""How many layers each stage of a split model gets."""

from itertools import accumulate


def cut_layers(layers: int, layer_cost: int, head_cost: int, stages: int) -> tuple[range, ...]:
    """The layers of each stage, from 1 stage to as many as layers, so that the slowest costs as little as possible. All
    layers cost the same; the last stage also has the head."""
    if stages == 1:
        return (range(layers),)

    def slowest(last: int) -> int:
        """The cost of the slowest stage if the last stage has `last` layers and the others share the rest evenly."""
        return max(-(-(layers - last) // (stages - 1)) * layer_cost, last * layer_cost + head_cost)

    last = min(range(1, layers - stages + 2), key=slowest)
    rest, others = layers - last, stages - 1
    counts = [*(rest // others + (number < rest % others) for number in range(others)), last]
    return tuple(range(end - count, end) for count, end in zip(counts, accumulate(counts), strict=True))
