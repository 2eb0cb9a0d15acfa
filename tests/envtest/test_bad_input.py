"""Requests that make no sense get the real server's answer, and the next request is served."""

import asyncio
import gzip
import json
from typing import Any

import httpx
import pytest
from anyio import to_thread
from hypothesis import given, settings
from hypothesis import strategies as st

from envtest.schema import read_yaml
from tests.envtest.samples import PATH, build_gauge

MAPS = "/api/v1/namespaces/default/configmaps"
JSON = "application/json"


async def send(
    http: httpx.AsyncClient, data: bytes, kind: str = JSON, path: str = MAPS, method: str = "POST"
) -> tuple[int, str]:
    answer = await http.request(method, path, content=data, headers={"Content-Type": kind})
    assert (await http.get("/readyz")).text == "ok"
    body: Any = answer.json()
    return answer.status_code, body.get("message", "")


@pytest.mark.parametrize(
    ("data", "kind", "code", "part"),
    [
        (b'{"metadata":{"name":"x"', JSON, 400, "Expecting ',' delimiter"),
        (b"", JSON, 400, "Expecting value"),
        (b'{"metadata":' + b'{"a":' * 100_000, JSON, 400, "exceeded max depth"),
        (b"[" * 100_000, JSON, 400, "exceeded max depth"),
        (b'{"metadata":{"name":"\xff"}}', JSON, 422, "RFC 1123 subdomain"),
        (b'{"metadata":{"name":"n","generation":99999999999999999999}}', JSON, 400, "int64"),
        (b"a: [", "application/yaml", 400, "yaml: "),
        (b"a: !!bool x", "application/yaml", 400, "yaml: "),
        (b"a: !!timestamp x", "application/yaml", 400, "yaml: "),
        (rb'a: "\UFFFFFFFF"', "application/yaml", 400, "yaml: "),
        (b"&a [*a]", "application/yaml", 400, "yaml: "),
        (b"k8s\x00\xff\xff\xff", "application/vnd.kubernetes.protobuf", 400, "unexpected end"),
        (b"nothing of the kind", "application/vnd.kubernetes.protobuf", 400, "protobuf"),
        (b"x", "text/plain", 415, "accepted media types include"),
    ],
)
async def test_a_body_that_is_no_object_is_refused(
    http: httpx.AsyncClient, data: bytes, kind: str, code: int, part: str
) -> None:
    status, message = await send(http, data, kind)

    assert status == code
    assert part in message


async def test_a_body_of_twenty_mebibytes_is_too_large(http: httpx.AsyncClient) -> None:
    data = b'{"metadata":{"name":"big"},"data":{"a":"' + b"x" * (20 << 20) + b'"}}'

    assert await send(http, data) == (413, "Request entity too large: limit is 3145728")


async def test_a_body_without_a_length_is_cut_off_at_the_limit(http: httpx.AsyncClient) -> None:
    async def endless() -> Any:
        for _ in range(5):
            yield b"x" * (1 << 20)

    answer = await http.post(MAPS, content=endless(), headers={"Content-Type": JSON})

    assert answer.status_code == 413


async def test_a_config_map_above_a_mebibyte_is_invalid(http: httpx.AsyncClient) -> None:
    data = b'{"metadata":{"name":"big"},"data":{"a":"' + b"x" * (2 << 20) + b'"}}'

    code, message = await send(http, data)

    assert (code, message) == (
        422,
        'ConfigMap "big" is invalid: []: Too long: may not be more than 1048576 bytes',
    )


