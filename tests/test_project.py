"""What must hold of the project as a whole: the wheel, the documents, the dependencies."""

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
STARTERS = {
    "reconcilers.cli.demo.command.perform",
    "reconcilers.cli.local.servers.run_api_server",
    "tests.reconcilers.cli.commands.start",
    "tests.servers.running",
}
"""What starts the servers that the environment names, beside ControlPlane.start."""
EMBEDDED = {ROOT / "tests/reconcilers/cli/test_apiserver.py"}
"""Modules of commands that start the embedded server, whatever the environment names."""
DOCUMENTS = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "controller/README.md"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel once."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return next(folder.glob("*.whl"))


def test_the_wheel_carries_the_packages_their_types_and_the_manifests(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for package in ("allocator", "controller", "envtest", "reconcilers"):
        assert f"{package}/__init__.py" in names
        assert f"{package}/py.typed" in names
    for page in (ROOT / "reconcilers/addressmap/web").iterdir():
        assert page.relative_to(ROOT).as_posix() in names
    for manifest in (ROOT / "manifests").rglob("*.yaml"):
        assert manifest.relative_to(ROOT).as_posix() in names


def test_the_links_of_the_long_description_are_whole_urls_of_files_that_exist(wheel: Path) -> None:
    """A package index shows README.md, and knows nothing of the files beside it."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [path for path in archive.namelist() if path.endswith(".dist-info/METADATA")]
        content = archive.read(name).decode()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    files = f"{project['urls']['Repository']}/blob/main/"
    matches = re.findall(r"\]\(([^)\s]+)\)", content)
    assert [link for link in matches if not link.startswith(("https://", "#"))] == []
    ours = [
        link.removeprefix(files).partition("#")[0] for link in matches if link.startswith(files)
    ]
    assert ours
    assert [path for path in ours if not (ROOT / path).exists()] == []


def test_the_wheel_installs_and_says_its_version(wheel: Path, tmp_path: Path) -> None:
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"),
            *("--disable-pip-version-check", "--target", str(tmp_path), str(wheel)),
        ],
        check=True,
    )
    said = subprocess.run(
        [
            sys.executable,
            "-c",
            (
                f"import sys; sys.path.insert(0, {str(tmp_path)!r});"
                "from reconcilers.cli.main import main; sys.argv = ['butler-ipam', '--version'];"
                "import reconcilers; assert reconcilers.__file__.startswith(sys.path[0]); main()"
            ),
        ],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert wheel.name.split("-")[1] in said.stdout


def test_every_dependency_is_named_in_the_architecture_with_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    reported = (ROOT / "docs/design/dependencies.md").read_text()
    expected = [*project["dependencies"], *project["optional-dependencies"]["envtest"]]
    for requirement in expected:
        name = re.split(r"[<>=\[ ]", requirement)[0]
        assert f"| {name} " in reported, f"{name} is not in docs/design/dependencies.md"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_files_that_a_document_names_exist(document: str) -> None:
    content = (ROOT / document).read_text()
    matches = re.findall(
        r"`((?:allocator|controller|envtest|manifests|reconcilers|tests)/[\w./-]+)`", content
    )
    linked = re.findall(r"\]\(([\w./-]+)\)", content)
    base = (ROOT / document).parent
    missing = [n for n in matches if not (ROOT / n).exists()]
    missing += [n for n in linked if not (base / n).exists()]
    assert missing == []


def test_every_locked_package_carries_hashes() -> None:
    for lock in ("requirements.txt", "requirements-run.txt", "requirements-dev.txt"):
        content = (ROOT / lock).read_text()
        packages = re.findall(
            r"^[\w.-]+==\S+.*?(?=^[\w.-]+==|\Z)", content, re.MULTILINE | re.DOTALL
        )
        assert packages
        assert all("--hash=sha256:" in package for package in packages)


def test_every_test_that_may_meet_a_real_server_is_held_against_one() -> None:
    """The Makefile names those of envtest and of the command line one by one.

    Most of them force the embedded server, or meet none.
    """
    content = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    variables = dict(re.findall(r"^(REAL_\w+) = (.*)$", content, re.MULTILINE))
    real_tests = re.sub(
        r"\$\((\w+)\)", lambda variable: variables[variable[1]], variables["REAL_TESTS"]
    )
    listed = {ROOT / name for name in real_tests.split()}
    modules = [
        path
        for pattern in ("test_*.py", "conftest.py")
        for path in (ROOT / "tests").rglob(pattern)
        if path not in EMBEDDED and _asks_for_a_server(path)
    ]
    assert [path for path in listed if not path.exists()] == []
    assert ROOT / "tests/docs/test_on_a_cluster.py" in modules
    assert [path for path in modules if not {path, *path.parents} & listed] == []


def _asks_for_a_server(path: Path) -> bool:
    """Return whether a module starts what the environment names, or a command that does."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return any(_starts_the_asked_server(node) for node in ast.walk(tree))


def _starts_the_asked_server(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        imported = {f"{node.module}.{imported_name.name}" for imported_name in node.names}
        return bool(imported & STARTERS)
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node.func) == "ControlPlane.start"
        and "force_embedded" not in {word.arg for word in node.keywords}
    )
