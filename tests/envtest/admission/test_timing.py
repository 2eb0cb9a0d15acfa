"""What happens at the same time: configurations that change, hooks, other writers."""

import anyio
import httpx
import pytest

from tests.envtest.admission.exchange import Body, Stage
from tests.envtest.admission.hooks import Hook, deny
from tests.envtest.admission.samples import CONFIGMAPS, build_configuration, entry

WIDGETS = "/apis/lab.example.com/v1/namespaces/lab/widgets"


def build_widget(name: str) -> Body:
    """Return a widget."""
    return {
        "apiVersion": "lab.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"cidr": "10.0.0.0/24"},
    }


async def test_a_changed_configuration_counts_and_a_removed_one_does_not(
    client: httpx.AsyncClient, stage: Stage, hook: Hook
) -> None:
    await stage.configure(build_configuration("Validating", entry("/a")))
    hook.replies = {"/a": deny(message="no"), "/b": deny(message="not here either")}
    first = await client.post(WIDGETS, json=build_widget("one"))
    await stage.configure(build_configuration("Validating", entry("/b")))
    hook.replies = {"/a": deny(message="no"), "/b": deny(message="not here either")}
    second = await client.post(WIDGETS, json=build_widget("one"))
    await stage.configure()
    third = await client.post(WIDGETS, json=build_widget("one"))

    assert first.json()["message"].endswith(": no")
    assert second.json()["message"].endswith(": not here either")
    assert third.status_code == 201


async def test_validating_hooks_are_asked_at_once(
    client: httpx.AsyncClient, stage: Stage, hook: Hook
) -> None:
    await stage.configure(
        build_configuration("Validating", *(entry(f"/v{number}") for number in range(3)))
    )
    all_asked = anyio.Event()

    async def wait_for_the_others() -> None:
        if len(hook.asked) == 3:
            all_asked.set()
        await all_asked.wait()

    hook.meanwhile = wait_for_the_others
    answer = await client.post(WIDGETS, json=build_widget("together"))

    assert answer.status_code == 201


@pytest.fixture
async def settings(client: httpx.AsyncClient, stage: Stage) -> str:
    """Create a config map that a webhook reviews; return its path."""
    await client.post(CONFIGMAPS, json={"metadata": {"name": "c"}, "data": {"by": "fixture"}})
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["UPDATE", "DELETE"],
        "resources": ["configmaps"],
    }
    await stage.configure(build_configuration("Validating", entry("/v", rules=[rule])))
    return f"{CONFIGMAPS}/c"


class Intruder:
    """Changes an object while a hook is being asked about it, the first time."""

    def __init__(self, client: httpx.AsyncClient, path: str) -> None:
        self._client = client
        self._path = path
        self._came = False

    async def __call__(self) -> None:
        if not self._came:
            self._came = True
            merge = {"Content-Type": "application/merge-patch+json"}
            body = '{"data": {"intruder": "was here"}}'
            answer = await self._client.patch(self._path, content=body, headers=merge)
            assert answer.status_code == 200


async def test_a_put_without_a_resource_version_succeeds_after_a_concurrent_write(
    client: httpx.AsyncClient, hook: Hook, settings: str
) -> None:
    hook.meanwhile = Intruder(client, settings)
    answer = await client.put(settings, json={"metadata": {"name": "c"}, "data": {"by": "me"}})

    assert answer.status_code == 200
    assert answer.json()["data"] == {"by": "me"}
    seen = [
        asked_request["review"]["request"]["oldObject"]["data"] for asked_request in hook.asked
    ]
    assert seen[-1] == {"by": "fixture", "intruder": "was here"}


async def test_a_put_with_a_resource_version_conflicts_with_a_concurrent_write(
    client: httpx.AsyncClient, hook: Hook, settings: str
) -> None:
    present = (await client.get(settings)).json()
    hook.meanwhile = Intruder(client, settings)
    answer = await client.put(settings, json={**present, "data": {"by": "me"}})

    assert answer.status_code == 409
    assert (await client.get(settings)).json()["data"]["intruder"] == "was here"


async def test_a_patch_is_applied_to_the_result_of_a_concurrent_write(
    client: httpx.AsyncClient, hook: Hook, settings: str
) -> None:
    hook.meanwhile = Intruder(client, settings)
    merge = {"Content-Type": "application/merge-patch+json"}
    answer = await client.patch(settings, content='{"data": {"by": "me"}}', headers=merge)

    assert answer.status_code == 200
    assert answer.json()["data"] == {"by": "me", "intruder": "was here"}


async def test_a_deletion_succeeds_after_a_concurrent_write(
    client: httpx.AsyncClient, hook: Hook, settings: str
) -> None:
    hook.meanwhile = Intruder(client, settings)
    answer = await client.delete(settings)

    assert answer.status_code == 200
    assert (await client.get(settings)).status_code == 404
    last = hook.asked[-1]["review"]["request"]
    assert last["operation"] == "DELETE"
    assert last["oldObject"]["data"]["intruder"] == "was here"


async def test_deleting_a_collection_ignores_objects_that_are_deleted_meanwhile(
    client: httpx.AsyncClient, hook: Hook, settings: str
) -> None:
    async def remove_it() -> None:
        hook.meanwhile = None
        await client.delete(settings)

    hook.meanwhile = remove_it
    answer = await client.delete(CONFIGMAPS)

    assert answer.status_code == 200
    assert (await client.get(settings)).status_code == 404
