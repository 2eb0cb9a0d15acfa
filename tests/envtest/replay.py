"""Plays recorded requests against a server and says where its answers differ.

A scenario is data: requests in order, with the answers of a real API server in which whatever
differs from run to run is masked. Here the same masks are laid over what the server under test
answers, so that the two can be compared word for word.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import httpx

from tests.streams import unwind_on_exit

SCENARIOS = Path(__file__).parents[1] / "data" / "transcripts"
ADMIN = "admin-token"
# Where the recorded server was; token reviews name it.
RECORDED_URL = "https://127.0.0.1:16443"
_UNTIL_SECONDS = 10.0
_PAUSE_SECONDS = 0.05

_MASKED_FIELDS = {
    "uid": "<uid>",
    "resourceVersion": "<rv>",
    "creationTimestamp": "<time>",
    "deletionTimestamp": "<time>",
    "lastTransitionTime": "<time>",
    "time": "<time>",
    "continue": "<continue>",
    "selfLink": "<selfLink>",
    "nodePort": "<port>",
    "caBundle": "<ca>",
}
_MASKED_TEXTS = (
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uid>"),
    (r"(resource ?[vV]ersion:? ?|[cC]urrent: )\d+", r"\1<rv>"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
    (r"(too old resource version: <rv>) \(\d+\)$", r"\1 (<rv>)"),
    (r"in the precondition \(\d+\)", "in the precondition (<rv>)"),
    (r"ResourceVersion in record \(\d+\)", "ResourceVersion in record (<rv>)"),
    (r'(\\*"resourceVersion\\*":\\*")\d+', r"\1<rv>"),
)
_AGE = re.compile(r"(\d+[smhd])+|<invalid>")


@dataclass(frozen=True, slots=True)
class Step:
    """One recorded request and what is expected of the answer."""

    id: str
    mode: str
    request: dict[str, Any]
    response: dict[str, Any]
    capture: dict[str, str]
    until: str | None
    events: int | None
    pause: float

    @property
    def compared(self) -> bool:
        return self.mode != "any"


def list_scenarios() -> list[str]:
    """Return the names of all scenarios."""
    return sorted(path.stem for path in SCENARIOS.glob("*.json"))


def read_steps(scenario: str) -> list[Step]:
    """Read a scenario."""
    content = (SCENARIOS / f"{scenario}.json").read_text(encoding="utf-8")
    return [
        Step(
            id=step["id"],
            mode=step.get("mode", "exact"),
            request=step["request"],
            response=step["response"],
            capture=step.get("capture", {}),
            until=step.get("until"),
            events=step.get("watch"),
            pause=step.get("sleep", 0),
        )
        for step in json.loads(content)["steps"]
    ]


class Player:
    """Sends the steps of one scenario; remembers what they capture."""

    def __init__(self, client: httpx.AsyncClient, url: str, *, patient: bool) -> None:
        """Take a client of the server at a URL; `patient` makes the recorded pauses."""
        self._client = client
        self._url = url
        self._patient = patient
        self._captured: dict[str, str] = {}

    async def play_step(self, step: Step) -> list[str]:
        """Send the request of a step; return the differences from the recorded answer."""
        if step.pause and self._patient:
            await anyio.sleep(step.pause)
        got = await (self._stream(step) if step.events else self._answer(step))
        response = step.response
        if set(response) == {"status"}:
            got = {"status": got["status"]}
        return list(_compare(response, got, "", exact=step.mode == "exact"))

    async def _answer(self, step: Step) -> dict[str, Any]:
        with anyio.move_on_after(_UNTIL_SECONDS):
            while True:
                response = await self._client.send(self._request(step))
                body = self._body(response)
                if step.until is None or step.until in json.dumps(mask(body)):
                    break
                await anyio.sleep(_PAUSE_SECONDS)
        self._remember(step, body)
        return _describe(response, body)

    async def _stream(self, step: Step) -> dict[str, Any]:
        events: list[Any] = []
        async with self._open(step) as response:
            if response.status_code != 200:
                await response.aread()
                return _describe(response, self._body(response))
            async with unwind_on_exit(response.aiter_lines()) as lines:
                async for line in lines:
                    if line.strip():
                        events.append(json.loads(line))
                    if len(events) >= (step.events or 0):
                        break
        self._remember(step, events)
        return {"status": 200, "events": mask(events)}

    @asynccontextmanager
    async def _open(self, step: Step) -> AsyncIterator[httpx.Response]:
        response = await self._client.send(self._request(step), stream=True)
        try:
            yield response
        finally:
            await response.aclose()

    def _body(self, response: httpx.Response) -> Any:
        """Return the body of a response, with the recorded address in place of the server's."""
        body = response.text.replace(self._url, RECORDED_URL)
        try:
            return json.loads(body)
        except ValueError:
            return body

    def _request(self, step: Step) -> httpx.Request:
        request = self._fill_in_captures(step.request)
        token = {"admin": ADMIN, "none": ""}.get(request.get("auth", "admin"), request.get("auth"))
        headers = {"Accept": "application/json", "User-Agent": "transcript/1"}
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        headers |= request.get("headers", {})
        body = request.get("body")
        content = body if body is None or isinstance(body, str) else json.dumps(body)
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        return self._client.build_request(
            request["method"], request["path"], headers=headers, content=content
        )

    def _fill_in_captures(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._fill_in_captures(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._fill_in_captures(item) for item in value]
        if isinstance(value, str):
            return re.sub(r"\$\{(\w+)\}", lambda match: self._captured[match.group(1)], value)
        return value

    def _remember(self, step: Step, body: Any) -> None:
        for name, pointer in step.capture.items():
            value = body
            for part in pointer.strip("/").split("/"):
                value = value[int(part)] if isinstance(value, list) else value[part]
            self._captured[name] = str(value)


def _describe(response: httpx.Response, body: Any) -> dict[str, Any]:
    described: dict[str, Any] = {
        "status": response.status_code,
        "contentType": response.headers.get("content-type", "").partition(";")[0],
        "body": mask(body),
    }
    warnings = response.headers.get_list("warning")
    if warnings:
        described["warnings"] = sorted(warnings)
    if response.status_code == 405 and "allow" in response.headers:
        described["allow"] = sorted(response.headers["allow"].replace(" ", "").split(","))
    if "retry-after" in response.headers:
        described["retryAfter"] = response.headers["retry-after"]
    return described


def mask(value: Any, name: str = "") -> Any:
    """Return a value without what differs from run to run."""
    if isinstance(value, dict):
        return {key: mask(item, key) for key, item in value.items()}
    if isinstance(value, list):
        items = _order_within_one_second(value) if name == "managedFields" else value
        return [mask(item, name if name == "cells" else "") for item in items]
    if name in _MASKED_FIELDS and value not in ("", None):
        return value if (name, value) == ("resourceVersion", "0") else _MASKED_FIELDS[name]
    if not isinstance(value, str):
        return value
    for pattern, replacement in _MASKED_TEXTS:
        value = re.sub(pattern, replacement, value)
    return "<age>" if name == "cells" and _AGE.fullmatch(value) else value


def _order_within_one_second(entries: list[Any]) -> list[Any]:
    """Return managedFields in the order they have if all were made in the same second.

    The server orders them by time before anything else, in whole seconds. What was recorded within
    one second may fall on both sides of a full one when it is played.
    """
    times = [datetime.fromisoformat(entry["time"]) for entry in entries if entry.get("time")]
    if len(times) < len(entries) or not times or max(times) - min(times) != timedelta(seconds=1):
        return entries
    return sorted(
        entries,
        key=lambda entry: (
            entry["operation"],
            entry["manager"],
            entry["apiVersion"],
            entry.get("subresource", ""),
        ),
    )


def list_differences(expected: Any, got: Any) -> list[str]:
    """Return a line per place where two values are not the same."""
    return list(_compare(expected, got, "", exact=True))


def _compare(expected: Any, got: Any, path: str, *, exact: bool) -> Iterator[str]:
    """Yield a line per place that is not as recorded."""
    if isinstance(expected, dict) and isinstance(got, dict):
        for key, item in expected.items():
            if key in got:
                yield from _compare(item, got[key], f"{path}/{key}", exact=exact)
            else:
                yield f"{path}/{key}: missing, expected {_shorten(item)}"
        if exact:
            extra = [key for key in got if key not in expected]
            yield from (f"{path}/{key}: unexpected {_shorten(got[key])}" for key in extra)
    elif isinstance(expected, list) and isinstance(got, list):
        yield from _compare_lists(expected, got, path, exact=exact)
    elif expected not in (got, "<any>"):
        yield f"{path}: {_shorten(got)}, expected {_shorten(expected)}"


def _compare_lists(
    expected: list[Any], got: list[Any], path: str, *, exact: bool
) -> Iterator[str]:
    if not exact:
        for item in expected:
            if not any(not list(_compare(item, received, "", exact=False)) for received in got):
                yield f"{path}: no element is {_shorten(item)}"
        return
    if len(expected) != len(got):
        yield f"{path}: {len(got)} elements, expected {len(expected)}"
    for at, (item, received) in enumerate(zip(expected, got, strict=False)):
        yield from _compare(item, received, f"{path}/{at}", exact=True)


def _shorten(value: Any) -> str:
    return json.dumps(value)[:300]
