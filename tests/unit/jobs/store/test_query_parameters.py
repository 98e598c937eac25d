"""The parameters of a query, by the words of its text alone."""

import pytest

from jobs.errors import SpecError
from jobs.store.report.query.parameters import parameter_names, require_values


@pytest.mark.parametrize("is_sqlite", [True, False])
def test_names_come_in_the_order_of_the_text_and_once(is_sqlite: bool) -> None:
    sql = "select :b, ':x', \":y\", :a -- :z\n, /* :w */ :b where c = :c_1"

    assert parameter_names(sql, is_sqlite=is_sqlite) == ["b", "a", "c_1"]


def test_each_database_quotes_in_its_own_way() -> None:
    assert parameter_names("select `:a`, [:b], :c /* :d", is_sqlite=True) == ["c"]
    assert parameter_names("select x::int, $$:a$$, e'\\':b', array[:c]", is_sqlite=False) == ["c"]


def test_every_parameter_has_a_value_and_every_value_a_parameter() -> None:
    require_values(["a"], {"a": "1"})
    with pytest.raises(SpecError, match="no parameter :b"):
        require_values(["a"], {"a": "1", "b": "2"})
    with pytest.raises(SpecError, match="asks for :a"):
        require_values(["a"], {})
