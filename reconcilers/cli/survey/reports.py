"""The audit's report: written for people to review, read back to be carried out."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from reconcilers.cli.problems import Problem
from reconcilers.cli.survey.audit import Action, Finding, Subject

VERSION = "report.butler-ipam/v1"
KIND = "CheckReport"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ReportedSubject(_Strict):
    """The object, and the version that was reviewed."""

    kind: str
    namespace: str
    name: str
    uid: str = ""
    resourceVersion: str = ""


class Entry(_Strict):
    """One finding, and what is to be done about it."""

    kind: str
    severity: Literal["error", "warning"]
    subject: ReportedSubject
    sentence: str
    action: Action
    choices: tuple[Action, ...] = ("none",)
    labels: dict[str, str] | None = None

    def as_subject(self) -> Subject:
        """Return the object as the audit names it."""
        return Subject(**self.subject.model_dump())


class Report(_Strict):
    """A whole report."""

    apiVersion: Literal["report.butler-ipam/v1"]
    kind: Literal["CheckReport"]
    findings: Annotated[tuple[Entry, ...], Field(default=())]


def report(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return findings as a report."""
    return {"apiVersion": VERSION, "kind": KIND, "findings": [_entry(one) for one in findings]}


def _entry(one: Finding) -> dict[str, Any]:
    body = asdict(one)
    body["choices"] = list(one.choices)
    body["labels"] = dict(one.labels) if one.labels is not None else None
    return {name: value for name, value in body.items() if value is not None}


def read_report(path: Path) -> Report:
    """Return a report that was written before, in JSON or YAML.

    Raises:
        Problem: it cannot be read, or is no report; the sentence says where.
    """
    try:
        text = path.read_text(encoding="utf-8")
        body = json.loads(text) if text.lstrip().startswith("{") else yaml.safe_load(text)
        return Report.model_validate(body)
    except OSError as error:
        raise Problem(f"{path} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, json.JSONDecodeError, yaml.YAMLError) as error:
        raise Problem(f"{path} is neither JSON nor YAML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the document"
        made = "butler-ipam check -o yaml"
        raise Problem(f"{path} is no report of `{made}`: {where}: {first['msg']}") from error
