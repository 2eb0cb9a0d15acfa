"""The shipped samples: they are valid and disjoint, and can be served alone and together."""

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml

from allocator import AddressRange
from controller.clock import SystemClock
from reconcilers.cli.local.balancer import wait_until_established
from reconcilers.cli.local.objects import apply
from reconcilers.cli.local.servers import run_api_server
from reconcilers.cli.standin.pools import read_metallb_crds
from reconcilers.loadbalancers.metallb.installation.bundle import parse_bundle
from tests.polling import SECONDS
from tests.reconcilers.cli.commandline import Outcome, run

SAMPLES = Path(__file__).parents[3] / "manifests" / "samples"
FILES = sorted(SAMPLES.iterdir())
FILES_WITH_OUR_KINDS = [path for path in FILES if "butler.butlerlabs.dev" in path.read_text()]


def run_plan(*paths: Path) -> Outcome:
    """Run `plan -o json` on files or folders."""
    arguments = [argument for path in paths for argument in ("-f", path)]
    return run("plan", *arguments, "-o", "json")


def read_objects(path: Path) -> list[dict[str, Any]]:
    """Return the objects in a file."""
    return list(yaml.safe_load_all(path.read_text()))


def test_the_samples_are_yaml_files_of_api_objects_only() -> None:
    assert {path.suffix for path in FILES} == {".yaml"}
    for path in FILES:
        for obj in read_objects(path):
            assert {"apiVersion", "kind", "metadata"} <= obj.keys()
            assert obj["kind"] != "Kustomization"


@pytest.mark.parametrize("path", FILES_WITH_OUR_KINDS, ids=lambda path: path.name)
def test_plan_serves_each_sample_alone_without_errors_and_warnings(path: Path) -> None:
    outcome = run_plan(path)
    assert (outcome.code, outcome.errors, outcome.warnings) == (0, [], [])
    for body in outcome.items.values():
        if body["kind"] == "IPAllocation":
            assert body["status"]["phase"] == "Allocated"


def test_check_has_no_findings_in_the_samples() -> None:
    outcome = run("check", "-f", SAMPLES, "-o", "json")
    assert (outcome.code, outcome.errors) == (0, [])
    assert json.loads(outcome.out)["findings"] == []


def test_plan_serves_all_samples_together_without_errors_and_warnings() -> None:
    outcome = run_plan(SAMPLES)
    assert (outcome.code, outcome.errors, outcome.warnings) == (0, [], [])
    phases = [b["status"]["phase"] for b in outcome.items.values() if b["kind"] == "IPAllocation"]
    assert phases == ["Allocated"] * len(phases)
    assert len(phases) >= 8
    for body in outcome.items.values():
        if body["kind"] == "TenantCluster":
            [network] = [c for c in body["status"]["conditions"] if c["type"] == "NetworkReady"]
            assert network["status"] == "True"


async def test_the_sample_bundle_installs_the_kinds_that_are_projected() -> None:
    [config] = read_objects(SAMPLES / "95-metallb-bundle.yaml")
    bundle = parse_bundle(config["data"])
    assert [str(manifest) for manifest in bundle.manifests[:1]] == ["Namespace metallb-system"]
    async with run_api_server("tenant", []) as server:
        for manifest in bundle.manifests:
            await apply(server.transport, manifest.body)
        with anyio.fail_after(SECONDS):
            await wait_until_established(server.transport, SystemClock(), read_metallb_crds())
        await apply(
            server.transport, _make_projected("IPAddressPool", addresses=["10.0.0.1-10.0.0.2"])
        )
        await apply(server.transport, _make_projected("L2Advertisement", ipAddressPools=["p"]))


def _make_projected(kind: str, **spec: Any) -> dict[str, Any]:
    """Return an object of MetalLB as it is projected to tenants."""
    return {
        "apiVersion": "metallb.io/v1beta1",
        "kind": kind,
        "metadata": {"name": "p", "namespace": "metallb-system"},
        "spec": spec,
    }


def test_samples_use_no_deprecated_fields() -> None:
    """A webhook would warn about them when a user applies the samples."""
    for path in FILES:
        for body in read_objects(path):
            if body["kind"] == "NetworkPool":
                assert not {"start", "end"} & body["spec"].get("tenantAllocation", {}).keys()


def test_no_two_pools_share_an_address() -> None:
    cidrs = {
        f"{body['metadata']['name']} {block['cidr']}": AddressRange.parse_cidr(block["cidr"])
        for path in FILES
        for body in read_objects(path)
        if body["kind"] == "NetworkPool"
        for block in (body["spec"], body["spec"].get("secondary"))
        if block
    }
    assert len(cidrs) >= 8
    for (first_pool, first), (other, second) in combinations(cidrs.items(), 2):
        assert not first.overlaps(second), f"{first_pool} and {other}"


def test_no_two_samples_have_the_same_name() -> None:
    names = [
        (body["kind"], body["metadata"].get("namespace"), body["metadata"]["name"])
        for path in FILES
        for body in read_objects(path)
    ]
    assert len(names) == len(set(names))


def test_the_first_file_creates_every_namespace_of_the_samples() -> None:
    first = {body["metadata"]["name"] for body in read_objects(FILES[0])}
    assert {body["kind"] for body in read_objects(FILES[0])} == {"Namespace"}
    used = {body["metadata"]["namespace"] for path in FILES[1:] for body in read_objects(path)}
    assert used == first


def test_every_secret_of_a_provider_is_in_its_file_and_says_that_it_is_fake() -> None:
    for path in FILES:
        bodies = read_objects(path)
        secrets = {body["metadata"]["name"]: body for body in bodies if body["kind"] == "Secret"}
        for body in bodies:
            if body["kind"] == "ProviderConfig":
                secret = secrets[body["spec"]["credentialsRef"]["name"]]
                assert all("fake" in value for value in secret["stringData"].values())


def test_the_pool_of_the_first_sample_has_room_for_58_tenants_beside_its_own() -> None:
    items = run_plan(SAMPLES / "10-single-pool-static.yaml").items
    assert items["NetworkPool/lab-pool"]["status"]["totalIPs"] == 767
    capacity = items["ProviderConfig/harvester-lab"]["status"]["capacity"]
    assert capacity["estimatedTenants"] == 58
