"""From a request of the API server to the rules and back.

Each kind has a path, which manifests/webhook names: these are Butler's.

What is never validated, whatever the rules say:

- a write that leaves the spec as it is: status, labels, finalizers; but for the annotation that
  releases a tenant's addresses (`releasing.py`). A spec that was broken before
  the rules existed must not keep its object from being reconciled, or deleted.
- an object that is being deleted already, being deleted again
- the deletion of what cannot be read
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import msgspec

from controller.client import Client
from controller.clock import Clock
from controller.meta import Object
from controller.resource import Resource
from controller.webhooks import AdmissionRequest, Allowed, Answer, Denied, Handler, Webhook
from reconcilers.api.resources import (
    IP_ALLOCATION,
    NETWORK_POOL,
    PROVIDER_CONFIG,
    TENANT_CLUSTER,
)
from reconcilers.clusteraccess.managementcaches import Caches
from reconcilers.configuration.settings import Settings
from reconcilers.spaces.index import SpaceIndex
from reconcilers.specrules.verdict import NOTHING, Validator, Verdict, invalid
from reconcilers.tenantcluster.provider import Providers
from reconcilers.webhooks.releasing import review_release
from reconcilers.webhooks.validators import (
    AllocationValidator,
    ClusterValidator,
    ListOtherHoldings,
    PoolValidator,
    ProviderValidator,
    list_nothing,
)

T = TypeVar("T", bound=Object)

_UNFIT = (ValueError, RecursionError)


Guard = Callable[[AdmissionRequest[bytes]], Awaitable[Verdict | None]]
"""Returns the refusal of a write by what is not in its spec; None if there is none."""


def handler(
    resource: Resource[T], validator: Validator[T], guard: Guard | None = None
) -> Handler[bytes]:
    """Return the handler of admission requests about one kind.

    It takes the objects' bytes, so that an object that cannot be decoded can still be compared
    with the stored one.

    Args:
        resource: the kind.
        validator: decides about one request, given the decoded objects.
        guard: asked before; None if the kind needs none.
    """
    read: Callable[[bytes], T] = msgspec.json.Decoder(resource.type).decode

    def decode_stored(data: bytes) -> T | None:
        try:
            return read(data)
        except _UNFIT:
            return None

    async def verdict(request: AdmissionRequest[bytes]) -> Verdict:
        """Validate one request; what cannot be read is refused."""
        refusal = await guard(request) if guard is not None else None
        if refusal is not None:
            return refusal
        if request.operation == "DELETE":
            old = decode_stored(request.oldObjectBytes)
            return (
                NOTHING
                if old is None or old.metadata.terminating
                else await validator.review_deletion(old)
            )
        if request.subResource or same_spec(request.objectBytes, request.oldObjectBytes):
            return NOTHING
        try:
            new = read(request.objectBytes)
        except _UNFIT as error:
            return Verdict.from_causes(
                [invalid((), f"it cannot be read as a {resource.kind}: {error}")]
            )
        if request.operation == "CREATE":
            return await validator.review_creation(new)
        return await validator.review_update(new, decode_stored(request.oldObjectBytes))

    async def handle(request: AdmissionRequest[bytes]) -> Answer:
        return _answer(request, await verdict(request))

    return handle


def same_spec(new: bytes, old: bytes) -> bool:
    """Return whether two objects, as JSON, have the same spec; nothing has none."""
    if not new or not old:
        return False
    new_spec, old_spec = _spec(new), _spec(old)
    return new_spec == old_spec and new_spec is not None


def _spec(data: bytes) -> Any:
    try:
        decoded = msgspec.json.decode(data)
    except _UNFIT:
        return None
    return decoded.get("spec", {}) if isinstance(decoded, dict) else None


def _answer(request: AdmissionRequest[bytes], verdict: Verdict) -> Answer:
    """Return a verdict as the response to an admission request."""
    if verdict.allowed:
        return Allowed(verdict.warnings)
    if verdict.refusal and verdict.forbidden:
        return Denied(verdict.refusal, warnings=verdict.warnings)
    if verdict.refusal:
        return Denied(verdict.refusal, "BadRequest", 400, warnings=verdict.warnings)
    sentence = verdict.sentence()
    if request.operation == "DELETE":
        return Denied(sentence, causes=verdict.causes, warnings=verdict.warnings)
    kind = request.kind
    message = f'{kind.kind}.{kind.group} "{request.name}" is invalid: {sentence}'
    return Denied.invalid(message, *verdict.causes, warnings=verdict.warnings)


def path(resource: Resource[Any]) -> str:
    """Return where a kind is validated: `/validate-butler-butlerlabs-dev-v1alpha1-networkpool`."""
    group = resource.group.replace(".", "-")
    return f"/validate-{group}-{resource.version}-{resource.kind.lower()}"


def webhooks(
    client: Client,
    caches: Caches,
    clock: Clock,
    settings: Settings,
    list_others: ListOtherHoldings = list_nothing,
    *,
    spaces: SpaceIndex,
) -> list[Webhook[bytes]]:
    """Return the webhooks of all four kinds.

    Args:
        client: for live reads.
        caches: what is known; current in every replica.
        clock: the readers'.
        settings: limits, and what references without a namespace mean.
        list_others: what others than IPAllocations hold of a NetworkPool.
        spaces: what pools of all kinds hand out.
    """
    pools, allocations = caches.pools, caches.allocations
    home, limit = settings.namespace, settings.pool.max_addresses
    allowed = settings.pool.namespaces
    providers = Providers(client, caches.providers, clock=clock, default_namespace=home)
    pool_validator = PoolValidator(
        *(client, pools, allocations, clock, limit),
        spaces=spaces,
        list_others=list_others,
        namespaces=allowed,
    )
    allocation_validator = AllocationValidator(
        *(client, pools, allocations, clock, limit),
        clusters=caches.clusters,
        namespaces=allowed,
    )
    cluster_validator = ClusterValidator(
        client,
        providers,
        spaces=spaces,
        allocations=allocations,
        default_namespace=home,
        namespaces=allowed,
    )
    return [
        webhook(NETWORK_POOL, pool_validator),
        webhook(IP_ALLOCATION, allocation_validator),
        webhook(TENANT_CLUSTER, cluster_validator, partial(review_release, client)),
        webhook(
            PROVIDER_CONFIG,
            ProviderValidator(client, caches.clusters, default_namespace=home, namespaces=allowed),
        ),
    ]


def webhook(
    resource: Resource[Any], validator: Validator[Any], guard: Guard | None = None
) -> Webhook[bytes]:
    """Return the webhook of one kind.

    Args:
        resource: the kind.
        validator: decides about one request.
        guard: asked before; None if the kind needs none.
    """
    return Webhook(path(resource), handler(resource, validator, guard), bytes)
