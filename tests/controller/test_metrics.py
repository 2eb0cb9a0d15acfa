"""Metrics: the names of controller-runtime and client-go, and their values."""

import re
from pathlib import Path

from prometheus_client import CollectorRegistry

import controller
from controller.certificates import CertificateMetrics
from controller.metrics import RECONCILE_SECONDS, RESULTS, Metrics
from controller.queuemetrics import BUCKETS, MAX_PRIORITIES, OTHER_PRIORITIES
from controller.webhooks.served import WebhookFamilies, WebhookMetrics
from controller.workqueue import WorkQueue
from tests.clock import VirtualClock

LABELS = {"name": "pools", "controller": "pools"}


class QueueHarness:
    """A queue that reports to a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.clock = VirtualClock()
        observer = Metrics(self.registry).create_queue_metrics("pools")
        self.queue = WorkQueue[str](self.clock, observer=observer)
        observer.set_gauge_functions(self.queue.get_statistics)

    def read_metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"workqueue_{name}", LABELS | labels)


async def test_depth_follows_the_ready_keys_by_priority() -> None:
    harness = QueueHarness()
    assert harness.read_metric("depth", priority="0") == 0
    for key in ("a", "b", "b"):
        harness.queue.add(key, priority=-100)
    assert harness.read_metric("depth", priority="-100") == 2
    harness.queue.add("a")
    assert harness.read_metric("depth", priority="-100") == 1
    assert harness.read_metric("depth", priority="0") == 1
    await harness.queue.get()
    assert harness.read_metric("depth", priority="0") == 0
    assert harness.read_metric("adds_total") == 2
    harness.queue.shut_down(drain=False)
    assert harness.read_metric("depth", priority="-100") == 0


async def test_durations_are_measured_from_when_a_key_is_ready() -> None:
    harness = QueueHarness()
    harness.queue.add_after("a", 5)
    assert harness.read_metric("adds_total") == 0
    await harness.clock.advance(7)
    await harness.queue.get()
    assert harness.read_metric("adds_total") == 1
    assert harness.read_metric("queue_duration_seconds_sum") == 2
    await harness.clock.advance(3)
    assert harness.read_metric("unfinished_work_seconds") == 3
    assert harness.read_metric("longest_running_processor_seconds") == 3
    harness.queue.done("a")
    assert harness.read_metric("work_duration_seconds_sum") == 3
    assert harness.read_metric("unfinished_work_seconds") == 0


async def test_adding_a_key_with_a_delay_counts_as_a_retry() -> None:
    harness = QueueHarness()
    harness.queue.add_rate_limited("a")
    harness.queue.add_after("b", 1)
    harness.queue.add_after("c", 0)
    assert harness.read_metric("retries_total") == 2


async def test_the_number_of_priorities_with_a_series_is_bounded() -> None:
    harness = QueueHarness()
    for priority in range(1, MAX_PRIORITIES + 10):
        harness.queue.add(str(priority), priority=priority)
    assert harness.read_metric("depth", priority=OTHER_PRIORITIES) == 10
    assert harness.read_metric("depth", priority=str(MAX_PRIORITIES + 1)) is None


def test_the_buckets_are_those_of_controller_runtime() -> None:
    assert len(BUCKETS) == 12
    assert (BUCKETS[0], BUCKETS[-1]) == (1e-8, 1000.0)
    assert len(RECONCILE_SECONDS) == 40
    assert list(RECONCILE_SECONDS) == sorted(RECONCILE_SECONDS)


def test_all_series_of_a_new_controller_exist_with_value_zero() -> None:
    metrics = Metrics()
    metrics.create_reconcile_metrics("pools", 2)
    metrics.create_queue_metrics("pools")
    exposition = metrics.render_exposition()[0].decode()
    for result in RESULTS:
        assert (
            f'controller_runtime_reconcile_total{{controller="pools",result="{result}"}} 0.0'
        ) in exposition
    for name in ("adds_total", "retries_total", "queue_duration_seconds_count"):
        assert f'workqueue_{name}{{controller="pools",name="pools"}} 0.0' in exposition


def test_requests_are_counted_under_client_gos_names() -> None:
    registry = CollectorRegistry()
    observe_request = Metrics(registry).create_request_observer("https://10.0.0.1:6443")
    observe_request("GET", "200", 0.02)
    observe_request("GET", "<error>", 3)
    labels = {"method": "GET", "host": "10.0.0.1:6443"}
    for code in ("200", "<error>"):
        name = "rest_client_requests_total"
        assert registry.get_sample_value(name, {"code": code, **labels}) == 1
    name_of_seconds = "rest_client_request_duration_seconds"
    total_seconds = registry.get_sample_value(
        f"{name_of_seconds}_sum", {"verb": "GET", "host": "10.0.0.1:6443"}
    )
    assert total_seconds == 3.02


def test_process_metrics_are_exposed() -> None:
    exposition = Metrics().render_exposition()[0].decode()
    for name in ("process_resident_memory_bytes", "process_open_fds", "process_cpu_seconds_total"):
        assert f"\n{name} " in exposition


def create_all_metrics() -> Metrics:
    """Return metrics to which every part of the framework has added its own."""
    metrics = Metrics()
    metrics.create_reconcile_metrics("pools", 1)
    metrics.create_queue_metrics("pools")
    WebhookMetrics(WebhookFamilies(metrics.registry), "/judge")
    CertificateMetrics(metrics.registry)
    metrics.create_request_observer("https://10.0.0.1")("GET", "200", 1)
    return metrics


def test_the_readme_of_the_framework_names_exactly_its_metrics() -> None:
    exposition = create_all_metrics().render_exposition()[0].decode()
    series = set(re.findall(r"^# TYPE (\S+)", exposition, re.MULTILINE))
    framework_series = {name for name in series if not name.startswith(("process_", "python_"))}
    readme = Path(controller.__file__).with_name("README.md").read_text(encoding="utf-8")
    table = readme.split("## Metrics")[1].split("\n## ")[0]
    assert framework_series == set(re.findall(r"`([a-z_]+_[a-z]+)`", table))


def test_counters_have_no_series_of_their_creation_time() -> None:
    exposition = create_all_metrics().render_exposition()[0].decode()
    assert "_created" not in exposition
    assert (
        'controller_runtime_reconcile_total{controller="pools",result="success"} 0.0' in exposition
    )
    assert 'workqueue_depth{controller="pools",name="pools",priority="0"} 0.0' in exposition
