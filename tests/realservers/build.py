"""Builds the real servers that the suite is held against, as ordinary Go dependencies.

    build.py [--into FOLDER] [PROGRAM...]

puts etcd, kube-apiserver, kube-controller-manager, kubectl, helm, MetalLB's controller and
Cilium's LB-IPAM into FOLDER/newest, those of the oldest Kubernetes that README claims and the
operator of the oldest Cilium that we support into FOLDER/oldest, and the controller that a
benchmark compares ours with into FOLDER/bench. Versions stand in the go.mod files: this folder's
(newest), oldest.mod, helm/go.mod, metallb/go.mod, cilium/go.mod, cilium/oldest.mod and
../bench/peer/go.mod. Checksums stand beside them, so building them asks no checksum database.

What is there is found again by a stamp beside each program: a digest of everything that the
program is made of. A second run takes no longer than reading them. Needs Go and its module proxy;
nothing but the standard library of Python.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NEWEST, OLDEST = "newest", "oldest"
KUBERNETES, ETCD = "k8s.io/kubernetes", "go.etcd.io/etcd/server/v3"
METALLB, HELM = "go.universe.tf/metallb", "helm.sh/helm/v3"
CILIUM = "github.com/cilium/cilium"
CLUSTER_API = "sigs.k8s.io/cluster-api"
CLIENT_GO = "k8s.io/client-go"
VERSION = "k8s.io/component-base/version"
COPIED = {
    f"{METALLB}/controller": {
        "config/crd/bases": "metallb-crds",
        "config/manifests": "metallb-manifests",
    },
    CLUSTER_API: {"config": "core-config"},
}
"""By package: folders of its module, each with the name of its copy beside the program."""


@dataclass(frozen=True)
class Program:
    """A program to build.

    Attributes:
        folder: below which it is put: `newest`, `oldest`, `bench` or one of its own.
        name: of the file.
        module: whose version it has.
        package: what is built, below `modfile`'s folder or by import path.
        modfile: which go.mod, below this file's folder.
        at: the version for `go install`, which takes no go.mod of ours; empty otherwise.
        tags: the build tags that it needs.
    """

    folder: str
    name: str
    module: str
    package: str
    modfile: str = "go.mod"
    at: str = ""
    tags: str = ""

    @property
    def place(self) -> str:
        """Return where it goes, below the folder of all."""
        return f"{self.folder}/{self.name}"

    @property
    def copied(self) -> Mapping[str, str]:
        """Return the folders of its module that are copied, with the names of their copies."""
        return COPIED.get(self.package, {})

    @property
    def go_mod(self) -> Path:
        """Return the go.mod that it is built by."""
        return HERE / self.modfile


def _of_kubernetes(folder: str, modfile: str, *names: str) -> Iterator[Program]:
    """Yield etcd and programs of Kubernetes, which have main packages beside this file."""
    yield Program(folder, "etcd", module=ETCD, package="./etcd", modfile=modfile)
    for name in names:
        yield Program(folder, name, module=KUBERNETES, package=f"./{name}", modfile=modfile)


_CONTROLLER = f"{METALLB}/controller"
PROGRAMS = (
    *_of_kubernetes(NEWEST, "go.mod", "kube-apiserver", "kube-controller-manager", "kubectl"),
    Program(NEWEST, "helm", module=HELM, package=f"{HELM}/cmd/helm", modfile="helm/go.mod"),
    Program(
        NEWEST, "metallb-controller", module=METALLB, package=_CONTROLLER, modfile="metallb/go.mod"
    ),
    Program(NEWEST, "cilium-lbipam", module=CILIUM, package=".", modfile="cilium/go.mod"),
    *_of_kubernetes(OLDEST, "oldest.mod", "kube-apiserver", "kube-controller-manager"),
    Program(
        OLDEST,
        "cilium-operator",
        module=CILIUM,
        package=f"{CILIUM}/operator",
        modfile="cilium/oldest.mod",
        tags="ipam_provider_operator",
    ),
    Program("bench", "peer", module=CLIENT_GO, package=".", modfile="../bench/peer/go.mod"),
)
ON_REQUEST = (
    Program(
        "metallb-0.15", "metallb-controller", module=METALLB, package=_CONTROLLER, at="v0.15.3"
    ),
    Program(
        "metallb-0.14", "metallb-controller", module=METALLB, package=_CONTROLLER, at="v0.14.9"
    ),
    Program(
        "metallb-0.13", "metallb-controller", module=METALLB, package=_CONTROLLER, at="v0.13.12"
    ),
    Program(
        "clusterapi",
        "clusterctl",
        module=CLUSTER_API,
        package=f"{CLUSTER_API}/cmd/clusterctl",
        at="v1.11.2",
    ),
    Program("clusterapi", "core-manager", module=CLUSTER_API, package=CLUSTER_API, at="v1.11.2"),
)
"""Built when they are named, as `build.py metallb-0.14/metallb-controller`."""


class BuildError(Exception):
    """A program cannot be built; says which and why."""


def main() -> int:
    """Build what was asked for; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--into", type=Path, default=ROOT / ".real", help="default: .real")
    known = {program.place: program for program in (*PROGRAMS, *ON_REQUEST)}
    parser.add_argument("program", nargs="*", metavar="PROGRAM", help=", ".join(known))
    asked = parser.parse_args()
    if unknown := set(asked.program) - set(known):
        parser.error(
            f"no such program: {', '.join(sorted(unknown))}; there are {', '.join(known)}"
        )
    chosen = [known[name] for name in asked.program] or PROGRAMS
    try:
        go = _go_version()
        for program in chosen:
            _build(program, asked.into.resolve(), go)
    except BuildError as error:
        print(f"build.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("build.py: interrupted; run it again to go on", file=sys.stderr)
        return 130
    return 0


def _go_version() -> str:
    if shutil.which("go") is None:
        raise BuildError("Go is not on this machine, so the real servers cannot be built")
    return _run(["go", "env", "GOVERSION", "GOOS", "GOARCH"], HERE).strip()


def _build(program: Program, into: Path, go: str) -> None:
    """Build one program unless its stamp says that it is there."""
    target = into / program.place
    copies = {source: target.with_name(name) for source, name in program.copied.items()}
    stamp = target.with_name(f".{program.name}.stamp")
    digest = _digest(program, go)
    if stamp.exists() and stamp.read_text(encoding="utf-8") == _stamp(
        digest, target, copies.values()
    ):
        print(f"{program.place}: there", flush=True)
        return
    version = _version(program)
    print(f"{program.place}: building {version} ...", flush=True)
    began = time.monotonic()
    target.parent.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    tags = ["-tags", program.tags] if program.tags else []
    flags = [*tags, "-trimpath", "-ldflags", " ".join(["-s", "-w", *_version_flags(program)])]
    if program.at:
        _install(program, flags, target)
    else:
        modfile = f"-modfile={program.go_mod.name}"
        command = ["go", "build", modfile, *flags, "-o", str(target), program.package]
        _run(command, program.go_mod.parent)
    for source, folder in copies.items():
        _copy_manifests(f"{program.module}@{version}", source, folder)
    stamp.write_text(_stamp(digest, target, copies.values()), encoding="utf-8")
    print(f"{program.place}: built in {time.monotonic() - began:.0f} s", flush=True)


def _stamp(digest: str, target: Path, copies: Iterable[Path]) -> str:
    """Return the stamp of a program: its sources, and every file with its size.

    A program or a manifest that was removed, emptied or cut short is so noticed and made anew.
    """
    files = [target, *(file for folder in copies for file in sorted(folder.rglob("*.yaml")))]
    sizes = [
        f"{file.name} {file.stat().st_size if file.exists() else 'missing'}" for file in files
    ]
    return "\n".join([digest, *sizes]) + "\n"


def _install(program: Program, flags: list[str], target: Path) -> None:
    """Install a program that no go.mod of ours names."""
    built_file = target.with_name(f".{program.name}.bin")
    _run(["go", "install", *flags, f"{program.package}@{program.at}"], HERE, GOBIN=str(built_file))
    shutil.move(built_file / program.package.rpartition("/")[2], target)
    built_file.rmdir()


def _copy_manifests(module: str, source: str, folder: Path) -> None:
    """Copy the manifests in a folder of a module, as a release of it installs them."""
    answer = _run(["go", "mod", "download", "-json", module], HERE / "metallb")
    path = Path(json.loads(answer)["Dir"]) / source
    shutil.rmtree(folder, ignore_errors=True)  # another version may have had other files
    for file in sorted(path.rglob("*.yaml")):
        target = folder / file.relative_to(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


def _version(program: Program) -> str:
    """Return the version of what is built."""
    if program.at:
        return program.at
    return _read_required_version(program, program.module)


def _read_required_version(program: Program, module: str) -> str:
    """Return the version of a module that a program's go.mod requires."""
    content = program.go_mod.read_text(encoding="utf-8")
    match = re.search(rf"^\s*{re.escape(module)} (v[\w.-]+)", content, re.MULTILINE)
    if match is None:
        raise BuildError(f"{program.modfile} does not require {module}")
    return match[1]


def _version_flags(program: Program) -> Iterator[str]:
    """Yield linker flags that tell a program its version, as its own releases are built.

    Without them kube-apiserver calls itself v0.0.0, and Helm takes every cluster that it cannot
    ask for Kubernetes 1.20.
    """
    values: dict[str, str] = {}
    if program.module == KUBERNETES:
        version = _version(program)
        major, minor, _ = version.removeprefix("v").split(".", 2)
        version_variables = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
        values = {f"{VERSION}.{name}": value for name, value in version_variables.items()}
        values[f"{VERSION}.gitTreeState"] = "clean"
    elif program.module == HELM:
        minor = _read_required_version(program, "k8s.io/client-go").split(".")[1]
        values[f"{HELM}/internal/version.version"] = _version(program)
        for package in ("pkg/chartutil", "pkg/lint/rules"):
            values[f"{HELM}/{package}.k8sVersionMajor"] = "1"
            values[f"{HELM}/{package}.k8sVersionMinor"] = minor
    elif program.package == f"{CILIUM}/operator":
        values[f"{CILIUM}/pkg/version.ciliumVersion"] = _version(program).removeprefix("v")
    for name, value in values.items():
        yield f"-X {name}={value}"


def _digest(program: Program, go: str) -> str:
    """Return a digest of everything that a program is made of."""
    parts = [go, program.place, program.package, program.at, program.tags]
    parts += _version_flags(program)
    sha256 = hashlib.sha256("\n".join(parts).encode())
    if not program.at:
        sha256.update(program.go_mod.read_bytes())
        sha256.update(program.go_mod.with_suffix(".sum").read_bytes())
        for source in sorted((program.go_mod.parent / program.package).glob("*.go")):
            sha256.update(source.read_bytes())
    return sha256.hexdigest()


def _run(command: list[str], folder: Path, **variables: str) -> str:
    """Run a command, showing what it complains about; return what it printed.

    Raises:
        BuildError: it failed.
    """
    environ = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", **variables}
    done = subprocess.run(
        command, cwd=folder, env=environ, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise BuildError(f"{' '.join(command)} ended with {done.returncode}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
