"""The API server in memory on which a plan runs, and storing the input there.

An object with a resourceVersion keeps it. The journals of pools name resourceVersions of requests,
so they stay valid.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from controller.clock import Clock
from controller.meta import Key
from controller.resource import Resource
from controller.testing.api import FakeApi
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.resources import BUTLER_CONFIG, NAMESPACE, OWN_KINDS, SECRET
from reconcilers.cli.planning.drafts import Draft
from reconcilers.integrations import platformobjects
from reconcilers.integrations.core.discovery import DEFINITIONS
from reconcilers.providerconfig.evaluation import list_required_keys


class PlanServer:
    """The API server of a plan.

    Args:
        drafts: the objects of the input.
        integrations: the platforms whose kinds are served.
        clock: the time of the server.
        first_revision: the resourceVersion of the empty server.
    """

    def __init__(
        self,
        drafts: Sequence[Draft],
        integrations: Sequence[str],
        clock: Clock,
        first_revision: int = 1,
    ) -> None:
        self.drafts = drafts
        self.api = FakeApi(clock, track_owners=False, first_revision=first_revision)
        """The server."""
        self.is_at_rest = False
        """Whether the controllers have nothing left to do."""
        self.kinds: Sequence[Resource[Any]] = [
            *OWN_KINDS.values(),
            *platformobjects.list_kinds(integrations),
        ]
        """The kinds of objects that are planned."""
        for resource in (*self.kinds, DEFINITIONS, NAMESPACE):
            self.api.serve(resource)
        self.api.serve(SECRET, status=False)

    def store_all_but_tenants(self) -> None:
        """Store all objects of the input except the TenantClusters, with the implied objects.

        An implied object is named by another platform's object, and absent from the input; a plan
        assumes that it exists.
        Objects with a resourceVersion come first, because the server continues with higher ones.
        """
        drafts = [draft for draft in self.drafts if not draft.is_tenant_cluster]
        for draft in drafts:
            if draft.is_stored:
                self.api.restore_object(draft.resource, draft.body)
        for draft in drafts:
            if not draft.is_stored:
                self.api.put_object(draft.resource, draft.body)
        served_kinds = set(self.kinds)
        for kind, body in platformobjects.list_implied_objects(
            [draft.body for draft in self.drafts]
        ):
            if kind not in served_kinds:
                served_kinds.add(kind)
                self.api.serve(kind)
            self.api.put_object(kind, body)

    def store_platform_default(self, reference: Mapping[str, Any]) -> None:
        """Store a ButlerConfig that names the ProviderConfig of clusters that name none."""
        self.api.serve(BUTLER_CONFIG)
        spec = {"defaultProviderConfigRef": dict(reference)}
        self.api.put_object(BUTLER_CONFIG, {"metadata": {"name": "butler"}, "spec": spec})

    def store_credentials(self, provider: ProviderConfig) -> None:
        """Store a Secret with complete credentials for a ProviderConfig.

        A plan does not know the real credentials. Conditions that depend on them are printed as in
        the input, so the value does not matter.
        """
        reference = provider.spec.credentialsRef
        if reference is None:
            return  # the ProviderConfig names no Secret
        namespace = reference.namespace or provider.metadata.namespace
        data = dict.fromkeys(list_required_keys(provider), "eA==")
        # Several ProviderConfigs may name one Secret, each with keys of its own.
        stored = self.api.get_stored(SECRET, Key(namespace, reference.name))
        merged = {**(stored["data"] if stored is not None else {}), **data}
        metadata = {"name": reference.name, "namespace": namespace}
        self.api.put_object(SECRET, {"metadata": metadata, "data": merged})
