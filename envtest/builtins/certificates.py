"""Requests for certificates: who asks is the server's to say, what is decided only grows.

Texts and order follow the registry and validation of certificates.k8s.io. Nobody signs here: a
test, or a person, writes `status.certificate`. Who may approve and sign: `access.signers`.
"""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

from typing_extensions import override

from envtest.builtins.pem import certificate_fault, request_fault
from envtest.builtins.shaped import ShapedRules
from envtest.schema.errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from envtest.schema.names import subdomain_errors
from envtest.server import objectmeta
from envtest.server.objectmeta import Body
from envtest.server.rules import keep_only

_USAGES: Final = (
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
)
_DECISIONS: Final = ("Approved", "Denied")
_KEPT: Final = (*_DECISIONS, "Failed")
_SHORTEST_SECONDS: Final = 600
_LEGACY: Final = "kubernetes.io/legacy-unknown"
_LONGEST_DOMAIN: Final = 253
_LONGEST_SIGNER: Final = 571

Conditions = list[dict[str, Any]]


class SigningRequestRules(ShapedRules):
    """CertificateSigningRequests; their specs never change."""

    status_with_labels: ClassVar[bool] = True
    fields: ClassVar[frozenset[str]] = frozenset({"spec.signerName"})

    @override
    def __init__(self, group: str, version: str, kind: str, *, has_status: bool) -> None:
        super().__init__(group, version, kind, has_status=has_status)
        self.name_rule = lambda _: []

    @override
    def prepare_update(self, body: Body, old: Body) -> None:
        super().prepare_update(body, old)
        body["spec"] = old["spec"]

    @override
    def prepare_subresource(self, name: str, body: Body, old: Body) -> None:
        before = old.get("status") or {}
        if name == "approval":
            given = _conditions(body)
            keep_only(body, old, "status")
            body["status"] = dict(before)
            if given:
                body["status"]["conditions"] = given
            else:
                body["status"].pop("conditions", None)
        else:
            super().prepare_subresource(name, body, old)
            for kind in _DECISIONS:
                _restore(_conditions(body), _conditions(old), kind)
        _stamp(_conditions(body), _conditions(old))

    @override
    def check_update(self, body: Body, old: Body, subresource: str) -> list[FieldError]:
        return [
            *objectmeta.check_change(body["metadata"], old["metadata"]),
            *self.problems(body, old),
            *_change_problems(body, old, subresource),
        ]

    @override
    def problems(self, body: Body, old: Body | None) -> Iterator[FieldError]:
        spec = body["spec"]
        if old is None or spec != old["spec"]:
            yield from _spec_problems(spec)
        yield from _condition_problems(_conditions(body), _conditions(old or {}))
        certificate = (body.get("status") or {}).get("certificate")
        if certificate and certificate != ((old or {}).get("status") or {}).get("certificate"):
            fault = certificate_fault(certificate)
            if fault:
                yield invalid("status.certificate", "<certificate data>", fault)


def _conditions(body: Body) -> Conditions:
    found: Conditions = (body.get("status") or {}).get("conditions") or []
    return found


def _of(conditions: Conditions, kind: str) -> Conditions:
    return [one for one in conditions if one.get("type", "") == kind]


def _restore(now: Conditions, before: Conditions, kind: str) -> None:
    """Put the conditions of a type back as they were, if none came and none went."""
    held = _of(before, kind)
    places = [at for at, one in enumerate(now) if one.get("type", "") == kind]
    if len(held) == len(places):
        for at, one in zip(places, held, strict=True):
            now[at] = dict(one)


def _stamp(now: Conditions, before: Conditions) -> None:
    """Set the times that a client left out."""
    moment = objectmeta.timestamp()
    for one in now:
        one["lastUpdateTime"] = one.get("lastUpdateTime") or moment
        known = (
            old.get("lastTransitionTime")
            for old in _of(before, one.get("type", ""))
            if old.get("status") == one.get("status")
        )
        one["lastTransitionTime"] = one.get("lastTransitionTime") or next(known, None) or moment