async def test_numbers_in_queries_are_read_as_go_reads_them(http: httpx.AsyncClient) -> None:
    for number_text in ("abc", "9" * 5000, "1.5"):
        answer = await http.get(MAPS, params={"limit": number_text})
        assert answer.status_code == 400
        assert answer.json()["message"].startswith("strconv.ParseInt: parsing ")


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"{", "Expecting property name"),
        (b'{"gracePeriodSeconds":"x"}', "cannot unmarshal string"),
        (b'{"preconditions":{"uid":1}}', "cannot unmarshal number"),
        (b'{"dryRun":"All"}', "cannot unmarshal string"),
        (b'{"kind":"ConfigMap"}', "ConfigMap cannot be handled as a DeleteOptions"),
        (b" ", "couldn't get version/kind; json parse error: Expecting value"),
        (b'{"propagationPolicy":1}', "cannot unmarshal number"),
    ],
)
async def test_options_of_a_deletion_that_make_no_sense_delete_nothing(
    http: httpx.AsyncClient, data: bytes, part: str
) -> None:
    await http.post(MAPS, json={"metadata": {"name": "a"}})

    code, message = await send(http, data, path=f"{MAPS}/a", method="DELETE")

    assert (code, part in message) == (400, True)
    assert (await http.get(f"{MAPS}/a")).status_code == 200
    by_query = await http.delete(f"{MAPS}/a", params={"propagationPolicy": "x"})
    assert by_query.status_code == 422


@pytest.mark.parametrize("kind", ["a/b;", "text/plain"])
async def test_a_content_type_that_is_none_is_not_guessed(
    http: httpx.AsyncClient, kind: str
) -> None:
    code, _ = await send(http, b'{"metadata":{"name":"a"}}', kind)

    assert code == 415


@pytest.mark.parametrize(
    "kind", [JSON, "application/json; charset=utf-8", 'application/json;a="b";']
)
async def test_parameters_of_a_content_type_are_passed_over(
    http: httpx.AsyncClient, kind: str
) -> None:
    answer = await http.post(
        MAPS, content=b'{"metadata":{"name":"a"}}', headers={"Content-Type": kind}
    )

    assert answer.status_code == 201


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br"])
async def test_a_body_is_what_was_sent_whatever_it_is_called(
    http: httpx.AsyncClient, encoding: str
) -> None:
    small = gzip.compress(b'{"metadata":{"name":"a"}}' + b" " * (64 << 20))
    headers = {"Content-Type": JSON, "Content-Encoding": encoding}
    packed = await http.post(MAPS, content=small, headers=headers)
    plain = await http.post(MAPS, content=b'{"metadata":{"name":"a"}}', headers=headers)

    assert (packed.status_code, plain.status_code) == (400, 201)
    assert "Expecting value" in packed.json()["message"]


async def test_percent_signs_without_digits_are_refused_in_paths_and_left_out_of_queries(
    http: httpx.AsyncClient,
) -> None:
    path = await http.get(httpx.URL("/api/v1/x").copy_with(raw_path=b"/api/v1/%zz"))
    query = b"/api/v1/namespaces?labelSelector=%zz&limit=1&a;b=1&labelSelector=x"
    listed = await http.get(httpx.URL("/").copy_with(raw_path=query))

    assert (path.status_code, path.text) == (400, "400 Bad Request")
    assert listed.json()["items"] == []


@pytest.mark.parametrize("content", ["[" * 100_000, "a: {" * 5_000, "- " * 50_000 + "a"])
async def test_deep_yaml_is_refused_at_once(http: httpx.AsyncClient, content: str) -> None:
    code, message = await send(http, content.encode(), "application/yaml")

    assert (code, "exceeded max depth" in message) == (400, True)


@pytest.mark.parametrize("body", [b"a: [", b"a: b: c", b"a: \xff", b"a: *x", b"&a [*a]"])
async def test_a_body_that_is_no_yaml_is_refused_with_the_place_of_the_error(
    http: httpx.AsyncClient, body: bytes
) -> None:
    code, message = await send(http, body, "application/yaml")

    assert (code, "yaml: " in message) == (400, True)


def test_yaml_is_read_as_json_would_be() -> None:
    body = b"a: 2020-01-01\n1: on\nb: &x {c: [1, 2.5, null, y, z]}\nd: *x\n---\nnext: document"

    value, complaints = read_yaml(body)

    inner = {"c": [1, 2.5, None, True, "z"]}
    assert value == {"a": "2020-01-01", "1": True, "b": inner, "d": inner}
    assert complaints == []


