"""Who asks for certificates, and who may approve and sign what is asked for.

What the registry of certificates.k8s.io notes of the requester, and the admission plugins
CertificateApproval, CertificateSigning and CertificateSubjectRestriction.
"""

import base64
from typing import Any, Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from envtest.access.rbac import Attributes, Authorizer
from envtest.access.tokens import ADMIN_GROUP
from envtest.server.call import Call, User
from envtest.server.failures import forbidden

GROUP: Final = "certificates.k8s.io"
_CLIENT_SIGNER: Final = "kubernetes.io/kube-apiserver-client"

Body = dict[str, Any]


class SignerGuard:
    """Notes who asks, and refuses to approve or sign for whoever may not."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def check(self, call: Call, new: Body, old: Body | None) -> None:
        """Judge one write; `old` is None for a new object, which gets its requester.

        Raises:
            StatusError: 403.
        """
        if call.info.resource != "certificatesigningrequests":
            return
        if old is None:
            _note_requester(new, call.user)
            self._check_subject(call, new)
            return
        signer = old["spec"]["signerName"]
        now, before = new.get("status") or {}, old.get("status") or {}
        if call.info.subresource == "approval":
            self._demand(call, "approve", signer)
        elif call.info.subresource == "status" and any(
            (now.get(name) or None) != (before.get(name) or None)
            for name in ("certificate", "conditions")
        ):
            self._demand(call, "sign", signer)

    def _demand(self, call: Call, verb: str, signer: str) -> None:
        """Ask for the right to a signer, or to all signers of its domain."""
        domain = signer.partition("/")[0]
        for name in (signer, f"{domain}/*"):
            wanted = Attributes(verb, GROUP, "signers", "", "", name)
            if self._authorizer.allowed(call.user, wanted):
                return
        why = f'user not permitted to {verb} requests with signerName "{signer}"'
        raise forbidden(call.info.resource, GROUP, call.info.name, why)

    def _check_subject(self, call: Call, body: Body) -> None:
        """Refuse certificates that would make somebody an administrator."""
        spec = body["spec"]
        if spec.get("signerName") != _CLIENT_SIGNER or not spec.get("request"):
            return
        if ADMIN_GROUP in _organizations(spec["request"]):
            why = f"use of {_CLIENT_SIGNER} signer with {ADMIN_GROUP} group is not allowed"
            raise forbidden(call.info.resource, GROUP, body["metadata"].get("name", ""), why)


def _note_requester(body: Body, user: User) -> None:
    spec = {
        name: value
        for name, value in body["spec"].items()
        if name not in {"username", "uid", "groups", "extra"}
    }
    noted: Body = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    body["spec"] = {**spec, **{name: value for name, value in noted.items() if value}}


def _organizations(coded: str) -> set[str]:
    """Return the groups that a request asks for; none if it cannot be read."""
    try:
        request = x509.load_pem_x509_csr(base64.b64decode(coded))
    except ValueError:
        return set()
    found = request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return {str(one.value) for one in found}
