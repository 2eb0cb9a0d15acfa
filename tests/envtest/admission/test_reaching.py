"""Ways to a webhook: services, certificates, servers that are no webhooks."""

import base64
import datetime
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from ipaddress import IPv4Address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from envtest.settings import read_settings
from tests.envtest.admission.exchange import Stage
from tests.envtest.admission.hooks import Hook, hook_server
from tests.envtest.admission.samples import configuration, entry

WIDGETS = "/apis/lab.example.com/v1/namespaces/lab/widgets?dryRun=All"
WIDGET = {
    "apiVersion": "lab.example.com/v1",
    "kind": "Widget",
    "metadata": {"name": "w"},
    "spec": {"cidr": "10.0.0.0/24"},
}


async def message(client: httpx.AsyncClient, stage: Stage, **where: Any) -> str:
    """Return how a write is refused whose webhook is there."""
    await stage.configure(configuration("Validating", entry("/v", clientConfig=where)))
    answer = await client.post(WIDGETS, json=WIDGET)
    assert answer.status_code == 500, answer.text
    return str(answer.json()["message"])


async def test_a_service_with_an_external_name_leads_to_the_hook(
    client: httpx.AsyncClient,
) -> None:
    async with hook_server("hook.lab.svc", "127.0.0.1") as hook:
        spec = {"type": "ExternalName", "externalName": "localhost"}
        service = {"metadata": {"name": "hook"}, "spec": spec}
        await client.post("/api/v1/namespaces/lab/services", json=service)
        port = int(hook.url.rpartition(":")[2])
        reference = {"name": "hook", "namespace": "lab", "path": "/deep/down", "port": port}
        where = {"service": reference, "caBundle": "<ca>"}
        stage = Stage(client, hook)
        await stage.configure(configuration("Validating", entry("/v", clientConfig=where)))
        answer = await client.post(WIDGETS, json=WIDGET)

        assert answer.status_code == 201
        assert [one["path"] for one in hook.asked] == ["/deep/down?timeout=10s"]


async def test_a_certificate_for_other_names_is_refused_by_what_it_is_for(
    client: httpx.AsyncClient,
) -> None:
    async with hook_server("a.example.com", "b.example.com", "127.0.0.1") as hook:
        url = hook.url.replace("127.0.0.1", "localhost")
        stage = Stage(client, hook)
        refused = await message(client, stage, url=f"{url}/v", caBundle=hook.ca_bundle)

    assert refused.endswith(
        "x509: certificate is valid for a.example.com, b.example.com, not localhost"
    )


async def test_a_certificate_for_no_address_is_refused_where_one_is_dialled(
    client: httpx.AsyncClient, stage: Stage
) -> None:
    now = datetime.datetime.now(datetime.UTC)
    year = datetime.timedelta(days=365)
    async with strange_server(now - year, now + year, []) as (url, bundle):
        refused = await message(client, stage, url=url, caBundle=bundle)

    assert refused.endswith(
        "x509: cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs"
    )


@pytest.mark.parametrize(("start", "end", "word"), [(-2, -1, "after"), (1, 2, "before")])
async def test_a_certificate_that_is_out_of_date_is_refused_with_the_date(
    client: httpx.AsyncClient, stage: Stage, start: int, end: int, word: str
) -> None:
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    bounds = (now + datetime.timedelta(days=start), now + datetime.timedelta(days=end))
    names = [x509.IPAddress(IPv4Address("127.0.0.1"))]
    async with strange_server(*bounds, names) as (url, bundle):
        refused = await message(client, stage, url=url, caBundle=bundle)

    bound = bounds[1] if word == "after" else bounds[0]
    assert "x509: certificate has expired or is not yet valid: current time " in refused
    assert refused.endswith(f" is {word} {bound:%Y-%m-%dT%H:%M:%SZ}")


async def test_a_certificate_that_signs_itself_is_trusted_where_the_bundle_has_it(
    client: httpx.AsyncClient, stage: Stage
) -> None:
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    names = [x509.IPAddress(IPv4Address("127.0.0.1"))]
    async with strange_server(now - day, now + day, names) as (url, bundle):
        refused = await message(client, stage, url=url, caBundle=bundle)

    # It was reached; it only has nothing to say.
    assert refused.endswith(
        "failed to call webhook: the server could not find the requested resource"
    )


async def test_a_server_without_tls_is_told_apart(
    client: httpx.AsyncClient, stage: Stage, hook: Hook
) -> None:
    runner = web.AppRunner(web.Application())
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"https://127.0.0.1:{runner.addresses[0][1]}/v"
        refused = await message(client, stage, url=url, caBundle=hook.ca_bundle)
    finally:
        await runner.cleanup()

    assert refused.endswith("http: server gave HTTP response to HTTPS client")


@pytest.mark.skipif(
    read_settings().kind != "embedded", reason="only the embedded server bounds answers"
)
async def test_an_answer_without_end_is_cut_off(
    client: httpx.AsyncClient, stage: Stage, hook: Hook
) -> None:
    await stage.configure(configuration("Validating", entry("/v")))
    hook.replies = {"/v": {"text": "x" * (9 * 1024 * 1024), "type": "application/json"}}
    answer = await client.post(WIDGETS, json=WIDGET)

    assert answer.json()["message"].endswith("the answer is longer than 8388608 bytes")


@asynccontextmanager
async def strange_server(
    start: datetime.datetime, end: datetime.datetime, names: Sequence[x509.GeneralName]
) -> AsyncIterator[tuple[str, str]]:
    """Run a server with a self-signed certificate; yield a URL of it and the caBundle."""
    key = ec.generate_private_key(ec.SECP256R1())
    called = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "strange")])
    builder = x509.CertificateBuilder().subject_name(called).issuer_name(called)
    builder = builder.public_key(key.public_key()).serial_number(1)
    builder = builder.not_valid_before(start).not_valid_after(end)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "both.pem"
        secret = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        path.write_bytes(certificate + secret)
        context.load_cert_chain(path)
    runner = web.AppRunner(web.Application())
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        url = f"https://127.0.0.1:{runner.addresses[0][1]}/v"
        yield url, base64.b64encode(certificate).decode()
    finally:
        await runner.cleanup()
