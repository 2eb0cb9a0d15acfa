"""Which control plane to start: environment variables as controller-runtime's envtest has them."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_START_SECONDS = 60.0
_STOP_SECONDS = 20.0
# The second is what `go install go.universe.tf/metallb/controller` calls it.
_METALLB = ("metallb-controller", "controller")


class PlaneError(Exception):
    """A control plane cannot be started or used; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class EnvironmentSettings:
    """What the environment asks for.

    Attributes:
        kind: of control plane.
        etcd: the program, and so on; of those after kube-apiserver, None if it is not there.
        apiserver: kube-apiserver.
        controller_manager: kube-controller-manager.
        metallb: MetalLB's controller, which runs on the embedded server as well.
        start_seconds: how long to wait for each to be ready.
        stop_seconds: how long to wait for each to end.
        show_output: whether what they say is shown.
        lbipam: Cilium's LB-IPAM, which runs on the embedded server as well.
    """

    kind: Literal["embedded", "binaries", "existing"]
    etcd: Path | None = None
    apiserver: Path | None = None
    controller_manager: Path | None = None
    metallb: Path | None = None
    start_seconds: float = _START_SECONDS
    stop_seconds: float = _STOP_SECONDS
    show_output: bool = False
    lbipam: Path | None = None


def read_settings(env: Mapping[str, str] | None = None) -> EnvironmentSettings:
    """Read the environment.

    Raises:
        PlaneError: a variable names what is not there.
    """
    env = os.environ if env is None else env
    start = _duration(env, "KUBEBUILDER_CONTROLPLANE_START_TIMEOUT", _START_SECONDS)
    stop = _duration(env, "KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT", _STOP_SECONDS)
    if env.get("USE_EXISTING_CLUSTER", "").lower() == "true":
        return EnvironmentSettings("existing", start_seconds=start, stop_seconds=stop)
    etcd = _binary(env, "TEST_ASSET_ETCD", "etcd")
    apiserver = _binary(env, "TEST_ASSET_KUBE_APISERVER", "kube-apiserver")
    metallb = _optional(env, "TEST_ASSET_METALLB_CONTROLLER", *_METALLB)
    lbipam = _optional(env, "TEST_ASSET_CILIUM_LBIPAM", "cilium-lbipam")
    show_output = env.get("KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT", "").lower() == "true"
    if etcd is None or apiserver is None:
        if etcd or apiserver:
            missing = "TEST_ASSET_ETCD" if etcd is None else "TEST_ASSET_KUBE_APISERVER"
            raise PlaneError(f"only one of the two binaries is named; set {missing}, too")
        return EnvironmentSettings(
            "embedded",
            None,
            apiserver=None,
            controller_manager=None,
            metallb=metallb,
            start_seconds=start,
            stop_seconds=stop,
            show_output=show_output,
            lbipam=lbipam,
        )
    manager = _optional(env, "TEST_ASSET_KUBE_CONTROLLER_MANAGER", "kube-controller-manager")
    return EnvironmentSettings(
        "binaries",
        etcd,
        apiserver=apiserver,
        controller_manager=manager,
        metallb=metallb,
        start_seconds=start,
        stop_seconds=stop,
        show_output=show_output,
        lbipam=lbipam,
    )


def _optional(env: Mapping[str, str], variable: str, *names: str) -> Path | None:
    """Return a binary that need not be in KUBEBUILDER_ASSETS, by the first name found there."""
    if env.get(variable):
        return _binary(env, variable, names[0])
    folder = Path(env.get("KUBEBUILDER_ASSETS") or os.devnull)
    binary = next((name for name in names if (folder / name).exists()), None)
    return _binary(env, variable, binary) if binary else None


def _binary(env: Mapping[str, str], variable: str, name: str) -> Path | None:
    """Return the binary that a variable names, or that is in KUBEBUILDER_ASSETS."""
    if env.get(variable):
        path, source = Path(env[variable]), variable
    elif env.get("KUBEBUILDER_ASSETS"):
        path, source = Path(env["KUBEBUILDER_ASSETS"]) / name, "KUBEBUILDER_ASSETS"
    else:
        return None
    if not (path.is_file() and os.access(path, os.X_OK)):
        raise PlaneError(f"{source} leads to {path}, which is no program; correct or unset it")
    return path


def _duration(env: Mapping[str, str], variable: str, otherwise: float) -> float:
    """Return a duration in seconds; written as Go writes them (`90s`, `1m30s`)."""
    setting = env.get(variable, "")
    if not setting:
        return otherwise
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", setting)
    if not parts or "".join(number + unit for number, unit in parts) != setting:
        raise PlaneError(f"{variable}={setting!r} is no duration; write it like 90s or 1m30s")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
