"""Messages for who gives options by name."""

import pytest

from jobs.operations.option_names import with_names
from jobs.operations.results import OF_RESULTS
from jobs.submission.job_options import OF_EVERY_JOB
from jobs.tasks.kinds import every_option


@pytest.mark.parametrize("option", [*OF_EVERY_JOB.values(), *every_option().values(), *OF_RESULTS.values()])
def test_every_flag_becomes_the_name_of_its_option(option: object) -> None:
    flag, name = option.flag, option.name  # type: ignore[attr-defined]
    assert with_names(f"{flag} is wrong; leave {flag} out") == f"{name} is wrong; leave {name} out"


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ("give --no-reuse", "give reuse=false"),
        ("give --no-fallback", "give no_fallback"),
        ("to mend it: kvjobs submit --again --max-text 5M", None),
        ("a job is done (kvjobs export 7 --only ok), and --again makes another", None),
        ("there is no --nosuch", "there is no --nosuch"),
        ("a --- b -- c", "a --- b -- c"),
    ],
)
def test_commands_and_what_is_no_option_stay(message: str, named: str | None) -> None:
    expected = message.replace("and --again", "and again") if named is None else named
    assert with_names(message) == expected
