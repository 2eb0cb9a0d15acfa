"""The wheel of the framework: its content, its dependencies, and README's example with it."""

import os
import re
import signal
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from packaging.requirements import Requirement

from envtest.plane import RunningControlPlane as Plane
from tests.contract.test_readme import MAPS, MERGE, get_labels, read_examples, wait_for_object
from tests.polling import SECONDS

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "controller"
PRODUCT = ("allocator", "envtest", "manifests", "reconcilers")


def read_project_table(path: Path) -> dict[str, Any]:
    """Return the table `project` of a pyproject.toml."""
    table: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    return table


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the framework, built once."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        # -P: modules of the folder, such as selectors, must not shadow the standard library.
        [sys.executable, "-P", "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=FOLDER,
        check=True,
        capture_output=True,
    )
    return next(folder.glob("butler_ipam_controller-*.whl"))


def list_dependencies(requirements: list[str]) -> Iterator[str]:
    """Yield the names of required distributions and of all their dependencies."""
    known: set[str] = set()
    waiting = [Requirement(requirement) for requirement in requirements]
    while waiting:
        requirement = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if name not in known:
            known.add(name)
            yield name
            waiting += [
                Requirement(requirement) for requirement in distribution(name).requires or ()
            ]


@pytest.fixture(scope="module")
def isolated_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with only the wheel and its dependencies.

    No package index is used: the files of the dependencies are linked from this environment.
    """
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "lib" / version / "site-packages"
    for name in list_dependencies(read_project_table(FOLDER / "pyproject.toml")["dependencies"]):
        files = distribution(name)
        for top_folder in {path.parts[0] for path in files.files or () if path.parts[0] != ".."}:
            source, target = Path(str(files.locate_file(top_folder))), packages / top_folder
            if source.exists() and not target.exists() and top_folder != "__pycache__":
                target.symlink_to(source)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    return folder / "bin" / "python"


def run(isolated_python: Path, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder, without the PYTHONPATH of this process."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(isolated_python), *arguments]
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, check=False
    )


def test_the_wheel_has_only_the_package_controller(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    top_folders = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert top_folders == {"controller"}
    assert {"controller/py.typed", "controller/testing/api.py"} <= set(names)
    assert [name for name in names if name.endswith("/licenses/LICENSE")]


def test_the_links_in_the_description_of_the_wheel_are_absolute_and_lead_to_existing_files(
    wheel: Path,
) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [path for path in archive.namelist() if path.endswith(".dist-info/METADATA")]
        content = archive.read(name).decode()
    link_targets = re.findall(r"\]\(([^)\s]+)\)", content)
    files = f"{read_project_table(FOLDER / 'pyproject.toml')['urls']['Repository']}/blob/main/"
    assert [link for link in link_targets if not link.startswith(("https://", "#"))] == []
    repository_paths = [
        link.removeprefix(files).partition("#")[0]
        for link in link_targets
        if link.startswith(files)
    ]
    assert repository_paths
    assert [path for path in repository_paths if not (ROOT / path).exists()] == []


def test_the_dependencies_of_the_framework_are_a_subset_of_those_of_the_product() -> None:
    repository_paths = read_project_table(FOLDER / "pyproject.toml")
    product = set(read_project_table(ROOT / "pyproject.toml")["dependencies"])
    assert set(repository_paths["dependencies"]) < product
    assert set(repository_paths["optional-dependencies"]["scaffold"]) < product


def test_all_modules_of_the_framework_can_be_imported_without_the_product(
    isolated_python: Path,
) -> None:
    program = (
        "import pkgutil, importlib, controller\n"
        "for module in pkgutil.walk_packages(controller.__path__, 'controller.'):\n"
        "    if not module.name.endswith('__main__'):\n"
        "        importlib.import_module(module.name)\n"
        "for name in controller.__all__:\n"
        "    getattr(controller, name)\n"
        f"for name in {PRODUCT!r}:\n"
        "    assert importlib.util.find_spec(name) is None, name\n"
        "print(controller.__file__)\n"
    )
    done = subprocess.run(
        [str(isolated_python), "-I", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(isolated_python.parents[1]))


async def test_the_first_example_of_the_readme_runs_with_the_wheel(
    isolated_python: Path, plane: Plane, admin: httpx.AsyncClient, tmp_path: Path
) -> None:
    created = await admin.post(MAPS, json={"metadata": {"name": "a"}, "data": {"x": "1"}})
    assert created.status_code == 201
    config = str(plane.write_kubeconfig(tmp_path / "kubeconfig"))
    async with await anyio.open_process(
        [str(isolated_python), "-I", "-c", read_examples()[0]],
        env={**os.environ, "KUBECONFIG": config},
        stderr=subprocess.STDOUT,
    ) as process:
        with anyio.fail_after(SECONDS):
            await wait_for_object(
                admin, MAPS, name="a", holds=lambda a: get_labels(a).get("entries") == "1"
            )
            await admin.patch(f"{MAPS}/a", json={"data": {"y": "2"}}, headers=MERGE)
            await wait_for_object(
                admin, MAPS, name="a", holds=lambda a: get_labels(a).get("entries") == "2"
            )
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0


@pytest.mark.parametrize("shadow", ["controller.py", "controller"])
def test_a_users_module_named_controller_shadows_the_framework_unless_python_runs_with_p(
    isolated_python: Path, tmp_path: Path, shadow: str
) -> None:
    """Run a program beside a file or folder `controller`, as README's section on names says."""
    if shadow.endswith(".py"):
        (tmp_path / shadow).write_text("VALUE = 1\n")
    else:
        (tmp_path / shadow).mkdir()
        (tmp_path / shadow / "__init__.py").write_text("")
    main = tmp_path / "main.py"
    main.write_text("from controller import Manager\nprint(Manager.__module__)\n")
    shadowed = run(isolated_python, main.name, folder=tmp_path)
    assert "ImportError: cannot import name 'Manager' from 'controller'" in shadowed.stderr
    assert str(tmp_path) in shadowed.stderr
    assert run(isolated_python, "-P", main.name, folder=tmp_path).stdout == "controller.manager\n"
