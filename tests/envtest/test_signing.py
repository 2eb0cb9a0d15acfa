"""Requests for certificates: who asks, who may approve and sign, and what nobody can take back."""

import base64
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from cryptography import x509

from envtest import ControlPlane, User
from envtest.certs import Authority
from envtest.plane import ControlPlane as Plane
from tests.envtest.components import CERTIFICATES, REQUEST, named, signing_request
from tests.envtest.conftest import admin_client

PATH = f"{CERTIFICATES}/certificatesigningrequests"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
SIGNER = "example.com/me"
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
CERTIFICATE = base64.b64encode(Authority.create().pair.certificate).decode()
MERGE = {"Content-Type": "application/merge-patch+json"}


def request(name: str = "r", **spec: Any) -> dict[str, Any]:
    usual = {"request": REQUEST, "signerName": SIGNER, "usages": ["client auth"]}
    return named(name, {"spec": {**usual, **spec}})


def approved(body: dict[str, Any], kind: str = "Approved") -> dict[str, Any]:
    """Return a request with one condition more."""
    conditions = [*body["status"].get("conditions", []), {"type": kind, "status": "True"}]
    return {**body, "status": {**body["status"], "conditions": conditions}}


def signed(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "status": {**body["status"], "certificate": CERTIFICATE}}


async def asked(http: httpx.AsyncClient, **spec: Any) -> dict[str, Any]:
    answer = await http.post(PATH, json=request(**spec))
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_the_server_says_who_asks_whatever_the_request_says() -> None:
    ann = User("ann", ("devs", "system:masters"), "u-1", {"team": ("a", "b")})
    async with (
        ControlPlane.start(force_embedded=True, tokens={"t": ann}) as plane,
        _as(plane, "t") as http,
    ):
        body = await asked(http, username="root", uid="0", groups=["x"], extra={"k": ["v"]})

    spec = body["spec"]
    assert (spec["username"], spec["uid"]) == ("ann", "u-1")
    assert {"devs", "system:masters"} <= set(spec["groups"])
    assert "x" not in spec["groups"]
    assert spec["extra"] == {"team": ["a", "b"]}
    assert body["status"] == {}


async def test_a_request_is_approved_then_signed_and_nothing_is_taken_back(
    http: httpx.AsyncClient,
) -> None:
    body = await asked(http)

    decided = (await http.put(f"{PATH}/r/approval", json=approved(body))).json()
    issued = (await http.put(f"{PATH}/r/status", json=signed(decided))).json()
    undone = await http.put(f"{PATH}/r/approval", json={**issued, "status": {}})
    other = {**issued, "status": {**issued["status"], "certificate": CERTIFICATE[:-4] + "AAAA"}}
    changed = await http.put(f"{PATH}/r/status", json=other)

    [condition] = decided["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Approved", "True")
    assert re.fullmatch(TIME, condition["lastUpdateTime"])
    assert re.fullmatch(TIME, condition["lastTransitionTime"])
    assert issued["status"]["certificate"] == CERTIFICATE
    assert undone.status_code == 422
    text = 'status.conditions: Forbidden: updates may not remove a condition of type "Approved"'
    assert text in undone.json()["message"]
    assert changed.status_code == 422
    assert "updates may not modify existing certificate content" in changed.json()["message"]


async def test_each_path_writes_its_own_part_only(http: httpx.AsyncClient) -> None:
    body = await asked(http)

    plain = (await http.put(f"{PATH}/r", json=signed(approved(body)))).json()
    decided = (await http.put(f"{PATH}/r/approval", json=signed(approved(plain)))).json()
    sneaked = await http.put(f"{PATH}/r/status", json=approved(decided, "Denied"))

    assert plain["status"] == {}
    assert "certificate" not in decided["status"]
    assert sneaked.status_code == 422
    text = 'updates may not add a condition of type "Denied"'
    assert text in sneaked.json()["message"]


async def test_a_spec_never_changes(http: httpx.AsyncClient) -> None:
    await asked(http)

    patched = await http.patch(f"{PATH}/r", json={"spec": {"signerName": "e.io/x"}}, headers=MERGE)

    assert patched.status_code == 200
    assert patched.json()["spec"]["signerName"] == SIGNER


