"""Paths: what is a route, what is a handler, and what is nothing at all."""

import gzip
import json

import httpx
import pytest

from tests.envtest.samples import GROUP, PATH

NOTHING = (404, "404 page not found\n")
NO_RESOURCE = (404, "the server could not find the requested resource")
NO_METHOD = (405, "the server does not allow this method on the requested resource")
KIND = {"apiVersion": f"{GROUP}/v1", "kind": "Gauge"}
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def told(answer: httpx.Response) -> tuple[int, str]:
    """Return the code and the text of a refusal, be it a Status or not."""
    if answer.headers["Content-Type"] == "application/json":
        return answer.status_code, answer.json()["message"]
    return answer.status_code, answer.text


@pytest.mark.parametrize(
    ("method", "path", "refusal"),
    [
        ("GET", "/healthz/", NOTHING),
        ("GET", "/openapi/v2/", NOTHING),
        ("GET", "//api/v1/namespaces", NOTHING),
        ("GET", "//version", NOTHING),
        ("POST", "/version", NO_METHOD),
        ("POST", "/api", NO_METHOD),
        ("DELETE", "/apis/apps/v1", NO_METHOD),
        # Custom resources are looked for only where they can be.
        ("GET", f"/apis/{GROUP}/v1/gauges/a", NOTHING),
        ("POST", f"/apis/{GROUP}/v1/gauges", NOTHING),
        ("DELETE", f"/apis/{GROUP}/v1/gauges", NOTHING),
        ("PUT", PATH, (400, "name must be provided")),
        (
            "OPTIONS",
            PATH,
            (405, f' is not supported on resources of kind "gauges.{GROUP}"'),
        ),
        ("GET", "/api/v1/configmaps/a", NO_RESOURCE),
        ("DELETE", "/api/v1/configmaps", NO_METHOD),
        ("POST", "/api/v1/configmaps", NO_METHOD),
        ("GET", "/api/v1/namespaces/default/nodes", NO_RESOURCE),
        ("GET", "/api/v1/namespaces/default/namespaces", NO_RESOURCE),
        ("GET", f"{PATH}/a%25b", (400, "Name parameter invalid: \"a%b\": may not contain '%'")),
        ("DELETE", f"{PATH}/%2e%2e", (400, "Name parameter invalid: \"..\": may not be '..'")),
        ("GET", f"{PATH}/%22", (404, f'gauges.{GROUP} "\\"" not found')),
    ],
)
async def test_where_nothing_is_nothing_is_found(
    http: httpx.AsyncClient, method: str, path: str, refusal: tuple[int, str]
) -> None:
    url = http.base_url.copy_with(raw_path=path.encode())

    assert told(await http.request(method, url)) == refusal


@pytest.mark.parametrize("path", ["/apis", f"/apis/{GROUP}", f"/apis/{GROUP}/v1", "/openapi/v3"])
async def test_a_handler_does_not_look_at_the_method(http: httpx.AsyncClient, path: str) -> None:
    assert (await http.post(path)).json() == (await http.get(path)).json()


async def test_the_root_lists_the_paths(http: httpx.AsyncClient) -> None:
    paths = (await http.get("/")).json()["paths"]

    assert paths == sorted(paths)
    assert {"/api/v1", f"/apis/{GROUP}", f"/apis/{GROUP}/v1", "/readyz/ping"} <= set(paths)


async def test_a_probe_leaves_out_what_is_excluded(http: httpx.AsyncClient) -> None:
    answer = await http.get("/readyz?verbose&exclude=etcd&exclude=nope&exclude=more")

    assert "[+]etcd excluded: ok\n" in answer.text
    assert answer.text.endswith(
        'warn: some health checks cannot be excluded: no matches for "more","nope"\n'
        "readyz check passed\n"
    )
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    ("path", "accept"), [("/apis", AGGREGATED), ("/openapi/v2", "*/*"), ("/openapi/v3", "*/*")]
)
async def test_who_has_a_document_already_is_told_so(
    http: httpx.AsyncClient, path: str, accept: str
) -> None:
    first = await http.get(path, headers={"Accept": accept})
    tag = first.headers["ETag"]

    again = await http.get(path, headers={"Accept": accept, "If-None-Match": tag})

    assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", tag)


async def test_a_document_of_a_hash_never_changes(http: httpx.AsyncClient) -> None:
    index = (await http.get("/openapi/v3")).json()["paths"]
    place = index[f"apis/{GROUP}/v1"]["serverRelativeURL"]

    there = await http.get(place)
    moved = await http.get(f"/openapi/v3/apis/{GROUP}/v1?hash=0")

    assert there.headers["Cache-Control"] == "public, immutable"
    assert (moved.status_code, moved.headers["Location"]) == (301, place)


async def test_a_large_list_is_compressed_for_who_takes_that(http: httpx.AsyncClient) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    await http.post(path, json={"metadata": {"name": "a"}, "data": {"x": "y" * 140_000}})

    plain = await http.get(path, headers={"Accept-Encoding": "identity"})
    async with http.stream("GET", path, headers={"Accept-Encoding": "br, gzip"}) as small:
        data = b"".join([part async for part in small.aiter_raw()])

    assert "Content-Encoding" not in plain.headers
    assert (small.headers["Content-Encoding"], small.headers["Vary"]) == (
        "gzip",
        "Accept-Encoding",
    )
    assert json.loads(gzip.decompress(data)) == plain.json()


async def test_metrics_tell_how_much_is_stored(http: httpx.AsyncClient) -> None:
    for name in ("a", "b"):
        await http.post(PATH, json={**KIND, "metadata": {"name": name}})

    answer = await http.get("/metrics")

    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert f'apiserver_resource_objects{{group="{GROUP}",resource="gauges"}} 2\n' in answer.text
