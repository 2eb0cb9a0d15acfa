"""Descriptions that the server publishes of fields every object has."""

from typing import Final

CONVENTIONS: Final = (
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
)
_NAMES: Final = "https://kubernetes.io/docs/concepts/overview/working-with-objects/names"

NAME: Final = (
    "Name must be unique within a namespace. Is required when creating resources, although some "
    "resources may allow a client to request the generation of an appropriate name automatically. "
    "Name is primarily intended for creation idempotence and configuration definition. Cannot be "
    f"updated. More info: {_NAMES}#names"
)
CREATION_TIMESTAMP: Final = (
    "CreationTimestamp is a timestamp representing the server time when this object was created. "
    "It is not guaranteed to be set in happens-before order across separate operations. Clients "
    "may not set this value. It is represented in RFC3339 form and is in UTC.\n\n"
    "Populated by the system. Read-only. Null for lists. More info: "
    f"{CONVENTIONS}#metadata"
)
API_VERSION: Final = (
    "APIVersion defines the versioned schema of this representation of an object. Servers should "
    "convert recognized schemas to the latest internal value, and may reject unrecognized values. "
    f"More info: {CONVENTIONS}#resources"
)
KIND: Final = (
    "Kind is a string value representing the REST resource this object represents. Servers may "
    "infer this from the endpoint the client submits requests to. Cannot be updated. In "
    f"CamelCase. More info: {CONVENTIONS}#types-kinds"
)
METADATA: Final = f"Standard object's metadata. More info: {CONVENTIONS}#metadata"
LIST_METADATA: Final = f"Standard list metadata. More info: {CONVENTIONS}#types-kinds"
EMBEDDED_API_VERSION: Final = (
    "apiVersion defines the versioned schema of this representation of an object. More info: "
    f"{CONVENTIONS}#resources"
)
EMBEDDED_KIND: Final = (
    "kind is a string value representing the type of this object. In CamelCase. More info: "
    f"{CONVENTIONS}#types-kinds"
)
