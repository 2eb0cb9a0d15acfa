"""IPAddresses, the objects that are created for a claim before its status names them.

A promise, an address that a pool's journal reserves for a claim, is kept by the write of the
claim's status. The IPAddress does not keep it, because a create has no precondition. Each kind of
claims adds the body of an IPAddress, and which existing IPAddress belongs to a claim.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from controller.client import Client
from controller.errors import AlreadyExists
from controller.loggers import get_logger
from controller.meta import Key, Object, ObjectMeta, OwnerReference, Version
from controller.resource import Resource
from reconcilers.integrations.core.deletions import delete_with_finalizer
from reconcilers.integrations.core.owners import get_owner_identity, render_owner_reference

T = TypeVar("T", bound=Object)
_log = get_logger(__name__)


class AddressObjects(Generic[T]):
    """Creates, repairs, recreates and deletes IPAddresses of one kind.

    Args:
        client: for the writes.
        kind: of the IPAddresses.
        finalizer: keeps an IPAddress until this program has released it.
        logged: the uids of IPAddresses whose release has a log line, until they are gone.
    """

    def __init__(
        self, client: Client, kind: Resource[T], finalizer: str, logged: set[str]
    ) -> None:
        self._client = client
        self._kind = kind
        self._finalizer = finalizer
        self._logged = logged

    async def create(self, body: Mapping[str, Any]) -> tuple[T, bool]:
        """Create an IPAddress.

        Returns:
            The IPAddress of this name, and whether it was created; if not, it existed already.

        Raises:
            ControllerError: a request failed.
        """
        metadata = body["metadata"]
        namespace = str(metadata["namespace"])
        try:
            return await self._client.create(self._kind, namespace, body), True
        except AlreadyExists:
            key = Key(namespace, str(metadata["name"]))
            return await self._client.get(self._kind, key), False

    async def repair(self, address: T, patch: Mapping[str, Any]) -> T:
        """Write the metadata that an IPAddress lacks; return the IPAddress as it is then.

        Args:
            address: as it was read. Its version is the precondition of the write.
            patch: the missing metadata; if empty, nothing is written.

        Raises:
            Conflict: it changed meanwhile.
            ControllerError: the write failed.
        """
        if not patch:
            return address
        version = Version.from_object(address)
        return await self._client.patch(self._kind, version, {"metadata": patch})

    async def recreate(self, address: T, body: Mapping[str, Any], fields: Mapping[str, str]) -> T:
        """Replace an IPAddress that is being deleted by a new one with the same address.

        The claim records the address, so no other claim gets it between deletion and creation.

        Args:
            address: the old IPAddress, as it was read.
            body: the body of the new IPAddress, which has the same name.
            fields: the fields of the log line about the release of the old IPAddress.

        Returns:
            The new IPAddress; the old one if a finalizer of another program still keeps it.
        """
        await self.remove(address, fields)
        # If the old IPAddress still exists, `create` returns it.
        new_or_old_address, _ = await self.create(body)
        return new_or_old_address

    async def remove(self, address: T, fields: Mapping[str, str]) -> None:
        """Delete an IPAddress at the version that was read, then remove our finalizer.

        Args:
            address: as it was read.
            fields: the fields of the log line about the release.

        Raises:
            Conflict: it changed meanwhile.
            ControllerError: a request failed.
        """
        self._log_release(address.metadata, fields)
        await delete_with_finalizer(
            self._client, self._kind, obj=address, finalizer=self._finalizer
        )

    def _log_release(self, meta: ObjectMeta, fields: Mapping[str, str]) -> None:
        """Log a release, and note its uid so that the deletion is not logged again."""
        _log.info("releasing IPAddress", address=str(meta.key), **fields)
        self._logged.add(meta.uid)


def _is_never_stale(_: OwnerReference) -> bool:
    """Return False for every owner, so that all owners of other programs stay."""
    return False


def build_missing_metadata_patch(
    meta: ObjectMeta,
    finalizer: str,
    owners: Sequence[OwnerReference],
    labels: Mapping[str, str],
    is_stale: Callable[[OwnerReference], bool] = _is_never_stale,
) -> dict[str, Any]:
    """Return a patch of the metadata that an IPAddress lacks; empty if it lacks nothing.

    Owners are compared by group, kind and name, because the API version may differ. If the uid or
    a flag of a required owner is wrong, the required reference takes the place of the old one.
    Owners and labels of other programs stay; missing owners are added after them.

    Args:
        meta: the metadata of the IPAddress, as it was read.
        finalizer: the finalizer that the IPAddress must have, unless it is being deleted.
        owners: the owner references that the IPAddress must have.
        labels: the labels that the IPAddress must have.
        is_stale: returns whether to remove an owner that is not among `owners`.
    """
    patch = dict[str, Any]()
    # The API server rejects a new finalizer on an object that is being deleted.
    if finalizer not in meta.finalizers and not meta.is_terminating:
        patch["finalizers"] = [*meta.finalizers, finalizer]
    missing_owners = list(owners)
    references: list[OwnerReference] = []
    for reference in meta.ownerReferences:
        required_owner = next(
            (
                owner
                for owner in missing_owners
                if get_owner_identity(owner) == get_owner_identity(reference)
            ),
            None,
        )
        if required_owner is not None:
            missing_owners.remove(required_owner)
            references.append(
                reference if _matches_required_owner(reference, required_owner) else required_owner
            )
        elif not is_stale(reference):
            references.append(reference)
    references += missing_owners
    # A JSON merge patch replaces a list as a whole, so it names the owners that stay, too.
    if tuple(references) != meta.ownerReferences:
        patch["ownerReferences"] = [render_owner_reference(reference) for reference in references]
    changed_labels = {
        name: value for name, value in labels.items() if meta.labels.get(name) != value
    }
    if changed_labels:
        patch["labels"] = changed_labels
    return patch


def _matches_required_owner(reference: OwnerReference, required_owner: OwnerReference) -> bool:
    """Return whether a reference has the uid of a required owner, and each flag that it sets.

    A flag of the required owner that is None is not required: the reference may have any value.
    """
    return (
        reference.uid == required_owner.uid
        and required_owner.controller in {None, reference.controller}
        and required_owner.blockOwnerDeletion in {None, reference.blockOwnerDeletion}
    )
