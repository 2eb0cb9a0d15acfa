"""Builds what a release consists of into dist/: `make release`.

wheel and sdist       by hatchling, the same bytes on every machine
chart package         by Helm, with the version that the tag says, and the image
install.yaml          the one-file install, with the image of that version
ipam-components.yaml  what clusterctl installs, and metadata.yaml, which says for which contract
ipam.yaml, *.tar.gz   the krew manifest, and the archive that it names
*.cdx.json            the bills of materials, CycloneDX: of the product, of the framework's wheel
SHA256SUMS            of all of these

The chart, the one-file install and the documents name the version that comes next. A tag of
another version is refused; without a tag what is built is a snapshot, and is called so.

A checkout names an image `butler-ipam` that people build themselves; what is installed from a
release names the one that the release's workflow pushes, which tells it by BUTLER_IPAM_IMAGE. By
default that is the GitHub registry's of the repository that pyproject.toml names. What a snapshot
installs names what a checkout does, as no workflow pushes an image of it.
"""

import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

import clusterapi  # noqa: E402  # beside this file
import supply_chain  # noqa: E402  # beside this file

from version import version as checkout_version  # noqa: E402  # at the root, which is no package

IMAGE = "butler-ipam"
"""What a checkout's manifests and chart name."""


def image(version: str, otherwise: str = IMAGE) -> str:
    """Return where the image of a release is, without its tag; `otherwise` for a snapshot."""
    said = os.environ.get("BUTLER_IPAM_IMAGE")
    if said:
        return said
    if "dev" in version:
        return otherwise
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return f"ghcr.io/{project['urls']['Repository'].removeprefix('https://github.com/')}"


def semver(version: str) -> str:
    """Return a version of Python's as one of Helm's: 1.2.3.dev4+gabc is 1.2.3-dev4.gabc."""
    match = re.fullmatch(r"(\d+\.\d+\.\d+)(?:(rc\d+)|\.(dev\d+))?(?:\+(.+))?", version)
    if match is None:
        sys.exit(f"{version} is no version that a release may have")
    before = ".".join(part for part in match.groups()[1:] if part)
    return f"{match[1]}-{before}" if before else match[1]


def check(version: str) -> None:
    """Refuse a tag that the files of the checkout do not name."""
    chart_version = supply_chain.released_version()
    if re.fullmatch(r"\d+\.\d+\.\d+", version) and version != chart_version:
        sys.exit(
            f"the tag says {version}, and manifests/chart/Chart.yaml says {chart_version}: "
            "set the version there, run `make manifests notices`, and tag that commit"
        )


def python_packages(dist: Path) -> None:
    """Build the wheel and the sdist, and the wheel of the framework alone."""
    # -P: modules of controller/, such as selectors, must not shadow the standard library.
    command = (sys.executable, "-P", "-m", "hatchling", "build", "-d", str(dist), "-t", "wheel")
    run(*command, "-t", "sdist")
    run(*command, folder=ROOT / "controller")


def chart(dist: Path, version: str) -> None:
    """Package the chart."""
    helm = shutil.which("helm")
    if helm is None:
        sys.exit("helm is needed to package the chart: install it, or `make real` builds one")
    versions = ("--version", semver(version), "--app-version", version.replace("+", "-"))
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(ROOT / "manifests/chart", Path(folder) / "chart")
        replace_once(
            copy / "values.yaml",
            f"\n  repository: {IMAGE}\n",
            f"\n  repository: {image(version)}\n",
        )
        replace_once(copy / "README.md", f'| `"{IMAGE}"` |', f'| `"{image(version)}"` |')
        run(helm, "package", str(copy), *versions, "-d", str(dist))


def replace_once(path: Path, old: str, new: str) -> None:
    """Replace the only occurrence of `old` in a file by `new`; exit if there is none or more."""
    content = path.read_text(encoding="utf-8")
    if content.count(old) != 1:
        sys.exit(f"{path} says {old.strip()!r} {content.count(old)} times")
    path.write_text(content.replace(old, new), encoding="utf-8")


def one_file(dist: Path, version: str) -> None:
    """Write the one-file install with the image of this version."""
    manifest = (ROOT / "manifests/install.yaml").read_text(encoding="utf-8")
    tag = version.replace("+", "-")
    manifest, count = re.subn(rf"image: {IMAGE}:\S+", f"image: {image(version)}:{tag}", manifest)
    if count != 1:
        sys.exit(f"manifests/install.yaml names the image {count} times")
    (dist / "install.yaml").write_text(manifest, encoding="utf-8")


def krew(dist: Path, version: str) -> None:
    """Write the archive of the kubectl plugin, and the manifest by which krew finds it."""
    archive = dist / f"kubectl-ipam-{semver(version)}.tar.gz"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, path in (("kubectl-ipam", ".ci/krew/kubectl-ipam"), ("LICENSE", "LICENSE")):
            data = (ROOT / path).read_bytes().replace(b"@VERSION@", version.encode())
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o755 if name == "kubectl-ipam" else 0o644
            tar.addfile(info, io.BytesIO(data))
    archive.write_bytes(gzip.compress(buffer.getvalue(), mtime=0))
    manifest = (ROOT / ".ci/krew/ipam.yaml").read_text(encoding="utf-8")
    manifest = manifest.replace("@VERSION@", semver(version)).replace("@SHA256@", digest(archive))
    (dist / "ipam.yaml").write_text(manifest, encoding="utf-8")


def bill_of_materials(dist: Path, version: str) -> None:
    """Write what the product and the framework's wheel are made of."""
    documents = {
        f"butler-ipam-{version}.cdx.json": supply_chain.sbom(version),
        f"butler-ipam-controller-{version}.cdx.json": supply_chain.framework_sbom(version),
    }
    for name, document in documents.items():
        (dist / name).write_text(document, encoding="utf-8")


def checksums(dist: Path) -> None:
    """Write SHA256SUMS, as `sha256sum -c` reads it."""
    files = sorted(path for path in dist.iterdir() if path.name != "SHA256SUMS")
    lines = [f"{digest(path)}  {path.name}\n" for path in files]
    (dist / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def digest(path: Path) -> str:
    """Return a file's SHA-256."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run(*command: str, folder: Path = ROOT) -> None:
    """Run a program whose files have the time of the commit."""
    when = subprocess.run(
        ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"],
        capture_output=True,
        text=True,
        check=False,
    )
    times = {"SOURCE_DATE_EPOCH": when.stdout.strip() or "0"}
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **times}, stdout=subprocess.DEVNULL, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}")


def build(dist: Path) -> str:
    """Build everything into a folder that is emptied before; return the version."""
    version = checkout_version()
    check(version)
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir(parents=True)
    python_packages(dist)
    chart(dist, version)
    one_file(dist, version)
    clusterapi.repository(dist, version.replace("+", "-"), image(version, clusterapi.IMAGE))
    krew(dist, version)
    bill_of_materials(dist, version)
    checksums(dist)
    return version


def main() -> None:
    """Build everything into dist/."""
    dist = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist"
    version = build(dist)
    kind = "snapshot" if "dev" in version else "release"
    print(f"{kind} {version}: {', '.join(sorted(path.name for path in dist.iterdir()))}")


if __name__ == "__main__":
    main()
