"""Settings of control planes, from the same environment variables as in Go's envtest."""

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
    """The settings of the environment. Programs are None if they do not exist.

    Attributes:
        kind: which control plane to use.
        etcd: the path of etcd; set for `binaries`.
        apiserver: the path of kube-apiserver; set for `binaries`.
        controller_manager: the path of kube-controller-manager.
        metallb: the path of MetalLB's controller, which the embedded server can have as well.
        start_seconds: how long to wait until a process is ready.
        stop_seconds: how long to wait until a process ends.
        show_output: whether the output of processes is shown.
        lbipam: the path of Cilium's LB-IPAM, which the embedded server can have as well.
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
    """Return the settings of the environment.

    USE_EXISTING_CLUSTER takes precedence over binaries, and binaries over the embedded server.

    Args:
        env: the environment variables; None for those of this process.

    Raises:
        PlaneError: a variable names no program, or cannot be parsed.
    """
    env = os.environ if env is None else env
    start = _read_duration(env, "KUBEBUILDER_CONTROLPLANE_START_TIMEOUT", _START_SECONDS)
    stop = _read_duration(env, "KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT", _STOP_SECONDS)
    if env.get("USE_EXISTING_CLUSTER", "").lower() == "true":
        return EnvironmentSettings("existing", start_seconds=start, stop_seconds=stop)
    etcd = _find_binary(env, "TEST_ASSET_ETCD", "etcd")
    apiserver = _find_binary(env, "TEST_ASSET_KUBE_APISERVER", "kube-apiserver")
    metallb = _find_optional_binary(env, "TEST_ASSET_METALLB_CONTROLLER", *_METALLB)
    lbipam = _find_optional_binary(env, "TEST_ASSET_CILIUM_LBIPAM", "cilium-lbipam")
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
    manager = _find_optional_binary(
        env, "TEST_ASSET_KUBE_CONTROLLER_MANAGER", "kube-controller-manager"
    )
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


def _find_optional_binary(env: Mapping[str, str], variable: str, *names: str) -> Path | None:
    """Return the binary that a variable names, or the first of `names` in KUBEBUILDER_ASSETS.

    None if the variable is not set and the folder has none of the names.
    """
    if env.get(variable):
        return _find_binary(env, variable, names[0])
    # Without the variable, no file is found: there is none below /dev/null.
    folder = Path(env.get("KUBEBUILDER_ASSETS") or os.devnull)
    binary = next((name for name in names if (folder / name).exists()), None)
    return _find_binary(env, variable, binary) if binary else None


def _find_binary(env: Mapping[str, str], variable: str, name: str) -> Path | None:
    """Return the binary that a variable names, or else the one in KUBEBUILDER_ASSETS.

    None if neither variable is set.

    Raises:
        PlaneError: there is no such program.
    """
    if env.get(variable):
        path, source = Path(env[variable]), variable
    elif env.get("KUBEBUILDER_ASSETS"):
        path, source = Path(env["KUBEBUILDER_ASSETS"]) / name, "KUBEBUILDER_ASSETS"
    else:
        return None
    if not (path.is_file() and os.access(path, os.X_OK)):
        raise PlaneError(
            f"{source} names {path}, which is not an executable file; correct or unset it"
        )
    return path


def _read_duration(env: Mapping[str, str], variable: str, default: float) -> float:
    """Return a duration in seconds; the variable has Go's notation, such as `90s` or `1m30s`.

    Raises:
        PlaneError: the variable cannot be parsed.
    """
    setting = env.get(variable, "")
    if not setting:
        return default
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", setting)
    if not parts or "".join(number + unit for number, unit in parts) != setting:
        raise PlaneError(
            f"{variable}={setting!r} is not a duration; write for example 90s or 1m30s"
        )
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
