"""Names and keys of jobs."""

import pytest

from jobs.errors import SpecError
from jobs.submission.job_name import check_key, check_name, key_digest


def test_a_token_has_keys_of_its_own_and_users_of_machines_have_theirs_together() -> None:
    shared = {key_digest("key", "night", owner) for owner in (None, "ann@host", "bob@other")}
    own = [key_digest("key", "night", owner) for owner in ("shop", "lab")]

    assert len({*shared, *own, key_digest("open", "night", None)}) == 4
    assert len(shared) == 1


@pytest.mark.parametrize("key", ["", " ", "a\nb", "x" * 256])
def test_a_key_has_printable_characters(key: str) -> None:
    with pytest.raises(SpecError):
        check_key(key)


@pytest.mark.parametrize("name", ["", " a", "12", "last", "-x", "x" * 101, "a\x1b[1m"])
def test_a_name_cannot_be_taken_for_something_else(name: str) -> None:
    with pytest.raises(SpecError):
        check_name(name)
