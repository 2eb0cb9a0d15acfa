"""Builds the real servers that the suite is held against, as ordinary Go dependencies.

    build.py [--into FOLDER] [PROGRAM...]

puts etcd, kube-apiserver, kube-controller-manager, kubectl, helm and MetalLB's controller into
FOLDER/newest, and those of the oldest Kubernetes that README claims into FOLDER/oldest. Versions
stand in go.mod (newest) and oldest.mod; those of programs that are modules of their own, below.

What is there is found again by a stamp beside each program: a digest of everything that the
program is made of. A second run takes no longer than reading them. Needs Go and its module proxy;
nothing but the standard library of Python.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NEWEST, OLDEST = "newest", "oldest"
MODFILES = {NEWEST: HERE / "go.mod", OLDEST: HERE / "oldest.mod"}
VERSION = "k8s.io/component-base/version"


@dataclass(frozen=True)
class Program:
    """A program to build.

    Attributes:
        folder: below which it is put: `newest`, `oldest` or one of its own.
        name: of the file.
        module: `path@version` for `go install`; empty for a main package beside this file.
        definitions: the folder of CustomResourceDefinitions in that module, to be copied.
    """

    folder: str
    name: str
    module: str = ""
    definitions: str = ""

    @property
    def place(self) -> str:
        """Return where it goes, below the folder of all."""
        return f"{self.folder}/{self.name}"


METALLB = "go.universe.tf/metallb"
DEFINITIONS = "config/crd/bases"
PROGRAMS = (
    Program(NEWEST, "etcd"),
    Program(NEWEST, "kube-apiserver"),
    Program(NEWEST, "kube-controller-manager"),
    Program(NEWEST, "kubectl"),
    Program(NEWEST, "helm", "helm.sh/helm/v3/cmd/helm@v3.19.0"),
    Program(NEWEST, "metallb-controller", f"{METALLB}/controller@v0.15.3", DEFINITIONS),
    Program(OLDEST, "etcd"),
    Program(OLDEST, "kube-apiserver"),
    Program(OLDEST, "kube-controller-manager"),
)
# By hand: `build.py metallb-0.14/metallb-controller`.
ON_REQUEST = (
    Program("metallb-0.14", "metallb-controller", f"{METALLB}/controller@v0.14.9", DEFINITIONS),
    Program("metallb-0.13", "metallb-controller", f"{METALLB}/controller@v0.13.12", DEFINITIONS),
)


class BuildError(Exception):
    """A program cannot be built; says which and why."""


def main() -> int:
    """Build what was asked for; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--into", type=Path, default=ROOT / ".real", help="default: .real")
    known = {one.place: one for one in (*PROGRAMS, *ON_REQUEST)}
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
    return 0


def _go_version() -> str:
    if shutil.which("go") is None:
        raise BuildError("Go is not on this machine, so the real servers cannot be built")
    return _run(["go", "env", "GOVERSION", "GOOS", "GOARCH"], HERE).strip()


def _build(program: Program, into: Path, go: str) -> None:
    """Build one program unless its stamp says that it is there."""
    target = into / program.place
    stamp = target.with_name(f".{program.name}.stamp")
    digest = _digest(program, go)
    if target.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == digest:
        print(f"{program.place}: there", flush=True)
        return
    print(f"{program.place}: building {_version(program)} ...", flush=True)
    began = time.monotonic()
    target.parent.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    if program.module:
        _install(program, target)
    else:
        flags = " ".join(["-s", "-w", *_version_flags(program)])
        modfile = f"-modfile={MODFILES[program.folder]}"
        command = ["go", "build", modfile, "-trimpath", "-ldflags", flags, "-o", str(target)]
        _run([*command, f"./{program.name}"], HERE)
    stamp.write_text(digest, encoding="utf-8")
    print(f"{program.place}: built in {time.monotonic() - began:.0f} s", flush=True)


def _install(program: Program, target: Path) -> None:
    """Install a program of another module, and copy the definitions that come with it."""
    package, _, version = program.module.partition("@")
    bin_folder = target.with_name(f".{program.name}.bin")
    flags = ["-trimpath", "-ldflags", "-s -w"]
    _run(["go", "install", *flags, program.module], HERE, GOBIN=str(bin_folder))
    shutil.move(bin_folder / package.rpartition("/")[2], target)
    bin_folder.rmdir()
    if program.definitions:
        module = package.rpartition("/")[0]
        folder = _run(["go", "mod", "download", "-json", f"{module}@{version}"], HERE)
        found = re.search(r'"Dir": "([^"]+)"', folder)
        if found is None:
            raise BuildError(f"go mod download does not say where {module}@{version} is")
        crds = target.with_name("metallb-crds")
        crds.mkdir(exist_ok=True)
        for file in sorted((Path(found[1]) / program.definitions).glob("*.yaml")):
            shutil.copyfile(file, crds / file.name)


def _version(program: Program) -> str:
    """Return the version of what is built."""
    if program.module:
        return program.module.partition("@")[2]
    module = "go.etcd.io/etcd/server/v3" if program.name == "etcd" else "k8s.io/kubernetes"
    text = MODFILES[program.folder].read_text(encoding="utf-8")
    found = re.search(rf"^\s*(?:require )?{re.escape(module)} (v[\w.-]+)$", text, re.MULTILINE)
    if found is None:
        raise BuildError(f"{MODFILES[program.folder].name} does not require {module}")
    return found[1]


def _version_flags(program: Program) -> Iterator[str]:
    """Yield linker flags: without a version kube-apiserver calls itself v0.0.0."""
    if program.name == "etcd":
        return
    version = _version(program)
    major, minor, _ = version.removeprefix("v").split(".", 2)
    for name, value in (
        ("gitVersion", version),
        ("gitMajor", major),
        ("gitMinor", minor),
        ("gitTreeState", "clean"),
    ):
        yield f"-X {VERSION}.{name}={value}"


def _digest(program: Program, go: str) -> str:
    """Return a digest of everything that a program is made of."""
    made = hashlib.sha256("\n".join([program.place, go, program.module]).encode())
    if not program.module:
        made.update("\n".join(_version_flags(program)).encode())
        modfile = MODFILES[program.folder]
        for file in (modfile, modfile.with_suffix(".sum"), HERE / program.name / "main.go"):
            made.update(file.read_bytes())
    return made.hexdigest()


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
