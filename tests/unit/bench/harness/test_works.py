"""Which works bench.translate measures, against which peers."""

from bench.harness.selection import choose, unknown
from bench.harness.works import PEERS, WORKS, offered


def test_every_peer_of_a_work_is_known():
    assert {peer for work in WORKS for peer in (*work.peers, *work.more_peers)} == set(PEERS)


def test_a_work_outside_the_default_run_is_offered_by_its_name_or_with_everything():
    default = {work.name for work in offered([], everything=False)}

    assert "tiny-int8-greedy" not in default
    assert {"tiny-int8-greedy", *default} <= {work.name for work in offered(["tiny-int8-greedy"], everything=False)}
    assert {work.name for work in offered(["ctranslate2"], everything=False)} == default
    assert offered([], everything=True) == WORKS


def test_without_names_every_work_is_chosen():
    assert [work.name for work in choose(WORKS, PEERS, [], full=False)] == [work.name for work in WORKS]


def test_works_and_peers_can_be_named_together():
    (work,) = choose(WORKS, PEERS, ["int8-greedy", "optimum", "ctranslate2"], full=False)

    assert (work.name, work.peers) == ("int8-greedy", ("ctranslate2", "optimum"))


def test_a_work_that_the_named_peer_cannot_run_is_left_out():
    assert [work.name for work in choose(WORKS, PEERS, ["optimum-no-cache"], full=True)] == ["fp32-greedy"]


def test_a_full_run_has_more_peers():
    (some,), (more,) = (choose(WORKS, PEERS, ["int8-beam4"], full=full) for full in (False, True))

    assert set(some.peers) < set(more.peers)


def test_unknown_names_are_reported():
    assert unknown(WORKS, PEERS, ["int8-greedy", "optimum", "ctranslate", "int4"]) == ["ctranslate", "int4"]
