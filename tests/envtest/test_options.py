"""Options of lists, watches, writes and deletions: what goes together, and what is refused."""

import base64
import json
from typing import Any

import httpx
import pytest

from tests.envtest.samples import PATH

MAPS = "/api/v1/namespaces/default/configmaps"
KIND = {"apiVersion": "lab.example.com/v1", "kind": "Gauge"}
TOKEN_VERSION = "meta.k8s.io/v1"  # of continue tokens


async def create_maps(http: httpx.AsyncClient, *names: str, **meta: Any) -> None:
    for name in names:
        done = await http.post(MAPS, json={"metadata": {"name": name, **meta}})
        assert done.status_code == 201, done.text


def list_names(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [item["metadata"]["name"] for item in answer.json()["items"]]


def encode_token(**content: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ("limit=", 400, 'strconv.ParseInt: parsing "": invalid syntax'),
        ("timeoutSeconds=x&limit=y", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("labelSelector===&limit=y", 400, 'strconv.ParseInt: parsing "y": invalid syntax'),
        (
            "fieldSelector=spec.b=1,spec.a=1",
            400,
            '"spec.a" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        (
            "watch=1&resourceVersion=x&fieldSelector=nope=1",
            400,
            '"nope" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        (
            "watch=1&resourceVersion=1&resourceVersionMatch=Exact",
            422,
            (
                'ListOptions.meta.k8s.io "" is invalid: [resourceVersionMatch: Forbidden: '
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is "
                'provided, resourceVersionMatch: Unsupported value: "Exact": supported values: '
                '"NotOlderThan"]'
            ),
        ),
        (
            "watch=1&continue=x",
            422,
            (
                'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: '
                "resourceVersionMatch is forbidden when continue is provided"
            ),
        ),
        (
            f"resourceVersion=1&continue={encode_token(v=TOKEN_VERSION, rv=1, start='a')}",
            400,
            "specifying resource version is not allowed when using continue",
        ),
    ],
)
async def test_options_of_a_list_that_make_no_sense_are_refused(
    http: httpx.AsyncClient, query: str, code: int, message: str
) -> None:
    answer = await http.get(f"{MAPS}?{query}")

    assert (answer.status_code, answer.json()["message"]) == (code, message)


@pytest.mark.parametrize(
    "option_value",
    [
        "x",
        encode_token(v="v2", rv=1, start="a"),
        encode_token(v=TOKEN_VERSION, start="a"),
        encode_token(v=TOKEN_VERSION, rv=1),
        encode_token(v=TOKEN_VERSION, rv=1.5, start="a"),
    ],
)
async def test_a_continue_token_that_is_none_is_refused(
    http: httpx.AsyncClient, option_value: str
) -> None:
    answer = await http.get(MAPS, params={"continue": option_value})

    assert answer.status_code == 400
    assert answer.json()["message"].startswith("continue key is not valid: ")


async def test_a_resource_version_of_a_get_that_is_none_is_a_fault(
    http: httpx.AsyncClient,
) -> None:
    answer = await http.get(f"{MAPS}/a", params={"resourceVersion": "abc"})

    assert (answer.status_code, answer.json()["message"]) == (
        500,
        'resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax',
    )


async def test_a_page_of_a_selection_ends_where_it_is_full(http: httpx.AsyncClient) -> None:
    await create_maps(http, "a", "c", labels={"tier": "gold"})
    await create_maps(http, "b", "d")

    first = await http.get(MAPS, params={"labelSelector": "tier", "limit": "2"})
    meta = first.json()["metadata"]
    rest = await http.get(
        MAPS, params={"labelSelector": "tier", "limit": "2", "continue": meta["continue"]}
    )

    assert (list_names(first), "remainingItemCount" in meta) == (["a", "c"], False)
    # Whether anything of what was left belongs to the selection was not known before.
    assert (list_names(rest), "continue" in rest.json()["metadata"]) == ([], False)


async def test_a_list_at_resource_version_0_ignores_the_limit(http: httpx.AsyncClient) -> None:
    await create_maps(http, "a", "b", "c")

    assert list_names(await http.get(MAPS, params={"resourceVersion": "0", "limit": "1"})) == [
        "a",
        "b",
        "c",
    ]


async def test_a_page_of_a_revision_is_of_that_revision(http: httpx.AsyncClient) -> None:
    await create_maps(http, "a", "b")
    before = (await http.get(MAPS)).json()["metadata"]["resourceVersion"]
    await create_maps(http, "aa")

    page = await http.get(MAPS, params={"resourceVersion": before, "limit": "10"})

    assert list_names(page) == ["a", "b"]
    assert page.json()["metadata"]["resourceVersion"] == before


async def test_a_continue_token_has_the_revision_and_the_next_key(http: httpx.AsyncClient) -> None:
    await create_maps(http, "a", "b")

    meta = (await http.get(MAPS, params={"limit": "1"})).json()["metadata"]

    assert base64.urlsafe_b64decode(meta["continue"] + "==").decode() == (
        f'{{"v":"meta.k8s.io/v1","rv":{meta["resourceVersion"]},"start":"a\\u0000"}}'
    )


@pytest.mark.parametrize("version", [{}, {"resourceVersion": "0"}])
async def test_a_bookmark_marks_the_end_of_the_initial_events(
    http: httpx.AsyncClient, version: dict[str, str]
) -> None:
    await http.post(PATH, json={"metadata": {"name": "a"}, **KIND})
    query = {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": "1", **version}

    answer = await http.get(PATH, params=query)

    events = [json.loads(line) for line in answer.text.splitlines()]
    assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"]
    assert events[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "dryRun=x&fieldValidation=y&fieldManager=a%01%0A",
            (
                '[fieldManager: Invalid value: "a\\u0001\\n": invalid character U+0001 (at '
                'position 1), fieldManager: Invalid value: "a\\u0001\\n": invalid character '
                'U+000A (at position 2), dryRun: Unsupported value: ["x"]: supported values: '
                '"All", fieldValidation: Unsupported value: "y": supported values: "", "Ignore", '
                '"Strict", "Warn"]'
            ),
        ),
        (
            f"fieldManager={'%C3%A9' * 65}",
            "fieldManager: Too long: may not be more than 128 bytes",
        ),
    ],
)
async def test_options_of_a_write_are_judged_in_order(
    http: httpx.AsyncClient, query: str, message: str
) -> None:
    answer = await http.post(f"{MAPS}?{query}", json={"metadata": {"name": "a"}})

    assert (answer.status_code, answer.json()["message"]) == (
        422,
        f'CreateOptions.meta.k8s.io "" is invalid: {message}',
    )


