"""Probes: /healthz, /livez and /readyz, whole or check by check.

A server that answers at all is well, so every check passes; what can be asked is what counts.
"""

from collections.abc import Sequence

from envtest.schema.gotext import quote

PROBES = ("healthz", "livez", "readyz")
# What a probe lists when it is asked to be verbose; each can be asked for alone.
CHECKS = ("ping", "log", "etcd", "poststarthook/rbac/bootstrap-roles")


def probe(path: str, *, excluded: Sequence[str] = (), verbose: bool = False) -> bytes | None:
    """Return what a probe says; None where there is no such probe or check.

    Args:
        path: of the request.
        excluded: checks that the client does not want.
        verbose: whether to list the checks.
    """
    name, slash, check = path.removeprefix("/").partition("/")
    if name not in PROBES or not path.startswith("/"):
        return None
    if slash:
        return b"ok" if check in CHECKS else None
    if not verbose:
        return b"ok"
    lines = [f"[+]{one} {'excluded: ' if one in excluded else ''}ok" for one in CHECKS]
    unknown = sorted(set(excluded) - set(CHECKS))
    if unknown:
        named = ",".join(map(quote, unknown))
        lines.append(f"warn: some health checks cannot be excluded: no matches for {named}")
    return "\n".join([*lines, f"{name} check passed", ""]).encode()
