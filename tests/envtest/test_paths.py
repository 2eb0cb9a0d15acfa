"""Paths: what is a route, what is a handler, and what is nothing at all."""

import httpx
import pytest

from tests.envtest.samples import GROUP, PATH

NOTHING = (404, "404 page not found\n")
NO_RESOURCE = (404, "the server could not find the requested resource")
NO_METHOD = (405, "the server does not allow this method on the requested resource")
KIND = {"apiVersion": f"{GROUP}/v1", "kind": "Gauge"}
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def read_refusal(answer: httpx.Response) -> tuple[int, str]:
    """Return the code and the text of a refusal, be it a Status or not."""
    if answer.headers["Content-Type"] == "application/json":
        return answer.status_code, answer.json()["message"]
    return answer.status_code, answer.text


@pytest.mark.parametrize(
    ("method", "path", "refusal"),
    [
        ("GET", "/healthz/", NOTHING),
        ("GET", "//api/v1/namespaces", NOTHING),
        # Kinds of real servers that are not served here.
        ("GET", "/apis/storage.k8s.io/v1", NOTHING),
        ("GET", "/apis/storage.k8s.io/v1/storageclasses", NOTHING),
        ("GET", "/api/v1/podtemplates", NO_RESOURCE),
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
        ("GET", f"{PATH}/%22", (404, f'gauges.{GROUP} "\\"" not found')),
    ],
)
async def test_an_unknown_path_is_not_found(
    http: httpx.AsyncClient, method: str, path: str, refusal: tuple[int, str]
) -> None:
    url = http.base_url.copy_with(raw_path=path.encode())

    assert read_refusal(await http.request(method, url)) == refusal


async def test_the_root_lists_the_paths(http: httpx.AsyncClient) -> None:
    paths = (await http.get("/")).json()["paths"]

    assert paths == sorted(paths)
    assert {"/api/v1", f"/apis/{GROUP}", f"/apis/{GROUP}/v1"} <= set(paths)


@pytest.mark.parametrize(("path", "accept"), [("/apis", AGGREGATED), ("/openapi/v3", "*/*")])
async def test_a_document_that_the_client_has_is_not_sent_again(
    http: httpx.AsyncClient, path: str, accept: str
) -> None:
    first = await http.get(path, headers={"Accept": accept})
    tag = first.headers["ETag"]

    again = await http.get(path, headers={"Accept": accept, "If-None-Match": tag})

    assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", tag)
