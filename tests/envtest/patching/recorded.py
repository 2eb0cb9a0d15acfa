"""The recorded answers of a real server, step by step."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

TRANSCRIPTS = Path(__file__).parents[2] / "data" / "transcripts"
WIDGETS = "/apis/lab.example.com/v1/namespaces/lab/widgets"
RECORDER = "transcript"


@dataclass(frozen=True, slots=True)
class Step:
    """One request and what came back."""

    id: str
    method: str
    path: str
    query: dict[str, str]
    content_type: str
    body: Any
    status: int
    answer: Any

    @property
    def manager(self) -> str:
        return self.query.get("fieldManager", RECORDER)

    @property
    def force(self) -> bool:
        return self.query.get("force") == "true"


def read_steps(scenario: str) -> Iterator[Step]:
    """Yield the steps of a scenario."""
    content = (TRANSCRIPTS / f"{scenario}.json").read_text(encoding="utf-8")
    for step in json.loads(content)["steps"]:
        request, response = step["request"], step["response"]
        url = urlsplit(request["path"])
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        yield Step(
            step["id"],
            request["method"],
            path=url.path,
            query=query,
            content_type=request.get("headers", {}).get("Content-Type", "application/json"),
            body=request.get("body"),
            status=response["status"],
            answer=response.get("body"),
        )


def read_widget_schema() -> dict[str, Any]:
    """Return the schema of the kind that the scenarios are about."""
    for step in read_steps("server-side-apply"):
        if step.id == "setup-crd":
            schema: dict[str, Any] = step.body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            return schema
    raise LookupError("the scenario installs no CRD")


def mask_object(obj: dict[str, Any]) -> dict[str, Any]:
    """Return an object as the recorder masks it, without what the storage writes."""
    out: dict[str, Any] = json.loads(json.dumps(obj))
    volatile = ("uid", "resourceVersion", "creationTimestamp", "generation")
    deletion = ("deletionTimestamp", "deletionGracePeriodSeconds")
    for name in (*volatile, *deletion):
        out["metadata"].pop(name, None)
    for entry in out["metadata"].get("managedFields", ()):
        if "time" in entry:
            entry["time"] = "<time>"
    status = out.get("status")
    for condition in status.get("conditions", ()) if isinstance(status, dict) else ():
        if "lastTransitionTime" in condition:
            condition["lastTransitionTime"] = "<time>"
    return out
