"""Writes the audit's report, reads it after the review, and applies exactly the repairs in it.

A report may be stale. So the audit is repeated first, and a finding that is gone is skipped. Each
write has the uid and the resourceVersion that were reviewed as precondition: an object that has
changed since is not written, and a new report shows its current state.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from controller.errors import Conflict, ControllerError, NotFound
from controller.markers import with_config
from controller.meta import Version
from controller.scaffold.schemas import create_plain_schema
from reconcilers.addressmap.audit import REVIEWED, Finding, Subject
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.cli import output
from reconcilers.cli.problems import CommandProblem, print_problem
from reconcilers.cli.progress import count_progress
from reconcilers.cli.reading.findings import Findings, format_path
from reconcilers.cli.reading.objects import read_objects
from reconcilers.cli.reading.schema import Validation
from reconcilers.integrations import views

KIND = "CheckReport"


@with_config(REVIEWED)
@dataclass(frozen=True, slots=True)
class RepairReport:
    """A report; `notRead` has the lists that could not be checked."""

    apiVersion: Literal["report.butler-ipam/v1"]
    kind: Literal["CheckReport"]
    findings: tuple[Finding, ...] = ()
    notRead: tuple[str, ...] = ()


def build_report(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return findings as a report, the document that people review."""
    entries = [
        {name: value for name, value in asdict(finding).items() if value is not None}
        | {"choices": list(finding.choices)}
        for finding in findings
    ]
    return output.build_report(KIND, findings=entries)


def read_report(path: Path) -> RepairReport:
    """Return a report from a file in JSON or YAML.

    Raises:
        CommandProblem: the file cannot be read, or is no report. Its faults are printed before.
    """
    from pydantic import TypeAdapter  # slow: as long as all other imports of `check`

    findings = Findings()
    manifests = [*read_objects([str(path)], findings, recursive=False)]
    validations = [Validation(create_plain_schema(RepairReport), raw.body) for raw in manifests]
    for raw, validation in zip(manifests, validations, strict=True):
        unknown = ((field, f"this field is unknown{hint}") for field, hint in validation.unknown)
        for field, fault in [*validation.faults, *unknown]:
            findings.add_error(raw.at(field), f"{format_path(field)}: {fault}")
    for finding in findings:
        print_problem(finding.severity, finding.sentence)
    if findings.has_errors or len(manifests) != 1:
        raise CommandProblem(
            f"{path} is not one report of `butler-ipam check -o yaml`: correct it, or create"
            " a new report"
        )
    return TypeAdapter(RepairReport).validate_python(validations[0].stored_form)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was done about one finding of a report, or why nothing was done.

    Args:
        failed: whether the action is still to be done. If the object or the finding is gone,
            nothing is left to do, and the outcome is no failure.
    """

    subject: Subject
    sentence: str
    failed: bool = False


async def repair(
    client: Any, reviewed: RepairReport, current_findings: Sequence[Finding]
) -> AsyncIterator[Outcome]:
    """Carry out the actions of a reviewed report; yield the outcome of each.

    In this order, for each entry whose action is not `none`:
        - The cluster no longer has the finding: nothing is done.
        - The action is not a choice for the finding: the outcome is a failure.
        - Else the action is carried out.

    Args:
        client: the management cluster.
        reviewed: the report, in which a person has chosen actions.
        current_findings: the findings of the cluster as it is now.
    """
    current_by_subject = {
        (finding.kind, finding.subject.kind, finding.subject.uid): finding
        for finding in current_findings
    }
    entries = [entry for entry in reviewed.findings if entry.action != "none"]
    for entry in count_progress(entries):
        subject = entry.subject
        finding = current_by_subject.get((entry.kind, subject.kind, subject.uid))
        if finding is None:
            yield Outcome(subject, f"it no longer has the finding {entry.kind}; nothing was done")
        elif entry.action not in finding.choices:
            choices = ", ".join(finding.choices)
            refusal = f"{entry.action} is not an action for {entry.kind}: write one of {choices}"
            yield Outcome(subject, refusal, failed=True)
        else:
            yield await _carry_out(client, entry, finding)


async def _carry_out(client: Any, entry: Finding, finding: Finding) -> Outcome:
    """Delete or label the subject of a finding, if it has not changed since the report.

    Args:
        entry: from the report; has the action, and the version that a person reviewed.
        finding: the same finding of the cluster now; has the labels to write.
    """
    subject = entry.subject
    reviewed_version = Version(
        subject.namespace, subject.name, uid=subject.uid, resourceVersion=subject.resourceVersion
    )
    try:
        if entry.action == "delete" and subject.kind != IP_ALLOCATION.kind:
            await views.remove(client, subject.kind, reviewed_version)
            return Outcome(subject, "deleted; its address is free once it is gone")
        if entry.action == "delete":
            await client.delete(IP_ALLOCATION, reviewed_version)
            return Outcome(subject, "deleted; its range is free once its tenant no longer uses it")
        labels = dict(finding.labels or {})
        await client.patch(IP_ALLOCATION, reviewed_version, {"metadata": {"labels": labels}})
        return Outcome(subject, f"labelled {', '.join(sorted(labels))}")
    except NotFound:
        # No failure: an object that is gone has no finding.
        return Outcome(subject, "it was deleted already")
    except Conflict:
        # A person reviewed another version, so the action may be wrong for this one.
        sentence = "it changed since the report was made; make a new one and review it"
        return Outcome(subject, sentence, failed=True)
    except ControllerError as error:
        return Outcome(subject, str(error), failed=True)
