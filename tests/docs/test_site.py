"""The documentation site is built without a broken link, from all documents."""

import re
import subprocess
import sys
from importlib.util import find_spec
from os.path import relpath
from pathlib import Path

import pytest

import controller.scaffold
import controller.testing
import controller.webhooks
from tests.docs.text import DESIGN, DOCUMENTS, OPERATING, PAGES, ROOT


@pytest.fixture(scope="module")
def built_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, built once."""
    if find_spec("mkdocstrings") is None:
        pytest.skip("mkdocstrings is not installed: requirements-dev.txt is newer than .venv")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, str(ROOT / ".ci" / "site.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


def test_every_document_is_a_page_of_the_site(built_site: Path) -> None:
    built_pages = {
        path.relative_to(built_site).with_suffix("").as_posix()
        for path in built_site.rglob("*.html")
    }
    own = {
        Path(page).relative_to("docs").with_suffix("").as_posix()
        for page in (*PAGES, *OPERATING, *DESIGN)
    }
    top = {Path(name).stem.lower() for name in DOCUMENTS if "/" not in name} - {"readme"}
    assert built_pages == own | top | {"index", "controller", "reference", "404"}


def test_the_reference_has_every_name_that_the_framework_exports(built_site: Path) -> None:
    page = (built_site / "reference.html").read_text(encoding="utf-8")
    anchors = set(re.findall(r'id="controller\.\w+\.(\w+)"', page))
    assert set(controller.__all__) <= anchors
    anchors = set(re.findall(r'id="(controller\.[\w.]+)"', page))
    for package in (controller.scaffold, controller.webhooks, controller.testing):
        names = {anchor.rpartition(".")[2] for anchor in anchors if package.__name__ in anchor}
        assert set(package.__all__) <= names
    assert "controller.markers.FieldSchema" in anchors


def test_the_search_finds_pages_of_the_guide_and_of_the_reference(built_site: Path) -> None:
    index = (built_site / "search.json").read_text(encoding="utf-8")
    for location in ("operating/how-do-i.html", "operating/runbooks.html", "reference.html"):
        assert location in index


def test_every_picture_and_recording_that_a_page_shows_is_in_the_site(built_site: Path) -> None:
    linked_pages = set()
    for page in built_site.rglob("*.html"):
        content = page.read_text(encoding="utf-8")
        matches = re.findall(r'(?:src|href)="([^":#]+\.(?:png|cast))"', content)
        linked_pages |= {
            name[1:] if name.startswith("/") else relpath(page.parent / name, built_site)
            for name in matches
        }
    assert {"demo.cast", "images/map.png", "images/page.png", "images/pools.png"} <= linked_pages
    assert [name for name in linked_pages if not (built_site / name).is_file()] == []


def test_a_broken_link_fails_the_build(built_site: Path) -> None:
    page = built_site.parent / "docs" / "leases.md"
    page.write_text(page.read_text(encoding="utf-8") + "\n[gone](queue.md#nowhere)\n")
    command = [str(Path(sys.executable).with_name("zensical")), "build", "--strict"]
    done = subprocess.run(
        command, cwd=built_site.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "anchor does not exist" in done.stdout + done.stderr


def test_the_site_asks_no_other_server_for_anything(built_site: Path) -> None:
    loaded = r'<(?:script|link|img)[^>]+(?:src|href)="(https?://[^"]+)"'
    for page in built_site.rglob("*.html"):
        matches = re.findall(loaded, page.read_text(encoding="utf-8"))
        assert [url for url in matches if "example" not in url] == [], page.name
