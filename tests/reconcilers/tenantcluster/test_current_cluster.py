"""A pass works from the newest version of its TenantCluster, whoever wrote it."""

import pytest

from controller.errors import Conflict
from controller.meta import Key
from reconcilers.tenantcluster.current_cluster import CurrentCluster
from tests.reconcilers import make
from tests.reconcilers.lab import Lab

CLUSTER = Key("team", "a")


def _read_annotation(lab: Lab, name: str) -> str | None:
    metadata = lab.server.see("tenantclusters", "a", namespace="team")["metadata"]
    annotations: dict[str, str] = metadata.get("annotations") or {}
    return annotations.get(name)


def _make_current_cluster(lab: Lab) -> CurrentCluster:
    """Return the CurrentCluster of a pass that starts now."""
    tenant = lab.caches["tenantclusters"].get(CLUSTER)
    assert tenant is not None
    return CurrentCluster(lab.client, lab.caches["tenantclusters"], tenant)


def _make_lab() -> Lab:
    """Return a lab with TenantCluster team/a."""
    lab = Lab()
    lab.server.add("tenantclusters", make.tenant())
    return lab


async def test_the_pass_sees_its_own_writes_although_the_cache_lags() -> None:
    lab = _make_lab()
    lab.hold_events("tenantclusters")
    current = _make_current_cluster(lab)
    await current.annotate({"one": "1"})
    await current.annotate({"other": "2"})
    assert current.tenant.metadata.annotations.items() >= {"one": "1", "other": "2"}.items()
    await current.annotate({"one": None})
    assert (_read_annotation(lab, "one"), _read_annotation(lab, "other")) == (None, "2")


async def test_a_write_of_another_controller_that_the_cache_shows_does_not_end_the_pass() -> None:
    lab = _make_lab()
    current = _make_current_cluster(lab)
    note = {"metadata": {"annotations": {"theirs": "1"}}}
    lab.server.edit("tenantclusters", "a", note, namespace="team")
    assert current.tenant.metadata.annotations["theirs"] == "1"
    await current.annotate({"ours": "2"})
    assert (_read_annotation(lab, "theirs"), _read_annotation(lab, "ours")) == ("1", "2")


async def test_a_write_of_another_controller_that_the_cache_lacks_ends_the_pass() -> None:
    lab = _make_lab()
    lab.hold_events("tenantclusters")
    current = _make_current_cluster(lab)
    note = {"metadata": {"annotations": {"theirs": "1"}}}
    lab.server.edit("tenantclusters", "a", note, namespace="team")
    with pytest.raises(Conflict):
        await current.annotate({"ours": "2"})
    assert _read_annotation(lab, "ours") is None


async def test_a_cluster_that_was_recreated_meanwhile_is_not_written() -> None:
    lab = _make_lab()
    current = _make_current_cluster(lab)
    lab.server.vanish("tenantclusters", "a", namespace="team")
    lab.server.add("tenantclusters", make.tenant(uid="another"))
    assert current.tenant.metadata.uid == "uid-team-a"
    with pytest.raises(Conflict):
        await current.annotate({"ours": "2"})
    assert _read_annotation(lab, "ours") is None


async def test_a_status_is_only_written_over_the_version_that_it_was_computed_from() -> None:
    lab = _make_lab()
    current = _make_current_cluster(lab)
    before = current.tenant
    await current.patch_status(before, {"phase": "Ready"})
    assert current.tenant.status.phase == "Ready"
    with pytest.raises(Conflict):
        await current.patch_status(before, {"phase": "Pending"})
    assert current.tenant.status.phase == "Ready"
