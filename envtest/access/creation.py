"""A change that would make the object needs the right to make it, besides that to change it."""

from envtest.access.rbac import Attributes, Authorizer
from envtest.server.call import Call
from envtest.server.failures import forbidden


class CreationGuard:
    """Judges applies and updates of what is not there yet."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def check(self, call: Call, name: str) -> None:
        """Judge one write that turned out to be a creation.

        Args:
            call: the request.
            name: of the object: here, unlike in a POST, it is known beforehand and counts.

        Raises:
            StatusError: 403; it says why only if the authorizer does, as kube-apiserver's.
        """
        info = call.info
        wanted = Attributes(
            "create", info.group, info.resource, info.subresource, info.namespace, name
        )
        decision = self._authorizer.decide(call.user, wanted)
        if not decision.allowed:
            raise forbidden(info.resource, info.group, name, decision.reason)
