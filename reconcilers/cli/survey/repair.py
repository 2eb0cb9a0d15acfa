"""Carries out what a reviewed report says, and nothing else.

A report is a thing of the past. So the audit is made anew first: what it no longer finds is passed
over. And each write carries the uid and the resourceVersion that were reviewed: an object that has
moved on since is left alone, and a new report tells why.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from controller.errors import Conflict, ControllerError, NotFound
from controller.meta import Version
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.cli.survey.audit import Finding, Subject
from reconcilers.cli.survey.reports import Entry, Report


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one entry of a report.

    Args:
        subject: the object.
        done: whether its action was carried out.
        sentence: what was done, or why nothing was.
        failed: whether that is a failure: not if there was nothing left to do.
    """

    subject: Subject
    done: bool
    sentence: str
    failed: bool = False


async def repair(client: Any, report: Report, found: list[Finding]) -> AsyncIterator[Outcome]:
    """Yield what becomes of each entry that asks for something.

    Args:
        client: a `controller.client.Client`.
        report: as it was reviewed.
        found: what the audit finds now.
    """
    still = {(one.kind, one.subject.kind, one.subject.uid): one for one in found}
    for entry in report.findings:
        if entry.action == "none":
            continue
        subject = entry.as_subject()
        finding = still.get((entry.kind, subject.kind, subject.uid))
        if finding is None:
            yield Outcome(subject, False, f"{entry.kind} is not found any more; nothing was done")
        elif entry.action not in finding.choices:
            what = f"{entry.action} is no way to mend {entry.kind}: {', '.join(finding.choices)}"
            yield Outcome(subject, False, what, failed=True)
        else:
            yield await _carry_out(client, entry, subject, finding)


async def _carry_out(client: Any, entry: Entry, subject: Subject, finding: Finding) -> Outcome:
    at = Version(subject.namespace, subject.name, subject.uid, subject.resourceVersion)
    try:
        if entry.action == "delete":
            await client.delete(IP_ALLOCATION, at)
            what = "deleted; its range is free once its tenant let go"
        else:
            labels = dict(finding.labels or {})
            await client.patch(IP_ALLOCATION, at, {"metadata": {"labels": labels}})
            what = f"labelled {', '.join(sorted(labels))}"
    except NotFound:
        return Outcome(subject, False, "it is gone already")
    except Conflict:
        sentence = "it changed since the report was made; make a new one and review it"
        return Outcome(subject, False, sentence, failed=True)
    except ControllerError as error:
        return Outcome(subject, False, str(error), failed=True)
    return Outcome(subject, True, what)
