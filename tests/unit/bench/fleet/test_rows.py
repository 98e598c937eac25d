"""What the benchmark of many workers makes of its counts."""

from bench.fleet.load_process import Counted, Window
from bench.fleet.server_watch import ServerUse
from bench.fleet_store import as_row, make_lines, percentiles


def test_rates_are_a_second_and_costs_a_batch() -> None:
    counted = Counted(seconds={"record": [0.01] * 40, "lease": [0.002] * 10}, documents=3_200, cpu_s=1.0)
    use = ServerUse(cpu_s=0.4, machine_s=3.4, transactions=120, log_bytes=6_400_000)

    row = as_row(7, counted, use, Window(100.0, 104.0))

    assert (row["workers"], row["record/s"], row["lease/s"], row["documents/s"]) == (7, 10.0, 2.5, 800)
    assert (row["record ms"], row["lease ms"]) == ("10/10/10", "2/2/2")
    assert (row["server cores"], row["worker cores"], row["other cores"]) == (0.1, 0.25, 0.5)
    assert (row["server ms/batch"], row["worker ms/batch"]) == (10.0, 25.0)
    assert row["log bytes/document"] == 2_000


def test_counts_of_processes_are_added_up() -> None:
    total = Counted()
    total.add(Counted({"lease": [0.1]}, {"lease: TransientError": 1}, ["away"], 5, 0.5, 10))
    total.add(Counted({"lease": [0.2], "look": [0.3]}, {"lease: TransientError": 2}, [], 6, 0.25, 20))

    assert total == Counted({"lease": [0.1, 0.2], "look": [0.3]}, {"lease: TransientError": 3}, ["away"], 11, 0.75, 30)


def test_percentiles_of_few_calls_are_those_calls() -> None:
    assert percentiles([]) == []
    assert percentiles([2.0]) == [2.0, 2.0, 2.0]
    assert percentiles([float(number) for number in range(101)]) == [50.0, 95.0, 99.0]


def test_documents_have_two_sentences_of_195_characters_and_are_the_same_in_every_run() -> None:
    lines = list(make_lines(50, seed=3))

    assert lines == list(make_lines(50, seed=3))
    lengths = [len(line.split('"text": "')[1]) - len('"}\n') for line in lines]
    assert 190 <= min(lengths) <= max(lengths) <= 196
    assert {line.count(".") for line in lines} == {2}
