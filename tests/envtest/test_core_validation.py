"""What namespaces are completed with, and what config maps and secrets are refused for."""

from typing import Any

import httpx
import pytest

CORE = "/api/v1/namespaces/default"


async def list_causes(http: httpx.AsyncClient, path: str, **parts: Any) -> list[str]:
    """Return the causes, each as field and message."""
    answer = await http.post(path, json={"metadata": {"name": "x"}, **parts})
    assert answer.status_code == 422, answer.text
    causes = answer.json()["details"]["causes"]
    return [f"{cause['field']}: {cause['message']}" for cause in causes]


async def test_a_namespace_with_a_generated_name_has_the_label_of_its_name(
    http: httpx.AsyncClient,
) -> None:
    answer = await http.post("/api/v1/namespaces", json={"metadata": {"generateName": "team-"}})
    metadata = answer.json()["metadata"]
    assert metadata["name"].startswith("team-")
    assert metadata["labels"] == {"kubernetes.io/metadata.name": metadata["name"]}


@pytest.mark.parametrize(
    ("parts", "causes"),
    [
        (
            {"data": {"..": "", "..a": ""}},
            [
                "data[..]: Invalid value: \"..\": must not be '..'",
                "data[..a]: Invalid value: \"..a\": must not start with '..'",
            ],
        ),
        (
            {"data": {"a": "1"}, "binaryData": {"a": "MQ=="}},
            [
                'data[a]: Invalid value: "a": duplicate of key present in binaryData',
                'binaryData[a]: Invalid value: "a": duplicate of key present in data',
            ],
        ),
        ({"data": {"a": "ä" * 524289}}, ["[]: Too long: may not be more than 1048576 bytes"]),
    ],
)
async def test_a_config_map_is_refused(
    http: httpx.AsyncClient, parts: dict[str, Any], causes: list[str]
) -> None:
    assert await list_causes(http, f"{CORE}/configmaps", **parts) == causes


async def test_a_config_map_may_hold_a_mebibyte_of_bytes(http: httpx.AsyncClient) -> None:
    full = {"binaryData": {"a": "A" * 1398100}, "metadata": {"name": "x"}}
    assert (await http.post(f"{CORE}/configmaps", json=full)).status_code == 201


@pytest.mark.parametrize(
    ("kind", "data", "causes"),
    [
        ("tls", {}, ["data[tls.crt]: Required value", "data[tls.key]: Required value"]),
        ("ssh-auth", {}, ["data[ssh-privatekey]: Required value"]),
        ("dockerconfigjson", {}, ["data[.dockerconfigjson]: Required value"]),
    ],
)
async def test_a_secret_needs_the_keys_of_its_type(
    http: httpx.AsyncClient, kind: str, data: dict[str, str], causes: list[str]
) -> None:
    error_messages = await list_causes(
        http, f"{CORE}/secrets", type=f"kubernetes.io/{kind}", stringData=data
    )
    assert error_messages == causes
