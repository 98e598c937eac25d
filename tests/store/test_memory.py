"""The memory of scores: it returns the stored score, and failures and non-finite scores are not stored."""

from jobs.outcome import Flag, Score, TokenScore
from jobs.store.database import Database
from jobs.store.memory import KEYS_PER_QUERY, learn, recall_scores

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