async def test_approved_and_denied_exclude_each_other(http: httpx.AsyncClient) -> None:
    body = await asked(http)

    answer = await http.put(f"{PATH}/r/approval", json=approved(approved(body), "Denied"))

    assert answer.status_code == 422
    assert "Approved and Denied conditions are mutually exclusive" in answer.json()["message"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"request": "aGVsbG8="}, "PEM block type must be CERTIFICATE REQUEST"),
        ({"usages": []}, "spec.usages: Required value"),
        ({"usages": ["fun"]}, 'spec.usages[0]: Unsupported value: "fun"'),
        ({"usages": ["any", "any"]}, 'spec.usages[1]: Duplicate value: "any"'),
        ({"signerName": ""}, "spec.signerName: Required value"),
        (
            {"signerName": "me"},
            (
                'spec.signerName: Invalid value: "me": must be a fully qualified domain and path '
                "of the form 'example.com/signer-name'"
            ),
        ),
        (
            {"signerName": "kubernetes.io/legacy-unknown"},
            "the legacy signerName is not allowed via this API version",
        ),
        (
            {"expirationSeconds": 5},
            "may not specify a duration less than 600 seconds (10 minutes)",
        ),
    ],
)
async def test_a_request_that_nobody_could_sign_is_refused(
    http: httpx.AsyncClient, spec: dict[str, Any], message: str
) -> None:
    answer = await http.post(PATH, json=request(**spec))

    assert answer.status_code == 422
    assert message in answer.json()["message"]


async def test_a_certificate_has_to_be_one(http: httpx.AsyncClient) -> None:
    body = await asked(http)
    bad = {**body, "status": {"certificate": base64.b64encode(b"paper").decode()}}

    answer = await http.put(f"{PATH}/r/status", json=bad)

    assert answer.status_code == 422
    assert "must contain at least one CERTIFICATE PEM block" in answer.json()["message"]


async def test_nobody_asks_to_become_an_administrator(http: httpx.AsyncClient) -> None:
    signer = "kubernetes.io/kube-apiserver-client"

    answer = await http.post(
        PATH, json=request(request=signing_request("system:masters"), signerName=signer)
    )

    assert answer.status_code == 403
    text = f"use of {signer} signer with system:masters group is not allowed"
    assert answer.json()["message"].endswith(text)


@pytest.mark.parametrize("signers", [[SIGNER], ["example.com/*"]])
async def test_approving_and_signing_take_a_right_to_the_signer(signers: list[str]) -> None:
    tokens = {"t": User("joe")}
    async with (
        ControlPlane.start(force_embedded=True, tokens=tokens) as plane,
        admin_client(plane) as admin,
        _as(plane, "t") as joe,
    ):
        body = await asked(admin)
        resources = [f"certificatesigningrequests/{one}" for one in ("approval", "status")]
        await _allow(admin, "a", {"verbs": ["update"], "resources": resources})
        refused = [
            await joe.put(f"{PATH}/r/approval", json=approved(body)),
            await joe.put(f"{PATH}/r/status", json=signed(body)),
        ]
        names = {"resourceNames": signers}
        await _allow(admin, "b", {"verbs": ["approve", "sign"], "resources": ["signers"], **names})
        decided = await joe.put(f"{PATH}/r/approval", json=approved(body))
        issued = await joe.put(f"{PATH}/r/status", json=signed(decided.json()))

    for answer, verb in zip(refused, ("approve", "sign"), strict=True):
        assert answer.status_code == 403
        assert answer.json()["message"] == (
            'certificatesigningrequests.certificates.k8s.io "r" is forbidden: '
            f'user not permitted to {verb} requests with signerName "{SIGNER}"'
        )
    assert (decided.status_code, issued.status_code) == (200, 200)


async def test_requests_are_selected_by_their_signer(http: httpx.AsyncClient) -> None:
    await asked(http)
    await http.post(PATH, json=request("s", signerName="example.com/you"))

    found = await http.get(PATH, params={"fieldSelector": "spec.signerName=example.com/you"})
    refused = await http.get(PATH, params={"fieldSelector": "spec.username=a"})

    assert [one["metadata"]["name"] for one in found.json()["items"]] == ["s"]
    assert refused.json()["message"] == "field label not supported: spec.username"


def test_the_sample_is_a_request_that_says_who_it_is_for() -> None:
    found = x509.load_pem_x509_csr(base64.b64decode(signing_request("g", name="n")))

    assert found.subject.rfc4514_string() == "O=g,CN=n"


@asynccontextmanager
async def _as(plane: Plane, token: str) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=plane.url, verify=plane.tls(), headers=headers) as http:
        yield http


async def _allow(admin: httpx.AsyncClient, name: str, rule: dict[str, Any]) -> None:
    """Let joe do something with requests everywhere."""
    rules = [{"apiGroups": ["certificates.k8s.io"], **rule}]
    made = await admin.post(f"{RBAC}/clusterroles", json=named(name, {"rules": rules}))
    binding = {
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": name,
        },
        "subjects": [{"kind": "User", "name": "joe"}],
    }
    bound = await admin.post(f"{RBAC}/clusterrolebindings", json=named(name, binding))
    assert (made.status_code, bound.status_code) == (201, 201)
