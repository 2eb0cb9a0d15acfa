"""The start of the program: packages of other projects that have the names of ours."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from reconcilers.__main__ import PACKAGES, describe_replaced_package

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def installed_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the wheel is installed, without what it depends on."""
    folder = tmp_path_factory.mktemp("wheel")
    build = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder))
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [wheel] = folder.glob("*.whl")
    install = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target")
    command = [sys.executable, *install, str(folder / "site"), str(wheel)]
    subprocess.run(
        [*command, "--disable-pip-version-check"], check=True, capture_output=True, cwd=folder
    )
    return folder / "site"


def start(*path: Path) -> subprocess.CompletedProcess[str]:
    """Start the program with these folders before all others."""
    script = (
        f"import sys; sys.path[:0] = {[str(entry) for entry in path]!r};"
        " sys.argv = ['butler-ipam', '--version'];"
        " from reconcilers.__main__ import main; main()"
    )
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd="/"
    )


def test_the_names_are_those_that_the_wheel_has() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert sorted(PACKAGES) == project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    readme = (ROOT / "README.md").read_text()
    assert all(f"`{name}`" in readme for name in PACKAGES)


def test_nothing_is_wrong_with_a_checkout_or_a_wheel_of_its_own(installed_folder: Path) -> None:
    assert describe_replaced_package(ROOT) == ""
    done = start(installed_folder)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_package_of_that_name_that_is_found_first_is_named(
    installed_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "controller").mkdir()
    (tmp_path / "controller/__init__.py").write_text("")
    done = start(tmp_path, installed_folder)
    assert done.returncode == 1
    assert f"the package `controller` that Python finds is that of {tmp_path}" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_package_that_was_written_over_ours_is_named(installed_folder: Path) -> None:
    file = installed_folder / "manifests/__init__.py"
    before = file.read_bytes()
    file.write_text("'''Another project's.'''\n")
    try:
        done = start(installed_folder)
    finally:
        file.write_bytes(before)
    assert done.returncode == 1
    assert f"{file} is not the file that butler-ipam installed" in done.stderr
    assert "Traceback" not in done.stderr
