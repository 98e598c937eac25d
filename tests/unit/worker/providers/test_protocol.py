from jobs.providers import Choice
from tests.rows import SPEC
from worker.providers.protocol import ProviderJob


def test_a_counterpart_takes_the_place_of_the_jobs_model_and_nothing_else_changes() -> None:
    counterpart = ProviderJob(SPEC, Choice("llamacpp", "gemma", "f" * 16)).own_spec

    assert (counterpart.model, counterpart.model_revision) == ("gemma", "f" * 16)
    assert counterpart.options == SPEC.options
    assert ProviderJob(SPEC, Choice("llamacpp")).own_spec == SPEC
