"""Changing from metal3's controller to ours and back, without renumbering.

When metal3's manager comes back, it relies on names, labels, finalizers and owners of the objects.
So they are compared here with those that metal3's manager writes, and one of its reconciles is
simulated on our objects. On the way to ours, metal3's webhooks may still be registered.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import pytest

from envtest.ports import choose_free_port
from tests.contract.metal3.lab import (
    ADDRESS_KINDS,
    CLAIM_KINDS,
    FINALIZERS,
    IPAM,
    METAL3,
    Body,
    Metal3Lab,
    get_address_name,
    get_problem,
    get_status,
)
from tests.contract.metal3.test_adoption import create_address
from tests.contract.metal3.webhooks import without_webhooks
from tests.contract.product import Server, frozen
from tests.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="package")
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
THEIRS = "ipam-validating-webhook-configuration"
CAPI = "cluster.x-k8s.io"
CHECKED = {"checked-by": "metal3"}
"""The label of a namespace whose objects metal3's webhooks check."""
LABELS = {f"{CAPI}/cluster-name": "c", "metal3.io/data-name": "machine-0"}
ENTRIES = (
    {
        "start": "10.0.0.1",
        "end": "10.0.0.2",
        "prefix": 26,
        "gateway": "10.0.0.62",
        "dnsServers": ["10.0.0.53"],
    },
    {"start": "fd00:0::", "end": "fd00::1", "prefix": 64},
    {"subnet": "10.1.0.0/24"},
)
"""Two entries with settings of their own, the second in IPv6, and an entry without.

The name of the IPAddress fd00:: would end with a dash, which metal3 cuts off.
"""


def compute_address_name(address: str) -> str:
    """Return the name that metal3 computes for the IPAddress of an address of pool `p`."""
    return f"p-{address}".replace(".", "-").replace(":", "-").rstrip("-")


def make_owner_reference(body: Body, *flags: str) -> Body:
    """Return an owner reference to an object, with these fields set to true."""
    owner = {"apiVersion": body["apiVersion"], "kind": body["kind"].partition(" ")[0]}
    owner |= {"name": body["metadata"]["name"], "uid": body["metadata"]["uid"]}
    return owner | dict.fromkeys(flags, True)


def list_owners(body: Body) -> list[Body]:
    """Return the owner references of an object, without fields that are false."""
    return [
        {name: value for name, value in owner.items() if value is not False}
        for owner in body["metadata"]["ownerReferences"]
    ]


async def get_existing(lab: Metal3Lab, kind: str, name: str) -> Body:
    """Return an object; fail if it does not exist."""
    body = await lab.find(kind, name)
    assert body is not None, f"{kind} {name}"
    return body


