"""Definitions under which objects may have fields of any type, as after an edit by a person."""

import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.polling import until

PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@asynccontextmanager
async def loosen_field(admin: httpx.AsyncClient, name: str, field: str) -> AsyncIterator[None]:
    """Let a field of a kind's spec be of any type while the context lasts.

    Args:
        admin: the administrator's client.
        name: of the definition.
        field: of spec.
    """
    before = (await admin.get(f"{PATH}/{name}")).json()["spec"]["versions"]
    loose = copy.deepcopy(before)
    for version in loose:
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        spec["properties"][field] = {"x-kubernetes-preserve-unknown-fields": True}
    await _define(admin, name, loose)
    try:
        yield
    finally:
        await _define(admin, name, before)


async def create_loosely(admin: httpx.AsyncClient, path: str, body: dict[str, Any]) -> None:
    """Create an object once its kind's definition, which was changed just now, lets it be."""

    async def post() -> int:
        return (await admin.post(path, json=body)).status_code

    await until(post, lambda status: status == 201)


async def _define(admin: httpx.AsyncClient, name: str, versions: Any) -> None:
    headers = {"Content-Type": "application/merge-patch+json"}
    patch = {"spec": {"versions": versions}}
    answer = await admin.patch(f"{PATH}/{name}", json=patch, headers=headers)
    assert answer.status_code == 200, answer.text
