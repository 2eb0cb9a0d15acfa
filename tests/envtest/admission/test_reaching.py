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
from tests.envtest.admission.hooks import Hook, serve_hook
from tests.envtest.admission.samples import build_configuration, entry

WIDGETS = "/apis/lab.example.com/v1/namespaces/lab/widgets?dryRun=All"
WIDGET = {
    "apiVersion": "lab.example.com/v1",
    "kind": "Widget",
    "metadata": {"name": "w"},
    "spec": {"cidr": "10.0.0.0/24"},
}


async def read_refusal_message(client: httpx.AsyncClient, stage: Stage, **where: Any) -> str:
    """Return the message that refuses a write whose webhook has the clientConfig `where`."""
    await stage.configure(build_configuration("Validating", entry("/v", clientConfig=where)))
    answer = await client.post(WIDGETS, json=WIDGET)
    assert answer.status_code == 500, answer.text
    return str(answer.json()["message"])


async def test_a_service_with_an_external_name_leads_to_the_hook(
    client: httpx.AsyncClient,
) -> None:
    async with serve_hook("hook.lab.svc", "127.0.0.1") as hook:
        spec = {"type": "ExternalName", "externalName": "localhost"}
        service = {"metadata": {"name": "hook"}, "spec": spec}
        await client.post("/api/v1/namespaces/lab/services", json=service)
        port = int(hook.url.rpartition(":")[2])
        reference = {"name": "hook", "namespace": "lab", "path": "/deep/down", "port": port}
        where = {"service": reference, "caBundle": "<ca>"}
        stage = Stage(client, hook)
        await stage.configure(build_configuration("Validating", entry("/v", clientConfig=where)))
        answer = await client.post(WIDGETS, json=WIDGET)

        assert answer.status_code == 201
        assert [asked_request["path"] for asked_request in hook.asked] == [
            "/deep/down?timeout=10s"
        ]


async def test_a_certificate_that_signs_itself_is_trusted_where_the_bundle_has_it(
    client: httpx.AsyncClient, stage: Stage
) -> None:
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    names = [x509.IPAddress(IPv4Address("127.0.0.1"))]
    async with serve_self_signed(now - day, now + day, names) as (url, bundle):
        refused = await read_refusal_message(client, stage, url=url, caBundle=bundle)

    # It was reached; it only has nothing to say.
    assert "failed to call webhook: " in refused
    assert "certificate" not in refused


@pytest.mark.skipif(
    read_settings().kind != "embedded", reason="only the embedded server bounds answers"
)
async def test_an_answer_without_end_is_cut_off(
    client: httpx.AsyncClient, stage: Stage, hook: Hook
) -> None:
    await stage.configure(build_configuration("Validating", entry("/v")))
    hook.replies = {"/v": {"text": "x" * (9 * 1024 * 1024), "type": "application/json"}}
    answer = await client.post(WIDGETS, json=WIDGET)

    assert answer.json()["message"].endswith("the answer is longer than 8388608 bytes")


@asynccontextmanager
async def serve_self_signed(
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
