"""The shape of the repository: the embedded control plane is small, no module stands loose."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
ENVTEST_LINES = 25_000
ENVTEST_MODULES = 200


def modules(folder: str) -> list[Path]:
    """Return the Python files of a folder of the repository."""
    return list((ROOT / folder).rglob("*.py"))


def count_lines(path: Path) -> int:
    """Return how many lines a file has."""
    return len(path.read_text(encoding="utf-8").splitlines())


def test_the_embedded_control_plane_stays_within_its_limits() -> None:
    files = modules("envtest")
    assert 0 < len(files) <= ENVTEST_MODULES
    assert sum(map(count_lines, files)) <= ENVTEST_LINES


def test_no_module_of_the_reconcilers_stands_beside_the_packages() -> None:
    modules = {path.name for path in (ROOT / "reconcilers").glob("*.py")}
    assert modules == {"__init__.py", "__main__.py"}


def test_the_map_of_the_architecture_names_every_package_of_the_reconcilers() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    packages = {path.parent.name for path in (ROOT / "reconcilers").glob("*/__init__.py")}
    assert {package for package in packages if f"`{package}/`" not in page} == set()
