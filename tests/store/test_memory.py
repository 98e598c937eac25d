"""The memories: they return what was stored."""

from jobs.outcome import Flag, HypothesisSums, Score, SegmentTranslation, TokenScore
from jobs.store.database import Database
from jobs.store.memory import KEYS_PER_QUERY, learn, recall, recall_scores

TOKENS = (TokenScore("he", 0, 2, None), TokenScore("é\x01\0'", 2, 8, -1e-300))

SCORES = {
    b"plain": Score(6.02214076e23, 3, 2, 12),
    b"nothing": Score(0.0, 0, 0, 0, flags=(Flag.UNSCORED, Flag.UNSCORED_FIRST)),
    b"tokens": Score(0.1 + 0.2, 1, 1, 9, 7, (Flag.TRUNCATED,), TOKENS),
}


def test_a_score_is_read_back_as_it_was_stored(database: Database) -> None:
    with database.writing() as connection:
        learn(connection, dict(SCORES))
        learn(connection, {b"plain": Score(1.0, 1, 1, 1)})  # the first entry is kept

    keys = [*SCORES, b"unknown", *(bytes([n % 256, n // 256]) for n in range(KEYS_PER_QUERY))]
    assert recall_scores(database, keys) == SCORES


def test_a_translation_is_read_back_with_what_is_summed_of_each_hypothesis(database: Database) -> None:
    sums = (HypothesisSums(-0.5, 3, truncated=False), HypothesisSums(-1 / 3, 2, truncated=True))
    entries = {
        b"beam": SegmentTranslation(("lang", "kurz"), (-0.1, -0.2), -0.5, 4, 3, (Flag.SPLIT,), sums=sums),
        b"best": SegmentTranslation(("lang",), (-0.1,), -0.5, 4, 3),
    }
    with database.writing() as connection:
        learn(connection, dict(entries))

    assert recall(database, [*entries]) == entries
