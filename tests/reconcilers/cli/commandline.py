"""Running commands in this process, as a shell would, and the objects that tests give them."""

import io
import json
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import anyio
import structlog

from reconcilers.cli.main import main
from tests.yamls import written_yaml

API = "butler.butlerlabs.dev/v1alpha1"
NAMESPACE = "butler-system"


@dataclass(frozen=True)
class Outcome:
    """The result of a command: its exit code, standard output and standard error."""

    code: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        """The lines of standard error that begin with `error: `, without that."""
        return _select_lines(self.err, "error: ")

    @property
    def warnings(self) -> list[str]:
        """The lines of standard error that begin with `warning: `, without that."""
        return _select_lines(self.err, "warning: ")

    @property
    def items(self) -> dict[str, dict[str, Any]]:
        """The objects of the List on standard output, by `Kind/name`."""
        document = json.loads(self.out)
        assert (document["apiVersion"], document["kind"]) == ("v1", "List")
        return {f"{item['kind']}/{item['metadata']['name']}": item for item in document["items"]}


def _select_lines(content: str, prefix: str) -> list[str]:
    """Return the lines that begin with a prefix, without the prefix."""
    return [line.removeprefix(prefix) for line in content.splitlines() if line.startswith(prefix)]


@contextmanager
def preserve_logging() -> Iterator[None]:
    """Restore this process's logging at the end of the context: commands configure it anew."""
    before, root = structlog.get_config(), logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        yield
    finally:
        structlog.configure(**before)
        root.handlers[:] = handlers
        root.setLevel(level)


def run(*arguments: str | Path, stdin: bytes = b"", program: str = "butler-ipam") -> Outcome:
    """Run a command in this process; it must end with an exit code.

    Args:
        arguments: the arguments of the command line.
        stdin: the content of standard input.
        program: the name under which the program is called.
    """
    code: object = None
    out, err = io.StringIO(), io.StringIO()
    with (
        preserve_logging(),
        redirect_stdout(out),
        redirect_stderr(err),
        patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin))),
        patch.object(sys, "argv", [program]),
    ):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = end.code
    assert isinstance(code, int)
    return Outcome(code, out.getvalue(), err.getvalue())


async def run_in_thread(*arguments: str | Path) -> Outcome:
    """Run a command in a thread, so that servers in this event loop can answer it."""
    return await anyio.to_thread.run_sync(partial(run, *arguments))


def plan(*objects: Mapping[str, Any], options: Sequence[str] = ()) -> Outcome:
    """Run `plan -o json` on objects, which are passed on standard input."""
    manifests = written_yaml(objects)
    return run("plan", "-f", "-", "-o", "json", *options, stdin=manifests.encode())


def plan_text(content: str, *options: str) -> Outcome:
    """Run `plan` on manifests as text; without `-o` among the options it prints a table."""
    return run("plan", "-f", "-", *options, stdin=content.encode())


def make_object(kind: str, name: str, spec: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return an object of our API group; `more` is further metadata, and its `status`."""
    status = more.pop("status", None)
    body: dict[str, Any] = {
        "apiVersion": API,
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE, **more},
        "spec": dict(spec),
    }
    return body | ({"status": status} if status is not None else {})


def make_pool(
    name: str = "lab",
    cidr: str = "10.40.0.0/24",
    *,
    reserved: Sequence[str] = (),
    tenant_allocation: Mapping[str, Any] | None = None,
    exclude_edges: bool = False,
    **more: Any,
) -> dict[str, Any]:
    """Return a NetworkPool.

    Args:
        cidr: its spec.cidr.
        reserved: the CIDRs of spec.reserved.
        tenant_allocation: its spec.tenantAllocation; None to leave it out.
        exclude_edges: its spec.excludeNetworkAndBroadcast.
        more: further metadata, and its `status`.
    """
    spec: dict[str, Any] = {"cidr": cidr, "excludeNetworkAndBroadcast": exclude_edges}
    if tenant_allocation is not None:
        spec["tenantAllocation"] = tenant_allocation
    if reserved:
        spec["reserved"] = [{"cidr": block} for block in reserved]
    return make_object("NetworkPool", name, spec, **more)


def make_allocation(
    name: str,
    count: int | None = None,
    pool: str = "lab",
    *,
    tenant: str = "others/one",
    purpose: str = "loadbalancer",
    pinned_range: tuple[str, str] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return an IPAllocation.

    Args:
        count: its spec.count; None to leave it out.
        pool: the name of its pool.
        tenant: the namespace/name of its TenantCluster.
        purpose: its spec.type.
        pinned_range: first and last address of its spec.pinnedRange; None to leave it out.
        more: further metadata, and its `status`.
    """
    namespace, _, cluster = tenant.partition("/")
    spec: dict[str, Any] = {
        "poolRef": {"name": pool},
        "tenantClusterRef": {"name": cluster, "namespace": namespace},
        "type": purpose,
    }
    if count is not None:
        spec["count"] = count
    if pinned_range is not None:
        start, end = pinned_range
        spec["pinnedRange"] = {"startAddress": start, "endAddress": end}
    return make_object("IPAllocation", name, spec, **more)


def make_held_status(start: str, end: str, phase: str = "Allocated") -> dict[str, Any]:
    """Return the status of an allocation that holds the range from `start` to `end`."""
    return {"phase": phase, "startAddress": start, "endAddress": end}


def make_provider(name: str, *pools: str, **network: Any) -> dict[str, Any]:
    """Return a ProviderConfig with these pools, by descending preference.

    Args:
        pools: names of NetworkPools.
        network: further fields of its spec.network.
    """
    refs = [{"name": pool, "priority": number} for number, pool in enumerate(pools)]
    spec = {"provider": "local", "network": {"mode": "ipam", "poolRefs": refs, **network}}
    return make_object("ProviderConfig", name, spec)


def make_cluster(
    name: str = "app",
    provider: str | None = "prov",
    *,
    namespace: str = "team",
    networking: Mapping[str, Any] | None = None,
    addons: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return a TenantCluster.

    Args:
        provider: the name of its ProviderConfig; None to name none.
        networking: its spec.networking; None to leave it out.
        addons: its spec.addons; None to leave it out.
        more: further metadata, and its `status`.
    """
    spec: dict[str, Any] = {"kubernetesVersion": "v1.33.1", "workers": {"replicas": 1}}
    if provider is not None:
        spec["providerConfigRef"] = {"name": provider}
    if networking is not None:
        spec["networking"] = networking
    if addons is not None:
        spec["addons"] = addons
    return make_object("TenantCluster", name, spec, namespace=namespace, **more)


def find_condition(body: Mapping[str, Any], condition_type: str = "Ready") -> dict[str, Any]:
    """Return the only condition of a type in the status of an object."""
    conditions = [
        condition
        for condition in body["status"]["conditions"]
        if condition["type"] == condition_type
    ]
    assert len(conditions) == 1
    return dict(conditions[0])
