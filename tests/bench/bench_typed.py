"""What it costs to decode a Pod to types of several origins: microseconds, memory, import time.

The framework decodes by msgspec. A type with few fields, written by hand, is compared with
generated models of whole kinds: lightkube's, cloudcoil's and kubernetes_asyncio's. A package that
is not installed is named and left out. Each import is timed in an interpreter of its own.

    python -m tests.bench typed
"""

import gc
import json
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import click
import msgspec

from controller.codec import get_decoder
from controller.meta import MetadataOnly, ObjectMeta, Untyped

TIMES = 2000
KEPT = 500
_DESERIALIZE = "_ApiClient__deserialize"
"""What decodes the body of a response; a private method of its ApiClient."""
CONTAINERS = 2
VARIABLES = 10


@dataclass(frozen=True, slots=True)
class FewSpec:
    """The fields that a reconciler reads."""

    nodeName: str = ""


@dataclass(frozen=True, slots=True)
class FewStatus:
    """The fields that a reconciler reads."""

    phase: str = ""
    podIP: str = ""


@dataclass(frozen=True, slots=True)
class FewPod:
    """A Pod with the fields that a reconciler reads."""

    metadata: ObjectMeta
    spec: FewSpec = FewSpec()
    status: FewStatus = FewStatus()


def make_pod() -> bytes:
    """Return a Pod with two containers, as a server sends it."""
    now = "2026-01-01T00:00:00Z"
    container = {
        "image": "nginx:1.29",
        "ports": [{"containerPort": 80, "protocol": "TCP"}],
        "env": [{"name": f"VARIABLE_{index}", "value": "value"} for index in range(VARIABLES)],
        "resources": {"limits": {"cpu": "1", "memory": "64Mi"}},
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
        "livenessProbe": {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 10},
    }
    names = [f"container-{index}" for index in range(CONTAINERS)]
    conditions = ("Ready", "Initialized", "ContainersReady", "PodScheduled")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u"}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-0",
            "namespace": "default",
            "uid": "6a2f",
            "resourceVersion": "5",
            "creationTimestamp": now,
            "labels": {"app": "web"},
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {
            "nodeName": "node-1",
            "containers": [{**container, "name": name} for name in names],
            "volumes": [{"name": "scratch", "emptyDir": {}}],
            "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        },
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "conditions": [
                {"type": condition, "status": "True", "lastTransitionTime": now}
                for condition in conditions
            ],
            "containerStatuses": [
                {
                    "name": name,
                    "ready": True,
                    "restartCount": 0,
                    "image": "nginx:1.29",
                    "imageID": "sha256:0",
                    "state": {"running": {"startedAt": now}},
                }
                for name in names
            ],
        },
    }
    return json.dumps(body).encode()


def make_lightkube_decoder() -> Callable[[bytes], Any]:
    """Return a decoder to our metadata with lightkube's models of spec and status."""
    from lightkube.models import core_v1  # type: ignore[import-not-found,unused-ignore] # optional

    model = msgspec.defstruct(
        "Pod",
        [
            ("metadata", ObjectMeta),
            ("spec", core_v1.PodSpec),
            ("status", core_v1.PodStatus),
        ],
    )
    return msgspec.json.Decoder(model).decode


def make_cloudcoil_decoder() -> Callable[[bytes], Any]:
    """Return the decoder of cloudcoil's pydantic model."""
    from cloudcoil.models.kubernetes.core import v1  # type: ignore[import-not-found] # optional

    decode: Callable[[bytes], Any] = v1.Pod.model_validate_json
    return decode


def make_kubernetes_decoder() -> Callable[[bytes], Any]:
    """Return the decoder of kubernetes_asyncio's model."""
    from kubernetes_asyncio import client

    api = client.ApiClient.__new__(client.ApiClient)
    api.configuration = client.Configuration()
    deserialize = getattr(api, _DESERIALIZE)
    return lambda data: deserialize(json.loads(data), "V1Pod")


DECODERS: dict[str, tuple[str, Callable[[], Callable[[bytes], Any]], str]] = {
    "MetadataOnly": ("controller", lambda: get_decoder(MetadataOnly), "controller.meta"),
    "three fields by hand": ("controller", lambda: get_decoder(FewPod), "controller.meta"),
    "lightkube's spec and status": (
        "lightkube",
        make_lightkube_decoder,
        "lightkube.models.core_v1",
    ),
    "Untyped": ("controller", lambda: get_decoder(Untyped), "controller.meta"),
    "cloudcoil's model": (
        "cloudcoil",
        make_cloudcoil_decoder,
        "cloudcoil.models.kubernetes.core.v1",
    ),
    "kubernetes_asyncio's model": (
        "kubernetes_asyncio",
        make_kubernetes_decoder,
        "kubernetes_asyncio.client",
    ),
}
"""By label: the package, what makes the decoder, and the module whose import is timed."""


def measure(decode: Callable[[bytes], Any], data: bytes) -> tuple[float, float]:
    """Return the microseconds that decoding an object takes, and the KiB that the object holds."""
    decode(data)
    gc.collect()
    begun = time.perf_counter()
    for _ in range(TIMES):
        decode(data)
    micros = (time.perf_counter() - begun) / TIMES * 1e6
    gc.collect()
    tracemalloc.start()
    kept = [decode(data) for _ in range(KEPT)]
    memory, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return micros, memory / len(kept) / 1024


def measure_import_seconds(module: str) -> float:
    """Return how long the import of a module takes in a new interpreter."""
    program = (
        "import time; begun = time.perf_counter(); "
        f"import {module}; print(time.perf_counter() - begun)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def run() -> None:
    """Print a line for each way to decode a Pod."""
    data = make_pod()
    click.echo(f"a Pod of {len(data)} bytes")
    click.echo(f"{'':32}{'us':>8}{'KiB':>8}{'import, s':>12}")
    for label, (package, make, module) in DECODERS.items():
        if find_spec(package) is None:
            click.echo(f"{label:32}{package} is not installed")
            continue
        micros, memory = measure(make(), data)
        click.echo(f"{label:32}{micros:8.1f}{memory:8.1f}{measure_import_seconds(module):12.2f}")
