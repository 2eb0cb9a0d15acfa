"""From metal3's controller to ours and back: its webhooks on the way in, our objects after that.

What metal3's manager goes by when it comes back are the strings on the objects. So each of them is
compared here with what its own manager writes, and one of its passes is played over them.
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
    address_name,
    problem,
    status,
)
from tests.contract.metal3.test_adoption import create_address
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
"""An IPv6 address whose name would end with a dash, values of an entry, and values of the pool."""


def canonical_name(address: str) -> str:
    """Return the name of an IPAddress as metal3 computes it."""
    return f"p-{address}".replace(".", "-").replace(":", "-").rstrip("-")


def reference(body: Body, *flags: str) -> Body:
    """Return an owner reference to an object, with these flags set."""
    owner = {"apiVersion": body["apiVersion"], "kind": body["kind"].partition(" ")[0]}
    owner |= {"name": body["metadata"]["name"], "uid": body["metadata"]["uid"]}
    return owner | dict.fromkeys(flags, True)


def owners(body: Body) -> list[Body]:
    """Return the owners of an object, with the flags that are set."""
    return [
        {name: value for name, value in owner.items() if value is not False}
        for owner in body["metadata"]["ownerReferences"]
    ]


async def get_existing(lab: Metal3Lab, kind: str, name: str) -> Body:
    """Return an object that has to be there."""
    body = await lab.find(kind, name)
    assert body is not None, f"{kind} {name}"
    return body


@pytest.mark.parametrize("kind", CLAIM_KINDS)
async def test_objects_have_every_string_that_metal3s_manager_goes_by(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.create("Cluster", "c", {})
    await lab.pool("p", *ENTRIES, clusterName="c", prefix=24, gateway="10.1.0.1")
    for number, name in enumerate("abcde"):
        await lab.claim(name, "p", kind, labels={**LABELS, "number": str(number)})
        await lab.wait_until_served(name, kind)
    addresses_in_order = ("10.0.0.1", "10.0.0.2", "fd00::", "fd00::1", "10.1.0.2")
    address_by_claim = dict(zip("abcde", addresses_in_order, strict=True))
    assert {
        key.split()[1]: address for key, address in (await lab.read_addresses()).items()
    } == address_by_claim

    pool = await lab.until(
        "IPPool", "p", lambda body: status(body).get("indexes") == address_by_claim
    )
    assert pool["metadata"]["finalizers"] == [FINALIZERS["IPPool"]]
    assert pool["metadata"]["labels"] == {
        f"{CAPI}/cluster-name": "c",
        f"{CAPI}/provider": "ipam-metal3",
    }
    assert owners(pool) == [reference(await get_existing(lab, "Cluster", "c"))]
    assert status(pool)["lastUpdated"]
    assert set(status(pool)) == {"indexes", "lastUpdated"}
    for number, (name, address) in enumerate(address_by_claim.items()):
        claim = await get_existing(lab, kind, name)
        assert claim["metadata"]["finalizers"] == [FINALIZERS[kind]]
        body = await get_existing(lab, ADDRESS_KINDS[kind], canonical_name(address))
        assert address_name(claim) == body["metadata"]["name"]
        assert body["metadata"]["finalizers"] == [FINALIZERS[ADDRESS_KINDS[kind]]]
        assert body["metadata"]["labels"] == {**LABELS, "number": str(number)}
        check_by_kind(lab, pool, claim=claim, address=body)
        check_settings(body["spec"], address)


def check_by_kind(lab: Metal3Lab, pool: Body, claim: Body, address: Body) -> None:
    """Check what differs between metal3's claims and those of Cluster API."""
    name = claim["metadata"]["name"]
    if claim["kind"] == "IPClaim":
        here = {"namespace": lab.namespace}
        assert status(claim) == {"address": {"name": address["metadata"]["name"], **here}}
        assert address["spec"]["pool"] == {"name": "p", **here}
        assert address["spec"]["claim"] == {"name": name, **here}
        assert owners(address) == [reference(pool), reference(claim)]
        is_first = address["spec"]["address"].startswith("10.0.")
        assert address["spec"].get("dnsServers", []) == (["10.0.0.53"] if is_first else [])
        assert address["apiVersion"] == f"{METAL3}/v1alpha1"
        return
    assert status(claim)["addressRef"] == {"name": address["metadata"]["name"]}
    assert address["spec"]["poolRef"] == {"apiGroup": METAL3, "kind": "IPPool", "name": "p"}
    assert address["spec"]["claimRef"] == {"name": name}
    assert {owner["uid"] for owner in owners(address)} == {
        pool["metadata"]["uid"],
        claim["metadata"]["uid"],
    }
    assert address["apiVersion"] == f"{IPAM}/v1beta2"


