"""The report of `bench.stages` for people: tables as README files have them.

Knows: rows and wording. Does not know: how they were measured.
"""

from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]


def print_equality(rows: Sequence[Row]) -> None:
    """Differences from the whole model."""
    first = rows[0]
    ways, modes = list(first["log_probs"]), {"on": "with cache", "off": "without"}
    print(
        f"\nLargest difference from the whole model, in nats, of {first['num_log_probs']} log-probabilities; share of "
        f"equal ids among {first['num_ids']}, with the cache and without it\n"
    )
    _head(
        "precision", "stages", "processes", *ways, *(f"equal ids {modes[mode]}" for mode in first["ids"]), "their sums"
    )
    for row in rows:
        _line(
            row["precision"], row["stages"], "each its own" if row["separate"] else "one",
            *(_nats(row["log_probs"][way]) for way in ways),
            *(f"{100 * share:.1f} %" for share in row["ids"].values()), _nats(row["ids_log_probs"]),
        )  # fmt: skip


def print_memory(rows: Sequence[Row]) -> None:
    """Processes, and what happened under a limit."""
    print("\nMB (1,000,000 bytes); keys and values: bytes a token\n")
    _head("model", "limit", "process", "allocated (VmData)", "RssAnon", "Pss", "weights", "keys and values", "same ids")
    for row in rows:
        limit = "none" if row["limit"] is None else _mb(row["limit"])
        if row["error"] is not None:
            _line(row["model"], limit, "", row["error"], *[""] * 5)
            continue
        weights = _mb(row["weights_bytes"]) if "weights_bytes" in row else ""
        cached = f"{row['cache_bytes']:,}" if "cache_bytes" in row else ""
        sizes = map(_mb, (row["data"], row["anonymous"], row["proportional"]))
        _line(row["model"], limit, row["name"], *sizes, weights, cached, "yes" if row["is_equal"] else "no")
    if all(row["limit"] is None for row in rows):
        print("\nThe stages run under no limit that is below what the whole model allocates.")


def print_seconds(rows: Sequence[Row]) -> None:
    """Calls of the body."""
    print("\nMilliseconds of a call of the body (no head), the fastest of all rounds\n")
    _head("stages", "model", "call", "tokens", "ms", "/ whole", "ms by stage", "computing", "transport", "bytes sent")
    for row in rows:
        by_stage, computing = (" + ".join(_ms(one) for one in row[name]) for name in ("by_stage", "computing"))
        sent = " + ".join(f"{one:,}" for one in row["num_bytes"])
        transport = "" if row["transport"] is None else f"{100 * row['transport']:.1f} %"
        _line(
            row["stages"], row["model"], row["phase"], row["tokens"], _ms(row["seconds"]), f"{row['ratio']:.2f}",
            by_stage, computing, transport, sent,
        )  # fmt: skip


def _head(*names: object) -> None:
    _line(*names)
    _line(*["---"] * len(names))


def _line(*cells: object) -> None:
    print(f"| {' | '.join(map(str, cells))} |")


def _nats(difference: float) -> str:
    return f"{difference:.1e}" if difference else "0.0"


def _mb(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:,.1f}" if num_bytes < 1e8 else f"{num_bytes / 1e6:,.0f}"


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.2f}" if seconds < 0.1 else f"{1000 * seconds:,.0f}"
