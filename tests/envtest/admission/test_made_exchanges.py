"""Exchanges that were made up to find out what a real API server does, had again with this one."""

import json
import sys
from typing import Any

import pytest

from envtest.plane import RunningControlPlane as Plane
from envtest.settings import read_settings
from tests.envtest.admission.conftest import DATA
from tests.envtest.admission.exchange import Stage
from tests.envtest.replay import list_differences

SCENARIOS = ("configurations", "failures", "matching", "mutation", "operations")
# scenario/step -> why the exchange is not the recorded one.
KNOWN: dict[str, str] = {}


async def play(stage: Stage, steps: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Have all exchanges; return what is not as recorded, by step."""
    wrong: dict[str, list[str]] = {}
    in_force: Any = None
    for step in steps:
        for request in step.get("setup", ()):
            await stage.configure()
            in_force = None
            await stage.send(request)
        if in_force != step["configurations"]:
            await stage.configure(*step["configurations"])
            in_force = step["configurations"]
        got = await stage.exchange(step["request"], step.get("replies", {}))
        if step.get("unordered"):
            got["reviews"].sort(key=lambda review: str(review["path"]))
        recorded = {name: step[name] for name in ("reviews", "response")}
        if problems := list_differences(recorded, got):
            wrong[step["id"]] = problems
    return wrong


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_webhooks_and_clients_get_what_the_real_server_sends_them(
    scenario: str, plane: Plane, stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    data = json.loads((DATA / f"{scenario}.json").read_text(encoding="utf-8"))
    await plane.install_crds(data["crds"])

    wrong = await play(stage, data["steps"])

    total = len(data["steps"])
    with capsys.disabled():
        sys.stdout.write(f"\nadmission: {scenario} {total - len(wrong)}/{total} ")
    is_real = read_settings().kind != "embedded"
    known = [] if is_real else [step for step in KNOWN if step.startswith(f"{scenario}/")]
    unexpected = {
        step: problems for step, problems in wrong.items() if f"{scenario}/{step}" not in known
    }
    assert not unexpected, json.dumps(unexpected, indent=1)
    repaired = [step for step in known if step.partition("/")[2] not in wrong]
    assert not repaired, f"right now: {repaired}"
