"""Which requests a fault strikes."""

import random
from urllib.parse import parse_qsl, urlsplit

import pytest

from envtest.faults.calls import Call, Match, MatchCounter, read_call


def call(method: str, url: str) -> Call:
    parts = urlsplit(url)
    return read_call(method, parts.path, dict(parse_qsl(parts.query)))


NODES = "/api/v1/nodes"
GAUGES = "/apis/lab.example.com/v1/namespaces/default/gauges"


@pytest.mark.parametrize(
    ("method", "url", "meant"),
    [
        ("GET", NODES, "list nodes"),
        ("GET", f"{NODES}?watch=true", "watch nodes"),
        ("GET", f"{NODES}?watch=0", "list nodes"),
        ("GET", f"{NODES}/a", "get nodes a"),
        ("DELETE", NODES, "deletecollection nodes"),
        ("DELETE", f"{NODES}/a", "delete nodes a"),
        ("POST", GAUGES, "create gauges default"),
        ("PUT", f"{GAUGES}/a%2Fb", "update gauges default a/b"),
        ("PATCH", f"{GAUGES}/a/status", "patch gauges default a status"),
        ("GET", "/api/v1/namespaces", "list namespaces"),
        ("GET", "/api/v1/namespaces/a", "get namespaces a"),
        ("PUT", "/api/v1/namespaces/a/finalize", "update namespaces a finalize"),
        ("GET", "/api/v1/namespaces/a/pods", "list pods a"),
        ("GET", "/apis/apps/v1", "get"),
        ("GET", "/readyz", "get"),
    ],
)
def test_a_request_is_read_as_the_server_reads_it(method: str, url: str, meant: str) -> None:
    reported = call(method, url)
    parts = (
        reported.verb,
        reported.resource,
        reported.namespace,
        reported.name,
        reported.subresource,
    )
    assert " ".join(part for part in parts if part) == meant


def test_a_field_that_a_match_leaves_out_matches_all_requests() -> None:
    assert Match().matches(call("GET", "/readyz"))
    assert Match(resource="gauges").matches(call("GET", f"{GAUGES}/a/status"))
    assert not Match(resource="gauges", subresource="").matches(call("GET", f"{GAUGES}/a/status"))
    assert not Match(group="").matches(call("GET", GAUGES))


def test_a_predicate_sees_the_whole_request() -> None:
    second = Match(verb="list", where=lambda call: "continue" in call.query)
    assert second.matches(call("GET", f"{NODES}?continue=x"))
    assert not second.matches(call("GET", NODES))


def test_a_fault_is_injected_as_often_as_it_should() -> None:
    count = MatchCounter(Match(verb="list", nth=2, times=2), random.Random(0))
    asked = [call("GET", NODES)] * 5
    assert [count.count_and_decide(call) for call in asked] == [False, True, True, False, False]
    assert not count.count_and_decide(call("GET", f"{NODES}/a"))


def test_random_faults_are_the_same_for_the_same_seed() -> None:
    def select_fifty(seed: int) -> list[bool]:
        count = MatchCounter(Match(chance=0.5), random.Random(seed))
        return [count.count_and_decide(call("GET", NODES)) for _ in range(50)]

    assert select_fifty(1) == select_fifty(1) != select_fifty(2)
    assert 5 < sum(select_fifty(1)) < 45
