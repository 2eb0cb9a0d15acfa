"""The steps of docs/migrate-from-kopf.md, from a real kopf operator to one of this framework."""

import ast
import inspect
import re
import sys
import types
from pathlib import Path
from typing import Any

import httpx
import pytest

from controller import Manager, SystemClock
from envtest.plane import RunningControlPlane as Plane
from examples import websites
from tests.contract.test_controllers import wait_until_gone
from tests.contract.test_examples import (
    DEPLOYMENTS,
    MAPS,
    WEBSITES,
    create_object,
    install_example_kinds,
    make_website,
    patch_object,
    read_routes,
    run_kopf,
    run_manager,
)
from tests.contract.test_readme import wait_for_object

PAGE = Path(__file__).parents[2] / "docs/migrate-from-kopf.md"


async def run_page_blocks(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run the Python blocks of the page; return their global names."""
    module = types.ModuleType("page_migrating")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    names: dict[str, Any] = module.__dict__
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    for block in blocks:
        code = compile(block, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = eval(code, names)
        if inspect.isawaitable(result):
            await result
    return names


async def test_objects_of_a_kopf_operator_are_taken_over_without_a_new_child(
    plane: Plane, admin: httpx.AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await install_example_kinds(plane, "kopf")
    names = await run_page_blocks(monkeypatch)
    async with run_kopf(plane, tmp_path, "websites"):
        await create_object(admin, WEBSITES, make_website("blog"))
        child = await wait_for_object(admin, DEPLOYMENTS, name="blog", holds=lambda _: True)
        site = await wait_for_object(
            admin, WEBSITES, name="blog", holds=lambda site: bool(site.get("status"))
        )
        marked = await wait_for_object(
            admin, WEBSITES, name="blog", holds=lambda site: "annotations" in site["metadata"]
        )
    assert names["KOPF_FINALIZER"] in marked["metadata"]["finalizers"]
    assert any(name.startswith(names["KOPF_PREFIX"]) for name in marked["metadata"]["annotations"])
    assert site["metadata"]["uid"] == marked["metadata"]["uid"]

    def add(manager: Manager) -> None:
        websites.Websites(manager, SystemClock())
        names["add_cleanup"](manager, websites.WEBSITES)

    async with run_manager(plane, tmp_path, add):
        clean = await wait_for_object(
            admin,
            WEBSITES,
            name="blog",
            holds=lambda site: (
                site["metadata"].get("finalizers") == [websites.FINALIZER]
                and not site["metadata"].get("annotations")
            ),
        )
        assert clean["metadata"]["uid"] == site["metadata"]["uid"]
        await patch_object(admin, f"{WEBSITES}/blog", {"spec": {"replicas": 3}})
        same = await wait_for_object(
            admin,
            DEPLOYMENTS,
            name="blog",
            holds=lambda deployment: deployment["spec"]["replicas"] == 3,
        )
        assert same["metadata"]["uid"] == child["metadata"]["uid"]
        assert (await admin.delete(f"{WEBSITES}/blog")).is_success
        await wait_until_gone(admin, f"{WEBSITES}/blog")
        await wait_for_object(
            admin, MAPS, name="routes", holds=lambda config_map: read_routes(config_map) == {}
        )
