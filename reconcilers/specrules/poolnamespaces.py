"""In which namespaces NetworkPools and ProviderConfigs count (`--pool-namespaces`).

Webhooks refuse them elsewhere. Webhooks may be off, so reconcilers hand out nothing there either;
earlier allocations are kept, and deletion is never refused.
"""

from collections.abc import Sequence

NAMESPACE_NOT_ALLOWED = "NamespaceNotAllowed"


def describe_refused_namespace(namespace: str, allowed: Sequence[str]) -> str:
    """Return why NetworkPools and ProviderConfigs of a namespace are ignored; empty if they count.

    Args:
        namespace: of the object.
        allowed: the namespaces of `--pool-namespaces`; empty for all.
    """
    if not allowed or namespace in allowed:
        return ""
    return (
        f"namespace {namespace} may not hold NetworkPools or ProviderConfigs; --pool-namespaces"
        f" allows {', '.join(allowed)}"
    )
