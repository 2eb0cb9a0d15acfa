"""The metadata of stored objects, the only part that controllers decode."""

import msgspec


class StoredOwner(msgspec.Struct):
    """An owner reference."""

    uid: str
    apiVersion: str = ""  # the API's own names
    kind: str = ""
    name: str = ""
    blockOwnerDeletion: bool = False


class StoredMeta(msgspec.Struct):
    """The metadata of an object; a field that is absent is empty."""

    uid: str
    name: str = ""
    namespace: str = ""
    finalizers: list[str] = []
    ownerReferences: list[StoredOwner] = []
    deletionTimestamp: str = ""


class _Object(msgspec.Struct):
    """An object of which only the metadata are decoded."""

    metadata: StoredMeta


_decode = msgspec.json.Decoder(_Object).decode


def decode_metadata(body: bytes) -> StoredMeta:
    """Return the metadata of a stored object."""
    return _decode(body).metadata