async def test_deleting_again_in_the_same_way_changes_nothing(http: httpx.AsyncClient) -> None:
    await create_maps(http, "a", finalizers=["foregroundDeletion", "example.com/x"])
    query = {"propagationPolicy": "Foreground"}

    first = (await http.delete(f"{MAPS}/a", params=query)).json()["metadata"]
    again = (await http.delete(f"{MAPS}/a", params=query)).json()["metadata"]

    assert first["finalizers"] == ["foregroundDeletion", "example.com/x"]
    assert again["resourceVersion"] == first["resourceVersion"]


async def test_a_collection_may_be_deleted_by_the_page(http: httpx.AsyncClient) -> None:
    await create_maps(http, "a", "b", "c")

    gone = await http.delete(MAPS, params={"limit": "2"})

    assert list_names(gone) == ["a", "b"]
    assert gone.json()["metadata"]["remainingItemCount"] == 1
    assert "c" in list_names(await http.get(MAPS))


META = "application/json;as={};v=v1;g=meta.k8s.io"


@pytest.mark.parametrize("include", ["None", "Metadata"])
async def test_a_bookmark_of_a_table_is_a_row_with_its_mark(
    http: httpx.AsyncClient, include: str
) -> None:
    query = {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": "1"}

    answer = await http.get(
        PATH, params={**query, "includeObject": include}, headers={"Accept": META.format("Table")}
    )

    table = answer.json()["object"]
    assert (answer.json()["type"], table["kind"], len(table["rows"])) == ("BOOKMARK", "Table", 1)
    assert table["rows"][0]["object"]["metadata"]["annotations"] == {
        "k8s.io/initial-events-end": "true"
    }


async def test_an_object_in_no_namespace_may_say_that_it_is_in_one(
    http: httpx.AsyncClient,
) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    role = {"metadata": {"name": "a", "namespace": "elsewhere"}}

    response = await http.post(roles, json=role)
    put = await http.put(f"{roles}/a", json={**role, "rules": []})
    patched = await http.patch(
        f"{roles}/a", json=role, headers={"Content-Type": "application/merge-patch+json"}
    )

    assert [response.status_code, put.status_code, patched.status_code] == [201, 200, 200]
    assert all(
        "namespace" not in response.json()["metadata"] for response in (response, put, patched)
    )


async def test_a_wrong_namespace_is_reported_before_a_wrong_name(http: httpx.AsyncClient) -> None:
    await create_maps(http, "a")

    answer = await http.put(f"{MAPS}/a", json={"metadata": {"name": "b", "namespace": "other"}})

    assert (answer.status_code, answer.json()["message"]) == (
        400,
        "the namespace of the provided object does not match the namespace sent on the request",
    )
