"""From a request of the API server to the rules and back.

Each kind has a URL path, which manifests/webhook names. The paths are those of Butler.

Some writes are allowed without validation, whatever the rules say:

- A write that leaves the spec unchanged: status, labels, finalizers. An object whose spec was
  stored before a rule existed must still be reconciled and deleted. The exceptions are the
  annotation that releases a tenant's addresses (`releasing.py`), and the annotations that a
  platform names (`Platform.validated_annotations`).
- The deletion of an object that is already being deleted.
- The deletion of an object that cannot be decoded.
"""

from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Any, TypeVar

import msgspec

from controller.client import Client
from controller.clock import Clock
from controller.codec import DECODE_ERRORS
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
from reconcilers.specrules.verdict import NOTHING, Validator, Verdict, build_invalid_cause
from reconcilers.tenantcluster.provider import Providers
from reconcilers.webhooks.annotations import decode_annotations
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

Guard = Callable[[AdmissionRequest[bytes]], Awaitable[Verdict | None]]
"""Refuses a write for a reason outside its spec; returns None if it does not refuse the write."""


def make_handler(
    resource: Resource[T],
    validator: Validator[T],
    guard: Guard | None = None,
    annotations: Collection[str] = (),
) -> Handler[bytes]:
    """Return the handler of admission requests about one kind.

    The handler takes the objects as bytes. So it can compare an object with the stored object,
    even if one of the two cannot be decoded.

    Args:
        resource: the kind.
        validator: decides about one request, given the decoded objects.
        guard: decides first, about writes that leave the spec unchanged, too; None if the kind
            has no such rule.
        annotations: names of annotations whose edits are validated as edits of the spec are.
    """
    decode: Callable[[bytes], T] = msgspec.json.Decoder(resource.type).decode

    def decode_stored(data: bytes) -> T | None:
        """Return the stored object of a request; None if it cannot be decoded."""
        try:
            return decode(data)
        except DECODE_ERRORS:
            return None

    async def review(request: AdmissionRequest[bytes]) -> Verdict:
        """Return the verdict on one request.

        1. The guard refuses the write: its verdict.
        2. A deletion: the validator's verdict. It is allowed if the object is being deleted
           already, or cannot be decoded.
        3. A write of a subresource, or one that leaves spec and `annotations` unchanged: allowed.
        4. An object that cannot be decoded: refused.
        5. A creation or an edit of the spec: the validator's verdict.
        """
        refusal = await guard(request) if guard is not None else None
        if refusal is not None:
            return refusal
        if request.operation == "DELETE":
            old = decode_stored(request.oldObjectBytes)
            return (
                NOTHING
                if old is None or old.metadata.is_terminating
                else await validator.review_deletion(old)
            )
        new_bytes, old_bytes = request.objectBytes, request.oldObjectBytes
        if request.subResource or (
            has_same_spec(new_bytes, old_bytes)
            and has_same_annotations(new_bytes, old_bytes, annotations)
        ):
            return NOTHING
        try:
            new = decode(request.objectBytes)
        except DECODE_ERRORS as error:
            return Verdict.from_causes(
                [build_invalid_cause((), f"it cannot be read as a {resource.kind}: {error}")]
            )
        if request.operation == "CREATE":
            return await validator.review_creation(new)
        return await validator.review_update(new, decode_stored(request.oldObjectBytes))

    async def handle(request: AdmissionRequest[bytes]) -> Answer:
        """Return the response to one request."""
        return _build_answer(request, await review(request))

    return handle


def has_same_spec(new: bytes, old: bytes) -> bool:
    """Return whether two objects, as JSON, have equal specs.

    False if an object is absent or no JSON object, as in a creation.
    """
    if not new or not old:
        return False
    new_spec, old_spec = _decode_spec(new), _decode_spec(old)
    return new_spec == old_spec and new_spec is not None


def has_same_annotations(new: bytes, old: bytes, names: Collection[str]) -> bool:
    """Return whether two objects, as JSON, have equal values of some annotations."""
    if not names:
        return True  # spares the decoding
    annotations, old_annotations = decode_annotations(new), decode_annotations(old)
    return all(annotations.get(name) == old_annotations.get(name) for name in names)


def _decode_spec(data: bytes) -> Any:
    """Return the spec of an object, empty if it has none; None if it is no JSON object."""
    try:
        decoded = msgspec.json.decode(data)
    except DECODE_ERRORS:
        return None
    return decoded.get("spec", {}) if isinstance(decoded, dict) else None


def _build_answer(request: AdmissionRequest[bytes], verdict: Verdict) -> Answer:
    """Return a verdict as the response to an admission request.

    1. Allowed, with warnings.
    2. Refused for a reason about no field: 403 if `forbidden`, else 400.
    3. A deletion refused by causes: 403, because a deletion has no new object to be invalid.
    4. Another write refused by causes: 422, in the form of the API server's own validation.
    """
    if verdict.allowed:
        return Allowed(verdict.warnings)
    if verdict.refusal and verdict.forbidden:
        return Denied(verdict.refusal, warnings=verdict.warnings)
    if verdict.refusal:
        return Denied(verdict.refusal, "BadRequest", 400, warnings=verdict.warnings)
    sentence = verdict.join_causes()
    if request.operation == "DELETE":
        return Denied(sentence, causes=verdict.causes, warnings=verdict.warnings)
    kind = request.kind
    message = f'{kind.kind}.{kind.group} "{request.name}" is invalid: {sentence}'
    return Denied.invalid(message, *verdict.causes, warnings=verdict.warnings)


def build_path(resource: Resource[Object]) -> str:
    """Return the URL path of a kind's webhook.

    An example is `/validate-butler-butlerlabs-dev-v1alpha1-networkpool`.
    """
    group = resource.group.replace(".", "-")
    return f"/validate-{group}-{resource.version}-{resource.kind.lower()}"


def make_webhooks(
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
        caches: the objects; every replica keeps them current.
        clock: the time of the readers.
        settings: limits, and the namespace of references that name none.
        list_others: lists the holders of a NetworkPool's addresses that are no IPAllocations.
        spaces: what pools of all kinds hand out.
    """
    pools, allocations = caches.pools, caches.allocations
    home, limit = settings.namespace, settings.pool.max_addresses
    allowed = settings.pool.namespaces
    providers = Providers(client, caches.providers, clock=clock, default_namespace=home)
    pool_validator = PoolValidator(
        client,
        pools,
        allocations=allocations,
        clock=clock,
        max_addresses=limit,
        spaces=spaces,
        list_others=list_others,
        namespaces=allowed,
    )
    allocation_validator = AllocationValidator(
        client,
        pools,
        allocations=allocations,
        clock=clock,
        max_addresses=limit,
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
        make_webhook(NETWORK_POOL, pool_validator),
        make_webhook(IP_ALLOCATION, allocation_validator),
        make_webhook(TENANT_CLUSTER, cluster_validator, partial(review_release, client)),
        make_webhook(
            PROVIDER_CONFIG,
            ProviderValidator(client, caches.clusters, default_namespace=home, namespaces=allowed),
        ),
    ]


def make_webhook(
    resource: Resource[T],
    validator: Validator[T],
    guard: Guard | None = None,
    annotations: Collection[str] = (),
) -> Webhook[bytes]:
    """Return the webhook of one kind.

    Args:
        resource: the kind.
        validator: decides about one request.
        guard: decides before the validator; None if the kind has no such rule.
        annotations: names of annotations whose edits are validated as edits of the spec are.
    """
    handler = make_handler(resource, validator, guard, annotations=annotations)
    return Webhook(build_path(resource), handler, bytes)
