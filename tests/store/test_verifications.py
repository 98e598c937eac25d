"""The results of `models verify`: which of them holds for the files that a model has now."""

from dataclasses import replace

import pytest

from jobs.store.database import Database
from jobs.store.model_reports import Standing, Verification, log_verification, newest_verifications, standing

CHECK = {"name": "slots", "verdict": "same", "drift": float("inf")}
FOUND = Verification(
    model="mine",
    model_revision="rev-1",
    files_stamp="stamp-1",
    check_name="checkpoint",
    against="a/checkpoint",
    verdict="same",
    num_texts=2,
    text_unit="segment",
    corpus=None,
    same_tokens=1.0,
    worst=None,
    drift=1e-7,
    checks=[CHECK],
    version="0.2.0",
)


def stored(database: Database, *found: Verification) -> list[Verification]:
    for one in found:
        log_verification(database, one)
    with database.reading() as connection:
        return newest_verifications(connection)


def now(known: list[Verification], stamp: str, revision: str | None) -> Standing | None:
    return standing(known, ("mine", "/models/mine"), lambda: stamp, lambda: revision)


def test_the_newest_of_each_revision_is_kept_in_view(database: Database) -> None:
    known = stored(database, FOUND, replace(FOUND, model_revision="rev-2"), replace(FOUND, verdict="differs"))

    assert [(one.model_revision, one.verdict) for one in known] == [("rev-1", "differs"), ("rev-2", "same")]
    assert known[0].verified_at is not None
    assert known[0].checks == [CHECK | {"drift": None}], "JSON has no infinity"


FILES = {"the same": ("stamp-1", None), "copied": ("stamp-2", "rev-1"), "changed": ("stamp-2", "rev-2")}


def test_a_result_holds_for_the_files_it_was_found_with(database: Database) -> None:
    known = stored(database, FOUND)

    found = {name: now(known, *files) for name, files in FILES.items()}

    shown = {name: (one.is_current, one.word, one.words) for name, one in found.items() if one}
    assert shown == {
        "the same": (True, "same", "same as its checkpoint"),
        "copied": (True, "same", "same as its checkpoint"),
        "changed": (False, "outdated", "not verified since it changed"),
    }
    assert standing(known, ("other",), lambda: "stamp-1", lambda: "rev-1") is None


@pytest.mark.parametrize(
    ("check_name", "verdict", "word", "words"),
    [
        ("checkpoint", "tied", "same", "same as its checkpoint"),
        ("checkpoint", "measured", "measured", "measured against its checkpoint"),
        ("checkpoint", "differs", "differs", "differs from its checkpoint"),
        ("slots", "same", "with itself", "agrees with itself, no checkpoint compared"),
        ("slots", "differs", "differs", "differs from each segment alone"),
    ],
)
def test_a_verdict_in_words(check_name: str, verdict: str, word: str, words: str) -> None:
    against = "a/checkpoint" if check_name == "checkpoint" else "each segment alone"
    found = replace(FOUND, check_name=check_name, verdict=verdict, against=against)

    standing = Standing(verification=found, is_current=True)
    assert (standing.word, standing.words) == (word, words)


def test_pairs_differ_in_their_scores() -> None:
    found = replace(FOUND, text_unit="pair", same_tokens=None, worst=0.1)

    assert found.compared.endswith("; largest difference of a score 0.100")


def test_what_was_compared_is_one_line() -> None:
    assert FOUND.compared == (
        "2 segments of the bundled weather bulletins against a/checkpoint; 100.0 % of tokens the same; "
        "mean difference of a token 1.00e-07 nats"
    )
