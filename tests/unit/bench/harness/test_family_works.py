"""What bench.families measures: the families and their peers, and how runs become rows."""

import pytest

from bench.checkpoints.family_shapes import FAMILIES, SIZES
from bench.families import WORKS, FamilyWork, Measured, compared, engines_of
from bench.harness.engine import Run
from bench.harness.tables.family_table import Used
from worker.graphs.architectures import CAUSAL_ARCHITECTURES, SEQ2SEQ_ARCHITECTURES
from worker.graphs.causal.families import read_sizes
from worker.graphs.seq2seq.families import read_network


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", FAMILIES)
def test_native_graphs_are_built_for_every_family(name: str, size: str) -> None:
    family = FAMILIES[name]
    names = SEQ2SEQ_ARCHITECTURES if family.is_seq2seq else CAUSAL_ARCHITECTURES
    architectures = [architecture for architecture, model_type in names.items() if model_type == name]
    config = {"model_type": name, "architectures": architectures, **family.config(size)}

    network = read_network(config) if family.is_seq2seq else read_sizes(config)

    assert network.width == config.get("d_model", config.get("hidden_size", config.get("n_embd")))


def test_a_family_that_ctranslate2_does_not_convert_is_beside_transformers_alone():
    peers = {work.name: work.peers for work in WORKS}

    assert peers["phi"] == ("transformers-fp32",)
    assert peers["llama"] == ("ctranslate2", "transformers-fp32")


def test_transformers_runs_once_in_fp32_for_both_precisions():
    work = FamilyWork("t5", ("ctranslate2", "transformers-fp32"))

    assert engines_of(work, "int8") == [("kvjobs", "int8"), ("ctranslate2", "int8"), ("transformers-fp32", "fp32")]
    assert engines_of(work, "fp32")[-1] == engines_of(work, "int8")[-1]


def test_a_row_has_the_median_of_the_rounds_and_the_tokens_that_transformers_has_too():
    work = FamilyWork("t5", ("ctranslate2",))
    used = Used("t5", "engine", "fp32", "", 0)
    measured = {
        ("kvjobs", "fp32"): Measured([Run(seconds, 2.0, [[1, 2], [3, 4]]) for seconds in (1.0, 4.0, 2.0)], used),
        ("ctranslate2", "fp32"): Measured([Run(seconds, 4.0, [[1, 2], [3, 9]]) for seconds in (4.0, 1.0, 8.0)], used),
    }

    (row,) = compared(work, ["fp32"], 4, measured, [[1, 2], [3, 4]])

    assert (row.work, row.peer) == ("t5-fp32-beam4", "ctranslate2")
    assert (row.ours, row.theirs, row.ratio, row.cpu_ratio) == (2.0, 1.0, 2.0, 2.0)
    assert (row.our_equal, row.their_equal) == (1.0, 0.75)