async def test_what_is_no_protobuf_says_what_it_would_begin_with(http: httpx.AsyncClient) -> None:
    code, message = await send(http, b"{}", "application/vnd.kubernetes.protobuf")

    assert code == 400
    assert message == (
        "the object provided is unrecognized (must be of type ConfigMap): provided data does not "
        "appear to be a protobuf message, expected prefix [107 56 115 0] ({})"
    )


async def test_long_lines_and_many_headers_are_taken(http: httpx.AsyncClient) -> None:
    long = await http.get("/" + "a" * 9000)
    headers = {f"X-{number}": "y" * 900 for number in range(100)}
    many = await http.get(MAPS, headers=headers)

    assert (long.status_code, many.status_code) == (404, 200)


async def test_a_patch_that_is_no_patch_is_refused(http: httpx.AsyncClient) -> None:
    await http.post(PATH, json=build_gauge("a"))
    for kind in ("json-patch", "merge-patch"):
        code, _ = await send(
            http, b'{"spec"', kind=f"application/{kind}+json", path=f"{PATH}/a", method="PATCH"
        )
        assert code == 400
    code, _ = await send(
        http, b'"text"', kind="application/merge-patch+json", path=f"{PATH}/a", method="PATCH"
    )
    assert code == 400
    code, _ = await send(
        http,
        b"a: [",
        kind="application/apply-patch+yaml",
        path=f"{PATH}/a?fieldManager=x",
        method="PATCH",
    )
    assert code == 400


async def test_a_method_that_nothing_has_is_refused(http: httpx.AsyncClient) -> None:
    codes = [
        (await http.request(method, path)).status_code
        for method, path in (
            ("PUT", MAPS),
            ("POST", f"{MAPS}/a"),
            ("OPTIONS", PATH),
            ("OPTIONS", MAPS),
            ("DELETE", "/api/v1/namespaces"),
        )
    ]

    assert codes == [405] * 5


METHODS = st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE"])
PLACES = st.sampled_from(
    [MAPS, f"{MAPS}/a", PATH, f"{PATH}/a", f"{PATH}/a/status", f"{PATH}/a/scale", "/api/v1/x"]
)
KINDS = st.sampled_from(
    [
        JSON,
        "application/yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
        "application/vnd.kubernetes.protobuf",
        "",
    ]
)
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5))
NAMES = st.sampled_from(["metadata", "name", "spec", "count", "labels", "finalizers", "data", "x"])
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
BODIES = st.one_of(
    st.binary(max_size=60),
    VALUES.map(lambda value: json.dumps(value).encode()),
    VALUES.map(lambda value: b"k8s\x00" + json.dumps(value).encode()),
)
QUERIES = st.dictionaries(
    st.sampled_from(
        [
            "limit",
            "continue",
            "resourceVersion",
            "fieldManager",
            "force",
            "dryRun",
            "labelSelector",
        ]
    ),
    st.text(alphabet="a0=!,()All", max_size=4),
    max_size=3,
)


@pytest.mark.slow
async def test_no_request_makes_the_server_fail(http: httpx.AsyncClient) -> None:
    """Hypothesis makes the requests, so that what fails is shrunk."""
    await http.post(PATH, json=build_gauge("a"))
    await http.post(MAPS, json={"metadata": {"name": "a"}})
    requests = st.tuples(METHODS, PLACES, KINDS, BODIES, QUERIES)
    runner = asyncio.get_running_loop()

    @settings(max_examples=150, deadline=None)
    @given(requests)
    def fire(request: tuple[str, str, str, bytes, dict[str, str]]) -> None:
        method, path, kind, data, query = request
        sent = http.request(
            method, path, params=query, content=data, headers={"Content-Type": kind}
        )
        answer = asyncio.run_coroutine_threadsafe(sent, runner).result(10)
        reported = (
            answer.status_code < 500 or answer.json().get("message") != "Internal error occurred"
        )
        assert reported, (answer.status_code, answer.text)

    await to_thread.run_sync(fire)
    assert (await http.get("/readyz")).text == "ok"
