"""Which version a checkout, an archive or a source distribution says it is."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.scripts import load_script

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load_script("version.py")


def git(folder: Path, *arguments: str) -> str:
    """Run git as a fixed author, without the machine's configuration."""
    identity = {
        f"GIT_{role}_{field}": "a@b.c" for role in ("AUTHOR", "COMMITTER") for field in WHO
    }
    command = ("git", "-C", str(folder), "-c", "commit.gpgsign=false", *arguments)
    bare = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    environment = {**os.environ, **identity, **bare}
    return subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True
    ).stdout


WHO = ("NAME", "EMAIL")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with one commit, which has no tag."""
    if shutil.which("git") is None:
        pytest.skip("no git on this machine; it says what is tagged")
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "-q")
    for name in ("version.py", ".gitattributes"):
        shutil.copy(ROOT / name, folder)
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "One")
    return folder


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("v1.2.3", "1.2.3"),
        ("v1.2.3rc1", "1.2.3rc1"),
        ("v1.2.3-4-gabc123", "1.2.4.dev4+gabc123"),
        ("v1.2.3rc1-4-gabc123", "1.2.3.dev4+gabc123"),
    ],
)
def test_a_tag_and_the_commits_after_it_make_a_version(
    script: ModuleType, content: str, expected: str
) -> None:
    assert script.parse_description(content) == expected


@pytest.mark.parametrize("content", ["1.2.3", "v1.2", "v1.2.3-beta", "vnext"])
def test_a_tag_of_another_form_is_refused(script: ModuleType, content: str) -> None:
    with pytest.raises(ValueError, match="is not of the form"):
        script.parse_description(content)


def test_a_checkout_goes_by_its_tag(script: ModuleType, checkout: Path) -> None:
    assert script.version(checkout) == "0.1.0.dev1"
    git(checkout, "tag", "v2.0.0")
    assert script.version(checkout) == "2.0.0"
    git(checkout, "commit", "-q", "--allow-empty", "-m", "Two")
    commit = git(checkout, "rev-parse", "--short", "HEAD").strip()
    assert script.version(checkout) == f"2.0.1.dev1+g{commit}"


def test_an_archive_of_a_tag_says_its_version(checkout: Path, tmp_path: Path) -> None:
    git(checkout, "tag", "v2.0.0")
    archive = tmp_path / "archive.zip"
    git(checkout, "archive", f"--output={archive}", "HEAD")
    folder = tmp_path / "unpacked"
    shutil.unpack_archive(archive, folder)
    command = (sys.executable, "-c", "import version; print(version.version())")
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    assert done.stdout == "2.0.0\n"


def test_a_source_distribution_says_what_it_was_built_as(
    script: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "PKG-INFO").write_text("Metadata-Version: 2.4\nName: x\nVersion: 3.1.4\n")
    assert script.version(tmp_path) == "3.1.4"


def test_a_folder_that_says_nothing_is_before_the_first_release(
    script: ModuleType, tmp_path: Path
) -> None:
    assert script.version(tmp_path) == "0.1.0.dev0"


def test_the_version_in_the_environment_comes_first_if_it_is_valid(
    script: ModuleType, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUTLER_IPAM_VERSION", "v7.0.0")
    assert script.version(checkout) == "7.0.0"
    monkeypatch.setenv("BUTLER_IPAM_VERSION", "latest")
    with pytest.raises(ValueError, match="'latest' is no version"):
        script.version(checkout)
