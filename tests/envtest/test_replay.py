"""Every recorded answer of a real API server, asked again of the one under test."""

import sys
from collections.abc import AsyncIterator

import httpx
import pytest

from envtest import ControlPlane, parse_token_file
from envtest.settings import read_settings
from tests.envtest.replay import ADMIN, Player, list_scenarios, read_steps

# scenario/step -> why the answer is not the recorded one.
KNOWN: dict[str, str] = {
    "core-resources/secret-bad-base64": "says what Python says of it",
    "crud/create-bad-json": "says what Python says of it",
    "server-side-apply/apply-after-update-conflict": "shows the value in JSON",
    "server-side-apply/apply-yaml": "shows the value in JSON",
}
TOKENS = """\
admin-token,admin,1,"system:masters"
ctl-token,system:serviceaccount:butler-system:butler-controller,2,"system:serviceaccounts"
nobody-token,nobody,3,""
"""


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """Yield the URL of a control plane with the users of the recording."""
    async with ControlPlane.start(tokens=parse_token_file(TOKENS)) as plane:
        yield plane.url


@pytest.fixture
async def client(url: str) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client without credentials: each step has its own."""
    async with httpx.AsyncClient(base_url=url, verify=False, timeout=30) as async_client:
        yield async_client


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("scenario", list_scenarios())
async def test_the_recorded_answers_come_back(
    scenario: str, url: str, client: httpx.AsyncClient, capsys: pytest.CaptureFixture[str]
) -> None:
    is_real = read_settings().kind != "embedded"
    # The recording met a namespace that had been made by another client.
    await client.post(
        "/api/v1/namespaces",
        json={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab"}},
        headers={"Authorization": f"Bearer {ADMIN}"},
    )
    player = Player(client, url, patient=is_real)
    failed: dict[str, list[str]] = {}
    for step in read_steps(scenario):
        differences = await player.play_step(step)
        if differences and step.compared:
            failed[f"{scenario}/{step.id}"] = differences

    total = sum(step.compared for step in read_steps(scenario))
    with capsys.disabled():
        sys.stdout.write(f"\nreplay: {scenario} {total - len(failed)}/{total} ")
    known = {} if is_real else {step for step in KNOWN if step.startswith(f"{scenario}/")}
    unexpected = {step: lines for step, lines in failed.items() if step not in known}
    assert not unexpected, unexpected
    assert not (repaired := sorted(set(known) - failed.keys())), f"right now: {repaired}"
