"""What bench.score measures: works and peers are chosen by name, and every run measures the same sequences."""

from bench.harness.selection import choose, unknown
from bench.score import PEERS, WORKS, draw


def test_without_names_the_whole_short_run_is_chosen():
    assert [work.name for work in choose(WORKS, PEERS, [], full=False)] == ["fp32", "int8", "mixed-fp32", "mixed-int8"]
    assert all("alone" not in peer for work in choose(WORKS, PEERS, [], full=False) for peer in work.peers)


def test_works_and_peers_can_be_named_together():
    (work,) = choose(WORKS, PEERS, ["mixed-int8", "llamacpp-q8_0"], full=False)

    assert (work.name, work.peers) == ("mixed-int8", ("llamacpp-q8_0",))


def test_every_peer_of_a_work_is_known():
    assert {peer for work in WORKS for peer in (*work.peers, *work.more_peers)} == set(PEERS)
    assert unknown(WORKS, PEERS, ["fp32", "vllm"]) == ["vllm"]


def test_mixed_sequences_are_the_same_in_every_run_and_cover_all_lengths():
    sequences = draw(1000, mixed=True, full=False)

    assert sequences == draw(1000, mixed=True, full=False)
    assert (min(map(len, sequences)), max(map(len, sequences))) == (10, 500)
    assert {len(ids) for ids in draw(1000, mixed=False, full=False)} == {256}
