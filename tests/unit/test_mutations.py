"""Faults that tests have to notice (`tools.mutations`): they still stand where the product and the tests have them."""

import pytest

from tests.places import CHECKOUT
from tools.mutations import MUTATIONS, Mutation


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_fault_can_be_put_into_the_product_and_its_test_run(mutation: Mutation) -> None:
    file, *test = mutation.test.split("::")

    assert (CHECKOUT / mutation.path).read_text(encoding="utf-8").count(mutation.text) == 1
    assert all(name.split("[")[0] in (CHECKOUT / file).read_text(encoding="utf-8") for name in test)
