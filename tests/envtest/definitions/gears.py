"""A kind in two versions that differ in more than their name, and a webhook that converts it.

In v1 a gear has `spec.size` such as `3mm`; in v2 it has `spec.size.amount` and `spec.size.unit`.
"""

import base64
import json
import re
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from aiohttp import web

from envtest.certs import Authority

GROUP = "parts.example.com"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITION = f"{DEFINITIONS}/gears.{GROUP}"
V1 = f"/apis/{GROUP}/v1/namespaces/default/gears"
V2 = f"/apis/{GROUP}/v2/namespaces/default/gears"

_TEXT: dict[str, Any] = {"type": "string"}
_SIZES: dict[str, Any] = {
    "v1": _TEXT,
    "v2": {
        "type": "object",
        "properties": {"amount": {"type": "integer"}, "unit": {**_TEXT, "default": "mm"}},
    },
}


def crd(*, storage: str = "v1", conversion: dict[str, Any] | None = None) -> dict[str, Any]:
    """The definition of gears."""
    versions = [
        {
            "name": name,
            "served": True,
            "storage": name == storage,
            "subresources": {"status": {}},
            "selectableFields": [{"jsonPath": ".spec.maker"}],
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {
                            "type": "object",
                            "properties": {"size": size, "maker": _TEXT},
                        },
                        "status": {"type": "object", "properties": {"turns": {"type": "integer"}}},
                    },
                }
            },
        }
        for name, size in _SIZES.items()
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gears.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "gears", "kind": "Gear"},
            "versions": json.loads(json.dumps(versions)),
            "conversion": conversion or {"strategy": "None"},
        },
    }


def gear(name: str, size: Any = "3mm", version: str = "v1", **spec: Any) -> dict[str, Any]:
    """A gear."""
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "Gear",
        "metadata": {"name": name},
        "spec": {"size": size, **spec},
    }


def converted(body: dict[str, Any], version: str) -> dict[str, Any]:
    """A gear in the other version."""
    if "spec" not in body:
        # Who owns what is worked out with parts of objects, too.
        return {**body, "apiVersion": version}
    size = body["spec"].get("size")
    if isinstance(size, dict):
        size = f"{size['amount']}{size['unit']}"
    elif size is not None:
        found = re.fullmatch(r"(\d+)(\w+)", size)
        assert found is not None
        size = {"amount": int(found[1]), "unit": found[2]}
    spec = {**body["spec"], **({} if size is None else {"size": size})}
    return {**body, "apiVersion": version, "spec": spec}


Answer = Callable[[dict[str, Any]], dict[str, Any] | web.Response]


def success(review: dict[str, Any]) -> dict[str, Any]:
    """The answer of a webhook that can do it."""
    request = review["request"]
    wanted = request["desiredAPIVersion"]
    return answer(review, [converted(body, wanted) for body in request["objects"]])


def answer(review: dict[str, Any], objects: list[Any]) -> dict[str, Any]:
    """An answer that gives these objects for those that were sent."""
    response = {
        "uid": review["request"]["uid"],
        "result": {"status": "Success"},
        "convertedObjects": objects,
    }
    return {
        "apiVersion": review["apiVersion"],
        "kind": "ConversionReview",
        "response": response,
    }


class Converter:
    """A conversion webhook: keeps the reviews that it was sent; answers as it is told."""

    def __init__(self, authority: Authority) -> None:
        self.reviews: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.answer: Answer = success
        self.url = ""
        self._bundle = base64.b64encode(authority.pair.certificate).decode()

    @property
    def conversion(self) -> dict[str, Any]:
        """`spec.conversion` that leads here."""
        client = {"url": f"{self.url}/convert", "caBundle": self._bundle}
        webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
        return {"strategy": "Webhook", "webhook": webhook}

    def asked(self) -> list[tuple[str, list[str]]]:
        """What was asked since the last time: the wanted version and the objects' names."""
        found = [
            (
                review["request"]["desiredAPIVersion"].rpartition("/")[2],
                [body["metadata"]["name"] for body in review["request"]["objects"]],
            )
            for review in self.reviews
        ]
        self.reviews.clear()
        return found

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one review."""
        review = await request.json()
        self.reviews.append(review)
        self.paths.append(request.path_qs)
        said = self.answer(review)
        return said if isinstance(said, web.Response) else web.json_response(said)


@asynccontextmanager
async def converter() -> AsyncIterator[Converter]:
    """Run a conversion webhook."""
    authority = Authority.create()
    hook = Converter(authority)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with TemporaryDirectory() as folder:
        context.load_cert_chain(*authority.server("127.0.0.1").write(Path(folder), "hook"))
    app = web.Application()
    app.router.add_post("/{path:.*}", hook.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        hook.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
        yield hook
    finally:
        await runner.cleanup()
