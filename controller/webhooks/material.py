"""The certificates that replicas share, as bytes: whoever only passes them on needs no more."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Material:
    """What replicas share, all PEM.

    Args:
        bundle: the authorities to be trusted, the newest first.
        authority_key: of the newest one.
        certificate: what is served.
        key: of the certificate.
    """

    bundle: bytes
    authority_key: bytes = field(repr=False)
    certificate: bytes
    key: bytes = field(repr=False)
