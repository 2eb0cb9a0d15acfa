"""Goes through the Containerfile where there is no container engine, and tries what it makes.

Every COPY and RUN of the build stage is carried out with /src, /opt/butler-ipam and /wheels moved
into a temporary folder; the outcome is made read-only and started as the user that the last stage
names. What needs an engine (pulling the base image, layers, labels) is not tried.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION = "9.9.9"
"""The build argument."""
MOVED = ("/opt/butler-ipam", "/src", "/wheels", "/usr/share/doc/butler-ipam")


def instructions(containerfile: str) -> Iterator[tuple[str, str]]:
    """Yield the instructions of a Containerfile, with continued lines joined."""
    joined = re.sub(r"\\\n", " ", containerfile)
    for line in joined.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            word, _, rest = line.strip().partition(" ")
            yield word.upper(), rest.strip()


class Image:
    """A folder that stands for the image's file system."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder
        self.variables = {"PATH": os.environ["PATH"], "HOME": str(folder)}
        self.user = 0
        self.entry: list[str] = []

    def move_paths(self, line: str) -> str:
        """Return a line of the Containerfile with the image's paths moved into the folder."""
        for path in MOVED:
            line = re.sub(
                rf"(?<![\w/.-]){re.escape(path)}(?=[/\s:]|$)", f"{self.folder}{path}", line
            )
        return line

    def carry_out(self, word: str, rest: str) -> None:
        """Carry out one instruction; those about the base image and metadata are passed over."""
        if word == "ENV":
            for assignment in shlex.split(self.move_paths(rest)):
                name, _, value = assignment.partition("=")
                value = value.replace("$PATH", self.variables["PATH"])
                self.variables[name] = value.replace("$VERSION", VERSION)
        elif word == "WORKDIR":
            self.work = Path(self.move_paths(rest))
            self.work.mkdir(parents=True, exist_ok=True)
        elif word == "COPY":
            self.copy(rest)
        elif word == "RUN":
            print(f"RUN {rest}", flush=True)
            variables = {**self.variables, "PIP_CACHE_DIR": pip_cache()}
            command = self.move_paths(rest).replace("--no-cache-dir", "")
            subprocess.run(["sh", "-euc", command], cwd=self.work, env=variables, check=True)
        elif word == "USER":
            self.user = int(rest.partition(":")[0])
        elif word == "ENTRYPOINT":
            self.entry = [part.strip(' "') for part in rest.strip("[]").split(",")]

    def copy(self, rest: str) -> None:
        """Carry out a COPY from the checkout; one between stages has nothing to do here."""
        *sources, target = rest.split()
        if sources[0].startswith("--from"):
            return
        into = self.work / self.move_paths(target)
        for source in sources:
            path = ROOT / source
            if path.is_dir():
                ignore = shutil.ignore_patterns("__pycache__", ".*_cache")
                shutil.copytree(path, into, dirs_exist_ok=True, ignore=ignore)
            else:
                folder = into if target.endswith("/") or target == "." else into.parent
                folder.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, folder)

    def start(self, *arguments: str) -> str:
        """Start the image's program as its user; return what it printed."""
        done = self.run_program(*arguments)
        if done.returncode:
            sys.exit(f"{self.entry} {arguments} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def refuses(self, *arguments: str, sentence: str) -> None:
        """Start the image's program with what it cannot do; it has to say why in one sentence."""
        done = self.run_program(*arguments)
        if done.returncode != 1 or sentence not in done.stderr or "Traceback" in done.stderr:
            sys.exit(f"{self.entry} {arguments} ended with {done.returncode}: {done.stderr}")

    def run_program(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the image's program as its user until it ends; return its result."""
        return subprocess.run(
            [*self.entry, *arguments],
            cwd="/",
            env=self.variables,
            user=self.user if os.geteuid() == 0 else None,
            capture_output=True,
            text=True,
            check=False,
        )


def pip_cache() -> str:
    """Return where pip keeps what it fetched: the same place as outside."""
    command = [sys.executable, "-m", "pip", "cache", "dir"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def seal(folder: Path) -> None:
    """Take the right to write below a folder from all users, and let all read."""
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            path.chmod((path.stat().st_mode | 0o444 | (0o111 if path.is_dir() else 0)) & ~0o222)


def stamps(folder: Path) -> dict[Path, float]:
    """Return when every file below a folder was last written."""
    return {path: path.lstat().st_mtime for path in folder.rglob("*")}


def main() -> None:
    """Build, seal, start."""
    with tempfile.TemporaryDirectory(prefix="butler-ipam-image-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        image = Image(folder)
        python = interpreter(folder)
        image.variables["PATH"] = f"{python}:{image.variables['PATH']}"
        image.variables["LD_LIBRARY_PATH"] = str(python.parent / "lib")
        for word, rest in instructions((ROOT / "Containerfile").read_text(encoding="utf-8")):
            image.carry_out(word, rest)
        tree = folder / "opt/butler-ipam"
        missing = [path for path in tree.rglob("*.py") if not is_compiled(path)]
        if missing:
            sys.exit(f"not compiled: {missing[:5]}")
        seal(folder)
        before = stamps(tree)
        version = image.start("--version")
        if version != f"butler-ipam {VERSION}\n":
            sys.exit(f"the build argument is {VERSION}, and the program says {version}")
        image.start("run", "--help")
        for command in ("up", "demo", "apiserver"):
            image.refuses(command, sentence="install butler-ipam[envtest]")
        crds = image.start("crds")
        shutil.copy(ROOT / "manifests/samples/70-minimal.yaml", folder / "pool.yaml")
        image.start("plan", "-f", str(folder / "pool.yaml"))
        if stamps(tree) != before:
            sys.exit("starting it wrote into its own tree")
        if "kind: CustomResourceDefinition" not in crds:
            sys.exit("the image does not carry its manifests")
        size = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file()) / 2**20
        account = f"as user {image.user}" if os.geteuid() == 0 else "as this user, who is not root"
        print(
            f"image steps passed: {version.strip()}, {size:.0f} MiB, read-only, started {account}"
        )
        for path in [folder, *folder.rglob("*")]:
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o755)


def is_compiled(path: Path) -> bool:
    """Return whether a module's bytecode exists: the root file system is read-only."""
    return any((path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"))


def interpreter(folder: Path) -> Path:
    """Return a folder with a `python` that every user may run, in place of the base image's.

    One that is in a user's home is copied: other users may not enter there.
    """
    base = Path(sys.base_prefix)
    if all(path.stat().st_mode & 0o001 for path in [base, *base.parents]):
        return base / "bin"
    copy = folder / "python"
    ignore = shutil.ignore_patterns("site-packages", "test", "__pycache__", "idlelib", "*.a")
    shutil.copytree(base, copy, symlinks=True, ignore=ignore)
    return copy / "bin"


if __name__ == "__main__":
    main()
