from jobs.store.database import Database
from jobs.store.singleton_roles import acquire_role, new_holder, release_role


def test_a_role_has_one_holder_which_can_renew_it(database: Database) -> None:
    assert acquire_role(database, "reaper", "a", 60)
    assert not acquire_role(database, "reaper", "b", 60)
    assert acquire_role(database, "reaper", "a", 60)
    assert acquire_role(database, "dispatcher", "b", 60)

    assert holders(database) == {"reaper": "a", "dispatcher": "b"}


def test_a_role_that_is_not_renewed_in_time_is_free(database: Database) -> None:
    assert acquire_role(database, "reaper", "a", 0.0)
    assert acquire_role(database, "reaper", "b", 60)
    assert not acquire_role(database, "reaper", "a", 60)


def test_only_its_holder_releases_a_role(database: Database) -> None:
    acquire_role(database, "reaper", "a", 60)

    release_role(database, "reaper", "b")
    assert holders(database) == {"reaper": "a"}

    release_role(database, "reaper", "a")
    assert acquire_role(database, "reaper", "b", 60)


def test_only_the_holder_writes_and_only_in_the_second_half_of_its_term(database: Database) -> None:
    acquire_role(database, "reaper", "a", 10)
    before = until_of(database)

    assert acquire_role(database, "reaper", "a", 10)  # in the first half of its term
    assert not acquire_role(database, "reaper", "b", 10)
    assert until_of(database) == before

    assert acquire_role(database, "reaper", "a", 60)
    assert until_of(database) > before


def test_every_holder_has_a_name_of_its_own() -> None:
    assert new_holder() != new_holder()


def holders(database: Database) -> dict[str, str]:
    with database.reading() as connection:
        return dict(connection.exec_driver_sql("SELECT name, holder FROM posts").all())


def until_of(database: Database) -> str:
    with database.reading() as connection:
        return str(connection.exec_driver_sql("SELECT held_until FROM posts").scalar_one())
