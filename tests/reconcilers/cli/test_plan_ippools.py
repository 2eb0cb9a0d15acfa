"""`plan` with IPPools that belong to a Cluster, as those of Cluster API Provider Metal3 do."""

from tests.reconcilers.cli.commandline import plan_text
from tests.reconcilers.server import Json
from tests.yamls import written_yaml


def _make_pool(end: str) -> Json:
    """Return IPPool home/p of Cluster c, with the addresses from 10.0.0.10 to `end`."""
    return {
        "apiVersion": "ipam.metal3.io/v1alpha1",
        "kind": "IPPool",
        "metadata": {"name": "p", "namespace": "home"},
        "spec": {
            "namePrefix": "p",
            "clusterName": "c",
            "pools": [{"start": "10.0.0.10", "end": end}],
        },
    }


def _make_claim(name: str) -> Json:
    """Return an IPClaim on IPPool home/p."""
    return {
        "apiVersion": "ipam.metal3.io/v1alpha1",
        "kind": "IPClaim",
        "metadata": {"name": name, "namespace": "home"},
        "spec": {"pool": {"name": "p", "namespace": "home"}},
    }


def test_plan_assumes_that_the_cluster_of_an_ippool_exists() -> None:
    outcome = plan_text(written_yaml([_make_pool("10.0.0.20"), _make_claim("a")]))
    assert "10.0.0.10" in outcome.out
    assert "does not exist" not in outcome.out


def test_a_claim_on_a_full_ippool_is_reported_as_exhausted() -> None:
    cluster: Json = {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": "c", "namespace": "home"},
        "spec": {},
    }
    outcome = plan_text(
        written_yaml([cluster, _make_pool("10.0.0.10"), _make_claim("a"), _make_claim("b")])
    )
    assert "Exhausted IP Pools" in outcome.out
    assert "does not exist" not in outcome.out


def test_plan_shows_the_address_in_the_spec_of_an_ipaddress_whatever_its_name() -> None:
    pool = _make_pool("10.0.0.20")
    entry = {"start": "1:2:3:4::", "end": "1:2:3:4::9"}
    pool["spec"]["pools"] += [entry, {"start": "1.2.3.4", "end": "1.2.3.4"}]
    by_hand: Json = {
        "apiVersion": "ipam.metal3.io/v1alpha1",
        "kind": "IPAddress",
        "metadata": {"name": "by-hand", "namespace": "home"},
        "spec": {"address": "10.0.0.15", "pool": {"name": "p"}, "claim": {"name": "a"}},
    }
    # The name of its IPAddress, p-1-2-3-4, may stand for 1.2.3.4 as well.
    wish = _make_claim("b")
    wish["metadata"]["annotations"] = {"ipAddress": "1:2:3:4::"}
    outcome = plan_text(written_yaml([pool, by_hand, _make_claim("a"), wish]))
    lines = {line.split()[1]: line.split()[4] for line in outcome.out.splitlines()[1:3]}
    assert lines == {"home/a": "10.0.0.15", "home/b": "1:2:3:4::"}
