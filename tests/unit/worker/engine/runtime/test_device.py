import pytest

from jobs.errors import SpecError
from jobs.system.process import available_cores
from tests.command_line import Kvjobs
from worker.engine.runtime.device import Device, check_device, lanes_of, provider_name, providers


def test_the_cpu_is_always_available() -> None:
    assert check_device("cpu") == "cpu"
    assert providers("cpu") == ("CPUExecutionProvider",)


def test_a_gpu_is_the_first_provider_and_has_its_device_number() -> None:
    (first, options), second = providers("cuda:1")
    assert (first, options["device_id"], second) == ("CUDAExecutionProvider", "1", "CPUExecutionProvider")
    assert Device.of(providers("cuda:1")) == Device("cuda", 1)
    assert provider_name("cuda:1") == "CUDAExecutionProvider"


def test_products_in_float32_stay_in_float32_on_a_gpu() -> None:
    (_, options), _ = providers("cuda:0")
    assert options["use_tf32"] == "0"


def test_a_gpu_has_one_lane_unless_more_are_asked_for() -> None:
    assert lanes_of("cuda:0", 0) == 1
    assert lanes_of("cuda:0", 3) == lanes_of("cpu", 3) == 3
    assert lanes_of("cpu", 0) == available_cores()


@pytest.mark.parametrize("name", ["gpu", "cuda", "cuda:x", "CPU", ""])
def test_another_device_is_refused(name: str) -> None:
    with pytest.raises(SpecError, match="cuda:0"):
        check_device(name)


def test_a_worker_on_the_cpu_cannot_serve_the_queue_of_the_gpus(kvjobs: Kvjobs) -> None:
    assert kvjobs("worker", "--queues", "gpu", "--drain").exit_code == 2
    assert kvjobs("submit", "nowhere.jsonl", "--queue", "tpu").exit_code == 2
