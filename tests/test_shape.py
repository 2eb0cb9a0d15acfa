"""The limits on the size of the embedded control plane."""

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