def _spec_problems(spec: Body) -> Iterator[FieldError]:
    fault = request_fault(spec.get("request") or "")
    if fault:
        yield invalid("spec.request", spec.get("request"), fault)
    usages: Sequence[str] = spec.get("usages") or ()
    if not usages:
        yield required("spec.usages")
    for at, usage in enumerate(usages):
        if usage not in _USAGES:
            yield not_supported(f"spec.usages[{at}]", usage, _USAGES)
    for at, usage in enumerate(usages):
        if usage in usages[:at]:
            yield duplicate(f"spec.usages[{at}]", usage)
    signer = spec["signerName"]
    if signer == _LEGACY:
        text = "the legacy signerName is not allowed via this API version"
        yield invalid("spec.signerName", signer, text)
    else:
        yield from _signer_problems(signer)
    seconds = spec.get("expirationSeconds", _SHORTEST_SECONDS)
    if seconds < _SHORTEST_SECONDS:
        text = "may not specify a duration less than 600 seconds (10 minutes)"
        yield invalid("spec.expirationSeconds", seconds, text)


def _signer_problems(signer: str) -> Iterator[FieldError]:
    path = "spec.signerName"
    if not signer:
        yield required(path)
        return
    domain, slash, name = signer.partition("/")
    if not slash or "/" in name:
        form = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        yield invalid(path, signer, form)
        return
    if len(domain) > _LONGEST_DOMAIN:
        yield too_long(path, _LONGEST_DOMAIN)
    labels = domain.split(".")
    yield from _label_problems(domain, labels)
    if len(labels) < 2:
        text = "should be a domain with at least two segments separated by dots"
        yield invalid(path, domain, text)
    yield from _label_problems(name, name.split("."))
    if len(signer) > _LONGEST_SIGNER:
        yield too_long(path, _LONGEST_SIGNER)


def _label_problems(part: str, labels: Sequence[str]) -> Iterator[FieldError]:
    """Yield what is wrong with the first bad label of a part."""
    for label in labels:
        errors = subdomain_errors(label)
        for error in errors:
            yield invalid("spec.signerName", part, f'validating label "{label}": {error}')
        if errors:
            return


def _condition_problems(now: Conditions, before: Conditions) -> Iterator[FieldError]:
    path = "status.conditions"
    kinds = [one.get("type", "") for one in now]
    was = [one.get("type", "") for one in before]
    for at, one in enumerate(now):
        kind, status = kinds[at], one.get("status", "")
        if not kind and "" not in was:
            yield required(f"{path}[{at}].type")
        among = ("True",) if kind in _KEPT else ("False", "True", "Unknown")
        if not status:
            yield required(f"{path}[{at}].status")
        elif status not in among:
            yield not_supported(f"{path}[{at}].status", status, among)
        other = {"Approved": "Denied", "Denied": "Approved"}.get(kind)
        if other in kinds[:at] and not set(_DECISIONS) <= set(was):
            text = "Approved and Denied conditions are mutually exclusive"
            yield invalid(path, kind, text)
        if kind in kinds[:at] and len(set(was)) == len(was):
            yield duplicate(f"{path}[{at}].type", kind)


def _change_problems(body: Body, old: Body, subresource: str) -> Iterator[FieldError]:
    """Yield what an update may not do: take back a decision, or decide where one cannot."""
    path, now, before = "status.conditions", _conditions(body), _conditions(old)
    for kind in _KEPT:
        if len(_of(now, kind)) < len(_of(before, kind)):
            yield forbidden(path, f'updates may not remove a condition of type "{kind}"')
    for kind in () if subresource == "approval" else _DECISIONS:
        if len(_of(now, kind)) > len(_of(before, kind)):
            yield forbidden(path, f'updates may not add a condition of type "{kind}"')
    given = (body.get("status") or {}).get("certificate")
    issued = (old.get("status") or {}).get("certificate")
    if given != issued and subresource == "status" and issued:
        yield forbidden(
            "status.certificate", "updates may not modify existing certificate content"
        )