def check_settings(spec: Body, address: str) -> None:
    """Check what an IPAddress has of its entry, or else of its pool."""
    assert spec["address"] == address
    if address.startswith("10.0."):
        assert (spec["prefix"], spec["gateway"]) == (26, "10.0.0.62")
    elif address.startswith("fd00"):
        assert (spec["prefix"], spec["gateway"]) == (64, "10.1.0.1")
    else:
        assert (spec["prefix"], spec["gateway"]) == (24, "10.1.0.1")


def play_pass(pool: Body, claims: list[Body], addresses: list[Body]) -> Iterator[str]:
    """Yield the effects of a pass of metal3's manager on the objects of a pool, as sentences.

    It links a claim without address to the computed name of its index, chooses an address for one
    that is in no index, and fails where an IPAddress of a name is there or lacks. Its own metadata
    it writes where it is not there.
    """
    indexes = {
        reference_name(body, "claim"): body["spec"]["address"]
        for body in addresses
        if reference_name(body, "pool") == pool["metadata"]["name"]
    }
    names = {body["metadata"]["name"] for body in addresses}
    if status(pool).get("indexes") != indexes:
        yield f"writes indexes {indexes}"
    for claim in claims:
        name = claim["metadata"]["name"]
        if "deletionTimestamp" in claim["metadata"]:
            foreign = set(claim["metadata"]["finalizers"]) - {FINALIZERS[claim["kind"]]}
            if not foreign:
                yield f"releases {canonical_name(indexes[name])} of {name}"
        elif not address_name(claim):
            yield f"serves {name}"
        elif {address_name(claim), canonical_name(indexes[name])} - names:
            yield f"does not find the IPAddress of {name}"


def reference_name(body: Body, part: str) -> str:
    """Return the name of the pool or the claim of an IPAddress of either kind."""
    return str((body["spec"].get(part) or body["spec"][f"{part}Ref"])["name"])


async def test_metal3s_manager_would_renumber_nobody_and_go_on_with_what_was_begun(
    lab: Metal3Lab, server: Server
) -> None:
    """Our process is stopped in the middle: claims wait, and one is being deleted."""
    await lab.pool("p", {"start": "10.0.0.1", "end": "10.0.0.9"})
    for number, name in enumerate("abcd"):
        await lab.claim(name, "p", CLAIM_KINDS[number % 2])
        await lab.wait_until_served(name, CLAIM_KINDS[number % 2])
    await lab.until("IPPool", "p", lambda body: len(status(body).get("indexes", {})) == 4)
    with frozen(server.process):
        await lab.claim("new", "p")
        await lab.delete("IPClaim", "c")
        pool = await get_existing(lab, "IPPool", "p")
        claims = [claim for kind in CLAIM_KINDS for claim in await lab.items(kind)]
        addresses = [item for kind in CLAIM_KINDS for item in await lab.items(ADDRESS_KINDS[kind])]
        deeds = set(play_pass(pool, claims, addresses))
    assert deeds == {"releases p-10-0-0-3 of c", "serves new"}


@asynccontextmanager
async def block_answers(server: Server, lab: Metal3Lab) -> AsyncIterator[str]:
    """Leave metal3's webhooks registered, as they are when its Deployment is scaled to 0."""
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

    async def refuses() -> bool:
        path = lab.path("IPPool")
        pool = {"metadata": {"name": "tried"}, "spec": {"namePrefix": "tried"}}
        tried = {"apiVersion": f"{METAL3}/v1alpha1", "kind": "IPPool", **pool}
        return (await lab.admin.post(path, json=tried, params={"dryRun": "All"})).is_error

    await until(refuses, bool)
    yield str(webhook["name"])
    answer = await server.admin.delete(f"{CONFIGURATIONS}/{THEIRS}")
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("kind", CLAIM_KINDS)
async def test_a_takeover_beside_webhooks_that_nobody_answers_waits_and_says_why(
    lab: Metal3Lab, server: Server, kind: str
) -> None:
    async with AsyncExitStack() as stack:
        with frozen(server.process):
            await lab.pool("p", {"start": "10.0.0.1", "end": "10.0.0.9"})
            await lab.claim("a", "p", kind, finalizers=[FINALIZERS[kind]])
            await create_address(lab, kind, name="p-10-0-0-1", address="10.0.0.1", claim="a")
            await lab.claim("b", "p", kind)
            offset = server.log.stat().st_size
            webhook = await stack.enter_async_context(block_answers(server, lab))
        await until(lambda: said_since(server.log, offset), lambda log: webhook in log, seconds=15)
        if kind == "IPClaim":  # an errorMessage would make CAPM3 give it up
            await lab.waits("b")
        else:
            await lab.until(kind, "b", lambda claim: webhook in problem(claim))
            assert address_name(await get_existing(lab, kind, "b")) == ""
    assert await lab.wait_until_served("a", kind) == "10.0.0.1"
    assert await lab.wait_until_served("b", kind) == "10.0.0.2"


async def said_since(log: Path, offset: int) -> str:
    """Return the text that was logged from an offset on."""
    return (await anyio.Path(log).read_bytes())[offset:].decode()
