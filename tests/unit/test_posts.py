from jobs.store.database import Database
from jobs.store.singleton_roles import hold, holder_of, leave, new_holder


def test_a_post_has_one_holder_who_keeps_it(database: Database) -> None:
    assert hold(database, "reaper", "a", 60)
    assert not hold(database, "reaper", "b", 60)
    assert hold(database, "reaper", "a", 60)
    assert hold(database, "dispatcher", "b", 60)

    assert (holder_of(database, "reaper"), holder_of(database, "dispatcher")) == ("a", "b")


def test_a_post_that_is_not_kept_in_time_goes_to_the_next(database: Database) -> None:
    assert hold(database, "reaper", "a", 0.0)
    assert holder_of(database, "reaper") is None

    assert hold(database, "reaper", "b", 60)
    assert not hold(database, "reaper", "a", 60)


def test_only_its_holder_can_leave_a_post(database: Database) -> None:
    hold(database, "reaper", "a", 60)

    leave(database, "reaper", "b")
    assert holder_of(database, "reaper") == "a"

    leave(database, "reaper", "a")
    assert hold(database, "reaper", "b", 60)


def test_a_holder_prolongs_in_its_second_half_and_nobody_else_writes(database: Database) -> None:
    hold(database, "reaper", "a", 10)
    before = until_of(database)

    assert hold(database, "reaper", "a", 10)  # in the first half of its time
    assert not hold(database, "reaper", "b", 10)
    assert until_of(database) == before

    assert hold(database, "reaper", "a", 60)
    assert until_of(database) > before


def test_no_two_holders_have_one_name() -> None:
    assert new_holder() != new_holder()


def until_of(database: Database) -> str:
    with database.reading() as connection:
        return str(connection.exec_driver_sql("SELECT held_until FROM posts").scalar_one())