@pytest.mark.parametrize("kind", CLAIM_KINDS)
async def test_objects_have_the_names_labels_finalizers_and_owners_that_metal3_relies_on(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.create("Cluster", "c", {})
    await lab.create_pool("p", *ENTRIES, clusterName="c", prefix=24, gateway="10.1.0.1")
    for number, name in enumerate("abcde"):
        await lab.create_claim(name, "p", kind, labels={**LABELS, "number": str(number)})
        await lab.wait_until_served(name, kind)
    addresses_in_order = ("10.0.0.1", "10.0.0.2", "fd00::", "fd00::1", "10.1.0.2")
    address_by_claim = dict(zip("abcde", addresses_in_order, strict=True))
    assert {
        key.split()[1]: address for key, address in (await lab.read_addresses()).items()
    } == address_by_claim

    pool = await lab.until(
        "IPPool", "p", lambda body: get_status(body).get("indexes") == address_by_claim
    )
    assert pool["metadata"]["finalizers"] == [FINALIZERS["IPPool"]]
    assert pool["metadata"]["labels"] == {
        f"{CAPI}/cluster-name": "c",
        f"{CAPI}/provider": "ipam-metal3",
    }
    assert list_owners(pool) == [make_owner_reference(await get_existing(lab, "Cluster", "c"))]
    assert get_status(pool)["lastUpdated"]
    assert set(get_status(pool)) == {"indexes", "lastUpdated"}
    for number, (name, address) in enumerate(address_by_claim.items()):
        claim = await get_existing(lab, kind, name)
        assert claim["metadata"]["finalizers"] == [FINALIZERS[kind]]
        body = await get_existing(lab, ADDRESS_KINDS[kind], compute_address_name(address))
        assert get_address_name(claim) == body["metadata"]["name"]
        assert body["metadata"]["finalizers"] == [FINALIZERS[ADDRESS_KINDS[kind]]]
        assert body["metadata"]["labels"] == {**LABELS, "number": str(number)}
        check_kind_specific_fields(lab, pool, claim=claim, address=body)
        check_entry_settings(body["spec"], address)


def check_kind_specific_fields(lab: Metal3Lab, pool: Body, claim: Body, address: Body) -> None:
    """Check the fields that differ between claims of metal3 and of Cluster API."""
    name = claim["metadata"]["name"]
    if claim["kind"] == "IPClaim":
        in_namespace = {"namespace": lab.namespace}
        assert get_status(claim) == {
            "address": {"name": address["metadata"]["name"], **in_namespace}
        }
        assert address["spec"]["pool"] == {"name": "p", **in_namespace}
        assert address["spec"]["claim"] == {"name": name, **in_namespace}
        assert list_owners(address) == [make_owner_reference(pool), make_owner_reference(claim)]
        is_first = address["spec"]["address"].startswith("10.0.")
        assert address["spec"].get("dnsServers", []) == (["10.0.0.53"] if is_first else [])
        assert address["apiVersion"] == f"{METAL3}/v1alpha1"
        return
    assert get_status(claim)["addressRef"] == {"name": address["metadata"]["name"]}
    assert address["spec"]["poolRef"] == {"apiGroup": METAL3, "kind": "IPPool", "name": "p"}
    assert address["spec"]["claimRef"] == {"name": name}
    assert {owner["uid"] for owner in list_owners(address)} == {
        pool["metadata"]["uid"],
        claim["metadata"]["uid"],
    }
    assert address["apiVersion"] == f"{IPAM}/v1beta2"


def check_entry_settings(spec: Body, address: str) -> None:
    """Check that an IPAddress has prefix and gateway of its entry, else those of its pool."""
    assert spec["address"] == address
    if address.startswith("10.0."):
        assert (spec["prefix"], spec["gateway"]) == (26, "10.0.0.62")
    elif address.startswith("fd00"):
        assert (spec["prefix"], spec["gateway"]) == (64, "10.1.0.1")
    else:
        assert (spec["prefix"], spec["gateway"]) == (24, "10.1.0.1")


def list_metal3_actions(pool: Body, claims: list[Body], addresses: list[Body]) -> Iterator[str]:
    """Yield the actions of one reconcile of metal3's manager on a pool, as sentences.

    It corrects the indexes in the pool's status, releases deleted claims that no foreign finalizer
    keeps, serves claims without an address, and fails for claims whose IPAddress does not exist.
    """
    indexes = {
        get_reference_name(body, "claim"): body["spec"]["address"]
        for body in addresses
        if get_reference_name(body, "pool") == pool["metadata"]["name"]
    }
    names = {body["metadata"]["name"] for body in addresses}
    if get_status(pool).get("indexes") != indexes:
        yield f"writes indexes {indexes}"
    for claim in claims:
        name = claim["metadata"]["name"]
        if "deletionTimestamp" in claim["metadata"]:
            foreign = set(claim["metadata"]["finalizers"]) - {FINALIZERS[claim["kind"]]}
            if not foreign:
                yield f"releases {compute_address_name(indexes[name])} of {name}"
        elif not get_address_name(claim):
            yield f"serves {name}"
        elif {get_address_name(claim), compute_address_name(indexes[name])} - names:
            yield f"does not find the IPAddress of {name}"


def get_reference_name(body: Body, part: str) -> str:
    """Return the name of the pool or the claim of an IPAddress of either kind."""
    return str((body["spec"].get(part) or body["spec"][f"{part}Ref"])["name"])


@without_webhooks
async def test_metal3s_manager_would_only_release_the_deleted_claim_and_serve_the_new_one(
    lab: Metal3Lab, server: Server
) -> None:
    """Our process is frozen while one claim is created and another one is deleted."""
    await lab.create_pool("p", {"start": "10.0.0.1", "end": "10.0.0.9"})
    for number, name in enumerate("abcd"):
        await lab.create_claim(name, "p", CLAIM_KINDS[number % 2])
        await lab.wait_until_served(name, CLAIM_KINDS[number % 2])
    await lab.until("IPPool", "p", lambda body: len(get_status(body).get("indexes", {})) == 4)
    with frozen(server.process):
        await lab.create_claim("new", "p")
        await lab.delete("IPClaim", "c")
        pool = await get_existing(lab, "IPPool", "p")
        claims = [claim for kind in CLAIM_KINDS for claim in await lab.list_objects(kind)]
        addresses = [
            item for kind in CLAIM_KINDS for item in await lab.list_objects(ADDRESS_KINDS[kind])
        ]
        actions = set(list_metal3_actions(pool, claims, addresses))
    assert actions == {"releases p-10-0-0-3 of c", "serves new"}


@asynccontextmanager
async def register_unanswered_webhook(server: Server, lab: Metal3Lab) -> AsyncIterator[str]:
    """Register a webhook of metal3 that nobody answers, as when its Deployment is scaled to 0.

    Yields:
        the name of the webhook, once the API server calls it.
    """
    url = f"https://127.0.0.1:{choose_free_port('127.0.0.1')}/validate"
    rule = {
        "apiGroups": [METAL3],
        "apiVersions": ["v1alpha1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["ippools", "ipclaims", "ipaddresses"],
    }
    webhook = {
        "name": f"default.ippool.{METAL3}",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "clientConfig": {"url": url},
        "namespaceSelector": {"matchLabels": CHECKED},
        "rules": [rule],
    }
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": THEIRS},
        "webhooks": [webhook],
    }
    labels = {"metadata": {"labels": CHECKED}}
    answer = await server.admin.patch(
        f"/api/v1/namespaces/{lab.namespace}",
        json=labels,
        headers={"Content-Type": "application/merge-patch+json"},
    )
    assert answer.status_code == 200, answer.text
    answer = await server.admin.post(CONFIGURATIONS, json=body)
    assert answer.status_code == 201, answer.text

    async def is_in_force() -> bool:
        path = lab.build_path("IPPool")
        pool = {"metadata": {"name": "tried"}, "spec": {"namePrefix": "tried"}}
        tried = {"apiVersion": f"{METAL3}/v1alpha1", "kind": "IPPool", **pool}
        return (await lab.admin.post(path, json=tried, params={"dryRun": "All"})).is_error

    await until(is_in_force, bool)
    yield str(webhook["name"])
    answer = await server.admin.delete(f"{CONFIGURATIONS}/{THEIRS}")
    assert answer.status_code == 200, answer.text


@without_webhooks
@pytest.mark.parametrize("kind", CLAIM_KINDS)
async def test_claims_wait_and_report_the_webhook_of_metal3_that_nobody_answers(
    lab: Metal3Lab, server: Server, kind: str
) -> None:
    async with AsyncExitStack() as stack:
        with frozen(server.process):
            await lab.create_pool("p", {"start": "10.0.0.1", "end": "10.0.0.9"})
            await lab.create_claim("a", "p", kind, finalizers=[FINALIZERS[kind]])
            await create_address(lab, kind, name="p-10-0-0-1", address="10.0.0.1", claim="a")
            await lab.create_claim("b", "p", kind)
            offset = server.log.stat().st_size
            webhook = await stack.enter_async_context(register_unanswered_webhook(server, lab))
        await until(
            lambda: read_log_from(server.log, offset), lambda log: webhook in log, seconds=15
        )
        if kind == "IPClaim":  # an errorMessage would make CAPM3 give it up
            await lab.check_waiting("b")
        else:
            await lab.until(kind, "b", lambda claim: webhook in get_problem(claim))
            assert get_address_name(await get_existing(lab, kind, "b")) == ""
    assert await lab.wait_until_served("a", kind) == "10.0.0.1"
    assert await lab.wait_until_served("b", kind) == "10.0.0.2"


async def read_log_from(log: Path, offset: int) -> str:
    """Return the part of a log from an offset in bytes on."""
    return (await anyio.Path(log).read_bytes())[offset:].decode()
