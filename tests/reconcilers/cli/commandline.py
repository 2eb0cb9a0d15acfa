"""Runs the command line in this process, as a shell would, and keeps what it printed."""

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
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        return _sentences(self.err, "error: ")

    @property
    def warnings(self) -> list[str]:
        return _sentences(self.err, "warning: ")

    @property
    def items(self) -> dict[str, dict[str, Any]]:
        """The objects of a printed List, by `Kind/name`."""
        whole = json.loads(self.out)
        assert (whole["apiVersion"], whole["kind"]) == ("v1", "List")
        return {f"{item['kind']}/{item['metadata']['name']}": item for item in whole["items"]}


def _sentences(content: str, kind: str) -> list[str]:
    return [line.removeprefix(kind) for line in content.splitlines() if line.startswith(kind)]


@contextmanager
def logging_kept() -> Iterator[None]:
    """Take back what a command changes of this process's logging."""
    before, root = structlog.get_config(), logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        yield
    finally:
        structlog.configure(**before)
        root.handlers[:] = handlers
        root.setLevel(level)


def run(*arguments: str | Path, stdin: bytes = b"", program: str = "butler-ipam") -> Outcome:
    """Run a command; every way out of it is an exit code."""
    code: object = None
    out, err = io.StringIO(), io.StringIO()
    with (
        logging_kept(),
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


async def run_beside(*arguments: str | Path) -> Outcome:
    """Run a command in a thread, beside this event loop and the server that it may run."""
    return await anyio.to_thread.run_sync(partial(run, *arguments))


def plan(*objects: Mapping[str, Any], options: Sequence[str] = ()) -> Outcome:
    """Plan objects given as values; the outcome is JSON."""
    manifests = written_yaml(objects)
    return run("plan", "-f", "-", "-o", "json", *options, stdin=manifests.encode())


def plan_text(content: str, *options: str) -> Outcome:
    """Plan manifests given as text; the outcome is a table unless `options` say otherwise."""
    return run("plan", "-f", "-", *options, stdin=content.encode())


def thing(kind: str, name: str, spec: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return an object of ours; `more` is metadata, or `status`."""
    status = more.pop("status", None)
    body: dict[str, Any] = {
        "apiVersion": API,
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE, **more},
        "spec": dict(spec),
    }
    return body | ({"status": status} if status is not None else {})


def pool(name: str = "lab", cidr: str = "10.40.0.0/24", **more: Any) -> dict[str, Any]:
    """Return a NetworkPool; `tenant`, `reserved` and `edges` go into its spec.

    It confirms that it hands out network and broadcast addresses unless `edges` says otherwise.
    """
    spec: dict[str, Any] = {"cidr": cidr, "excludeNetworkAndBroadcast": more.pop("edges", False)}
    if "tenant" in more:
        spec["tenantAllocation"] = more.pop("tenant")
    if "reserved" in more:
        spec["reserved"] = [{"cidr": cidr} for cidr in more.pop("reserved")]
    return thing("NetworkPool", name, spec, **more)


def allocation(
    name: str, count: int | None = None, of: str = "lab", **more: Any
) -> dict[str, Any]:
    """Return an IPAllocation; `kind`, `pin` and `tenant` go into its spec."""
    namespace, _, tenant = more.pop("tenant", "others/one").partition("/")
    spec: dict[str, Any] = {
        "poolRef": {"name": of},
        "tenantClusterRef": {"name": tenant, "namespace": namespace},
        "type": more.pop("kind", "loadbalancer"),
    }
    if count is not None:
        spec["count"] = count
    if "pin" in more:
        start, end = more.pop("pin")
        spec["pinnedRange"] = {"startAddress": start, "endAddress": end}
    return thing("IPAllocation", name, spec, **more)


def holding(start: str, end: str, phase: str = "Allocated") -> dict[str, Any]:
    """Return the status of an allocation that holds a range."""
    return {"phase": phase, "startAddress": start, "endAddress": end}


def provider(name: str, *pools: str, **network: Any) -> dict[str, Any]:
    """Return a ProviderConfig that draws from `pools`, first choice first."""
    refs = [{"name": pool, "priority": at} for at, pool in enumerate(pools)]
    spec = {"provider": "local", "network": {"mode": "ipam", "poolRefs": refs, **network}}
    return thing("ProviderConfig", name, spec)


def cluster(name: str = "app", of: str | None = "prov", **more: Any) -> dict[str, Any]:
    """Return a TenantCluster in namespace team; `networking` and `addons` go into its spec."""
    spec: dict[str, Any] = {"kubernetesVersion": "v1.33.1", "workers": {"replicas": 1}}
    if of is not None:
        spec["providerConfigRef"] = {"name": of}
    for field in ("networking", "addons"):
        if field in more:
            spec[field] = more.pop(field)
    return thing("TenantCluster", name, spec, **({"namespace": "team"} | more))


def ready(body: Mapping[str, Any], condition: str = "Ready") -> dict[str, Any]:
    """Return a condition of an object."""
    conditions = [
        candidate for candidate in body["status"]["conditions"] if candidate["type"] == condition
    ]
    assert len(conditions) == 1
    return dict(conditions[0])
