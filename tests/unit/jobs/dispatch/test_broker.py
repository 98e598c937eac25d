"""The broker's settings, queue names and log messages, without a Redis."""

import pytest

from jobs.dispatch.broker import DRAIN, BrokerStatus, make_app
from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.errors import SpecError
from jobs.queues import Queues
from jobs.settings import read_settings
from worker.fleet.hint_exchange import make_worker_app
from worker.process.child_handle import Child


def test_a_worker_registers_the_task_that_hints_name_and_listens_to_its_queues() -> None:
    settings, _ = read_settings({}, {})
    app = make_worker_app("redis://127.0.0.1/0", Queues.parse("cpu,model:m"), Child(WorkerArguments(settings)))

    assert DRAIN in app.tasks
    assert set(app.amqp.queues) == {"kvjobs.cpu", "kvjobs.model:m"}


def test_a_hint_waits_for_no_acknowledgement_and_no_result() -> None:
    conf = make_app("redis://127.0.0.1/0").conf

    assert (conf.task_acks_late, conf.task_ignore_result, conf.result_backend) == (False, True, None)
    assert conf.worker_prefetch_multiplier == 1
    assert conf.broker_connection_max_retries is None
    assert "retry_on_timeout" not in conf.broker_transport_options


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("unix:///run/redis.sock", "redis+socket:///run/redis.sock"),
        ("sentinel://a:26379/0?master_name=kv", "sentinel://a:26379/0"),
        ("rediss://a:6379/1", "rediss://a:6379/1"),
    ],
)
def test_an_address_is_rewritten_to_the_form_that_kombu_expects(url: str, expected: str) -> None:
    assert make_app(url).broker_url == expected


def test_the_name_of_a_sentinels_master_is_passed_on() -> None:
    app = make_app("sentinel://a:26379/0?master_name=kv")

    assert app.conf.broker_transport_options["master_name"] == "kv"


def test_a_certificate_is_checked_unless_the_url_disables_it() -> None:
    assert make_app("rediss://a").conf.broker_use_ssl == {"ssl_cert_reqs": "required"}
    assert make_app("rediss://a/0?ssl_cert_reqs=none").conf.broker_use_ssl == {"ssl_cert_reqs": "none"}
    assert make_app("rediss://a/0?ssl_ca_certs=/ca.pem").conf.broker_use_ssl["ssl_ca_certs"] == "/ca.pem"


def test_an_invalid_address_is_refused_without_repeating_its_password() -> None:
    with pytest.raises(SpecError) as refused:
        make_app("redis://:se/c@ret@host:6379/0")

    assert "%2F" in str(refused.value)
    assert "se" not in str(refused.value).replace("setting", "")


def test_each_loss_and_return_of_the_broker_is_reported_once() -> None:
    messages: list[str] = []
    broker_status = BrokerStatus(messages.append)

    broker_status.back()
    broker_status.lost("no answer")
    broker_status.lost("no answer")
    broker_status.back()
    broker_status.back()

    assert messages == ["no answer; work goes on, new jobs are found within seconds", "the broker is back"]
