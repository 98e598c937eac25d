"""Native graphs give the tokens of transformers, whichever sentences share a batch.

For ways of decoding that differ only in their use of memory, each family runs a share of the cases
(tests/repetition.py).
"""

import pytest

from tests.repetition import share
from tests.tiny_models import OpenKV, assert_golden
from worker.engine.seq2seq.native.model import NativeSeq2Seq

FAMILIES = ("tiny-swish-tied", "tiny-relu-tied", "tiny-swish-separate", "tiny-relu-separate")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_setting_gives_the_ids_of_transformers(open_kv: OpenKV, family: str) -> None:
    """Each setting with a tied head and with a separate one, in another batch size."""
    kv = open_kv(family)
    decoder = kv.model.new_decoder()  # shared: what an earlier search left in its slots must not matter
    assert len(kv.cases) >= 25
    number = FAMILIES.index(family)
    for index, case in enumerate(kv.cases[number % 2 :: 2], number):
        assert_golden(kv.run(kv.rules(**case.settings), rows=(1, 2, 7, 64)[index % 4], decoder=decoder), case)


@pytest.mark.parametrize("rows", [1, 2, 7, 64])
@pytest.mark.parametrize("name", ["greedy", "beam 4"])
def test_any_batch_size_gives_the_ids_of_transformers(open_kv: OpenKV, name: str, rows: int) -> None:
    for family in FAMILIES:
        kv = open_kv(family)
        case = kv.case(name)
        assert_golden(kv.run(kv.rules(**case.settings), rows=rows), case)


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("cache", ["off", "hybrid:3"])
def test_every_setting_gives_the_same_ids_without_a_cache(open_kv: OpenKV, family: str, cache: str) -> None:
    kv = open_kv(family)
    decoder = kv.model.new_decoder()
    for case in share(kv.cases, FAMILIES.index(family), of=len(FAMILIES)):
        assert_golden(kv.run(kv.rules(**case.settings), rows=7, decoder=decoder, cache=cache), case)


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_every_setting_gives_the_same_ids_on_a_device(open_kv: OpenKV, family: str) -> None:
    kv = open_kv(family)
    decoder = NativeSeq2Seq.open(kv.folder, on_device=True).new_decoder()
    for case in share(kv.cases, FAMILIES.index(family), of=len(FAMILIES)):
        assert_golden(kv.run(kv.rules(**case.settings), rows=7, decoder=decoder), case)
