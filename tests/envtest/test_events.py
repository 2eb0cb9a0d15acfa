"""Events: what either of their two versions can be selected by."""

import httpx
import pytest

CORE = "/api/v1/namespaces/default/events"
NEW = "/apis/events.k8s.io/v1/namespaces/default/events"


@pytest.fixture
async def event(http: httpx.AsyncClient) -> None:
    """An event about a pod."""
    body = {
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Started",
        "action": "Start",
        "type": "Normal",
        "reportingController": "lab.example.com/c",
        "reportingInstance": "c-1",
        "eventTime": "2026-01-01T00:00:00.000000Z",
    }
    answer = await http.post(NEW, json=body)
    assert answer.status_code == 201, answer.text


@pytest.mark.usefixtures("event")
@pytest.mark.parametrize(
    ("path", "selector"),
    [
        (CORE, "involvedObject.name=p,involvedObject.kind=Pod"),
        (CORE, "reportingComponent=lab.example.com/c,reason=Started"),
        (NEW, "regarding.name=p,regarding.kind=Pod"),
        (NEW, "reportingController=lab.example.com/c,reason=Started"),
        (NEW, "metadata.name=e,type=Normal"),
    ],
)
async def test_each_version_selects_by_its_own_names(
    http: httpx.AsyncClient, path: str, selector: str
) -> None:
    response = await http.get(path, params={"fieldSelector": selector})
    others = await http.get(path, params={"fieldSelector": selector.replace("=", "!=", 1)})

    assert [event["metadata"]["name"] for event in response.json()["items"]] == ["e"]
    assert others.json()["items"] == []


@pytest.mark.parametrize(
    ("path", "field"),
    [
        (CORE, "regarding.name"),
        (CORE, "reportingController"),
        (NEW, "involvedObject.name"),
        (NEW, "reportingComponent"),
        (NEW, "regarding.nothing"),
        (NEW, "note"),
    ],
)
async def test_the_names_of_the_other_version_are_refused(
    http: httpx.AsyncClient, path: str, field: str
) -> None:
    answer = await http.get(path, params={"fieldSelector": f"{field}=x"})

    assert answer.status_code == 400
    assert f"field label not supported: {field}" in answer.json()["message"]
