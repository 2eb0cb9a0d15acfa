"""The CRDs' rules reject invalid objects without webhooks, and accept valid ones."""

import anyio
import httpx
import pytest
import pytest_asyncio
import yaml

from envtest.plane import RunningControlPlane as Plane
from manifests import get_folder
from reconcilers.api import crd, names
from tests.contract import family_rule_cases
from tests.contract.conftest import administrator
from tests.contract.crd_rule_cases import (
    ACCEPTED,
    REFUSED,
    Json,
    make_cluster,
    make_pool,
    make_ranges,
    make_request,
    without_rules,
)
from tests.polling import SECONDS
from tests.servers import SERVERS, Server, running

pytestmark = pytest.mark.asyncio(loop_scope="module")
PLURALS = {kind.kind: kind.plural for kind in crd.KINDS}
FIRST_RATCHETING_MINOR = 33
"""The first minor version of Kubernetes that validates changed fields only (CRD ratcheting).

From it on, a status can be written although the stored spec is invalid.
"""


class KindsClient:
    """Writes objects of our kinds in a namespace, and returns the answers."""

    def __init__(self, http: httpx.AsyncClient, namespace: str) -> None:
        self._http = http
        self._namespace = namespace

    def _path(self, kind: str, *rest: str) -> str:
        base = f"/apis/{names.API_VERSION}/namespaces/{self._namespace}/{PLURALS[kind]}"
        return "/".join([base, *rest])

    async def create(self, kind: str, spec: Json, name: str = "x") -> httpx.Response:
        body = {
            "apiVersion": names.API_VERSION,
            "kind": kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        return await self._http.post(self._path(kind), json=body)

    async def patch(
        self, kind: str, change: Json, *, name: str = "x", subresource: str = ""
    ) -> httpx.Response:
        rest = [name, subresource] if subresource else [name]
        headers = {"Content-Type": "application/merge-patch+json"}
        return await self._http.patch(self._path(kind, *rest), json=change, headers=headers)

    async def delete(self, kind: str, name: str = "x") -> httpx.Response:
        return await self._http.delete(self._path(kind, name))


@pytest_asyncio.fixture(loop_scope="module")
async def kinds_client(shared_admin: httpx.AsyncClient) -> KindsClient:
    """A client of our kinds in a new namespace."""
    body = {"metadata": {"generateName": "rules-"}}
    namespace = (await shared_admin.post("/api/v1/namespaces", json=body)).json()
    return KindsClient(shared_admin, namespace["metadata"]["name"])


def list_causes(response: httpx.Response) -> list[tuple[str, str]]:
    """Return field and message of each cause of a refusal; none if the write was accepted."""
    if response.is_success:
        return []
    assert response.status_code == 422, response.text
    return [(c["field"], c["message"]) for c in response.json()["details"].get("causes", [])]


def list_fields(response: httpx.Response) -> set[str]:
    """Return the fields of the causes of a rejection."""
    return {field for field, _ in list_causes(response)}


def has_message(response: httpx.Response, content: str) -> bool:
    """Return whether the message of a cause has a text."""
    return any(content in message for _, message in list_causes(response))


async def test_an_invalid_object_is_refused_at_the_field_at_fault(
    kinds_client: KindsClient,
) -> None:
    for case, (kind, spec, field, message) in {**REFUSED, **family_rule_cases.REFUSED}.items():
        answer = await kinds_client.create(kind, spec)
        assert field in list_fields(answer), (case, answer.text)
        assert has_message(answer, message), (case, answer.text)


async def test_valid_objects_are_accepted(kinds_client: KindsClient) -> None:
    accepted = {**ACCEPTED, **family_rule_cases.ACCEPTED}
    for number, (case, (kind, spec)) in enumerate(accepted.items()):
        answer = await kinds_client.create(kind, spec, name=f"sound-{number}")
        assert answer.status_code == 201, (case, answer.text)


async def test_every_sample_is_accepted(kinds_client: KindsClient) -> None:
    for path in get_folder("samples").iterdir():
        for document in yaml.safe_load_all(path.read_text()):
            if document["kind"] in PLURALS:
                meta = document["metadata"]
                answer = await kinds_client.create(
                    document["kind"], document["spec"], meta["name"]
                )
                assert answer.status_code == 201, answer.text


async def test_the_cidr_of_a_pool_can_only_be_replaced_by_a_larger_cidr_that_contains_it(
    kinds_client: KindsClient,
) -> None:
    await kinds_client.create("NetworkPool", make_pool("10.0.0.0/24"))
    for cidr, is_accepted in (
        ("10.0.0.0/25", False),
        ("10.0.1.0/24", False),
        ("10.0.0.0/23", True),
        # This CIDR begins before the stored CIDR, and has host bits.
        ("9.255.255.9/6", True),
    ):
        answer = await kinds_client.patch("NetworkPool", {"spec": {"cidr": cidr}})
        assert answer.is_success is is_accepted, answer.text
        assert is_accepted or list_fields(answer) == {"spec.cidr"}


async def test_the_spec_of_an_allocation_is_immutable_and_its_labels_are_not(
    kinds_client: KindsClient,
) -> None:
    await kinds_client.create("IPAllocation", make_request(count=4))
    answer = await kinds_client.patch("IPAllocation", {"spec": {"count": 5}})
    assert list_fields(answer) == {"spec"}
    labelled = await kinds_client.patch("IPAllocation", {"metadata": {"labels": {"a": "b"}}})
    assert labelled.is_success


async def test_the_provider_of_a_cluster_is_immutable_once_the_cluster_has_an_allocation(
    kinds_client: KindsClient,
) -> None:
    reference = {"name": "onprem", "namespace": "butler-system"}
    await kinds_client.create("TenantCluster", make_cluster() | {"providerConfigRef": reference})

    def move_reference(**change: str) -> Json:
        return {"spec": {"providerConfigRef": reference | change}}

    assert (await kinds_client.patch("TenantCluster", move_reference(name="other"))).is_success
    assert (await kinds_client.patch("TenantCluster", move_reference())).is_success
    status = {"status": {"lbAllocationRef": {"name": "team-a-lb"}}}
    assert (await kinds_client.patch("TenantCluster", status, subresource="status")).is_success
    for change in ({"name": "other"}, {"namespace": "elsewhere"}):
        answer = await kinds_client.patch("TenantCluster", move_reference(**change))
        assert list_fields(answer) == {"spec.providerConfigRef"}
    assert (await kinds_client.patch("TenantCluster", {"spec": {"timeServers": ["a"]}})).is_success


@pytest.mark.parametrize("server", SERVERS)
async def test_an_invalid_pool_that_is_older_than_the_rules_can_be_updated_and_deleted(
    server: Server,
) -> None:
    async with running(server) as plane, administrator(plane) as admin:
        await plane.install_crds([without_rules(definition) for definition in crd.build_crds()])
        kinds_client = KindsClient(admin, "default")
        await _update_and_delete_invalid_pool(
            plane, kinds_client, await _read_minor_version(admin)
        )


async def _update_and_delete_invalid_pool(
    plane: Plane, kinds_client: KindsClient, minor: int
) -> None:
    """Create an invalid pool, install the rules, and update and delete the pool."""
    invalid_pool = make_pool("10.0.0.0/33") | make_ranges(("10.9.0.9", "10.0.0.3"))
    assert (await kinds_client.create("NetworkPool", invalid_pool)).is_success
    await plane.install_crds(crd.build_crds())
    await _wait_until_rules_in_force(kinds_client)

    finalizer_patch = {"metadata": {"finalizers": [names.FINALIZER_POOL], "labels": {"a": "b"}}}
    answer = await kinds_client.patch("NetworkPool", finalizer_patch)
    assert answer.is_success, answer.text
    status_patch = {"status": {"totalIPs": 0, "observedGeneration": 1}}
    answer = await kinds_client.patch("NetworkPool", status_patch, subresource="status")
    assert answer.is_success is (minor >= FIRST_RATCHETING_MINOR), answer.text
    assert (await kinds_client.delete("NetworkPool")).is_success
    gone = await kinds_client.patch("NetworkPool", {"metadata": {"finalizers": None}})
    assert gone.is_success, gone.text
    assert (await kinds_client.delete("NetworkPool")).status_code == 404


async def _read_minor_version(admin: httpx.AsyncClient) -> int:
    return int((await admin.get("/version")).json()["minor"])


async def _wait_until_rules_in_force(kinds_client: KindsClient) -> None:
    """Wait until the server enforces the rules, which it does a moment after it stored them."""
    with anyio.fail_after(SECONDS):
        number = 0
        while (
            await kinds_client.create("NetworkPool", make_pool("10.0.0.0/33"), f"try-{number}")
        ).is_success:
            number += 1
