"""The files that GitHub and container engines read: of the form that they ask for, and true."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

ROOT = Path(__file__).parent.parent
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yaml"))
HIDDEN = {".ci", ".github"}
FORMS = sorted(path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")
SCHEMAS: dict[str, list[Path]] = {
    "vendor.github-workflows": WORKFLOWS,
    "vendor.dependabot": [GITHUB / "dependabot.yml"],
    "vendor.github-issue-forms": FORMS,
    "vendor.github-issue-config": [GITHUB / "ISSUE_TEMPLATE/config.yml"],
}


def workflow(name: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((GITHUB / "workflows" / f"{name}.yaml").read_text())
    return document


def steps() -> list[dict[str, Any]]:
    """Return the steps of all workflows."""
    jobs = [job for path in WORKFLOWS for job in workflow(path.stem)["jobs"].values()]
    return [step for job in jobs for step in job["steps"]]


@pytest.mark.parametrize(("schema", "paths"), SCHEMAS.items(), ids=list(SCHEMAS))
def test_each_file_fits_the_schema_that_there_is_for_it(schema: str, paths: list[Path]) -> None:
    # Imported here, and not started as a program: jsonschema takes two seconds of CPU each time.
    from check_jsonschema import main

    assert paths
    done = CliRunner().invoke(main, ["--builtin-schema", schema, *map(str, paths)])
    assert done.exit_code == 0, done.output


def test_actions_are_pinned_by_version_and_get_no_more_rights_than_they_need() -> None:
    uses = [step["uses"] for step in steps() if "uses" in step]
    assert uses
    assert [action for action in uses if not re.fullmatch(r"[\w./-]+@v\d+(\.\d+)*", action)] == []
    for path in WORKFLOWS:
        read = workflow(path.stem)
        assert read["permissions"] == {"contents": "read"}
        assert all("timeout-minutes" in job for job in read["jobs"].values())


def test_what_workflows_make_are_targets_and_files_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    run = "\n".join(step.get("run", "") for step in steps())
    assert set(re.findall(r"\bmake ([a-z-]+)", run)) <= targets
    paths = re.findall(r"\btests/[a-z]+\b", run)
    assert paths
    assert all((ROOT / path).exists() for path in paths)


def test_the_tests_run_on_every_python_that_is_promised_and_on_both_servers() -> None:
    jobs = workflow("ci")["jobs"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    promised = [
        classifier.rpartition(" ")[2]
        for classifier in project["classifiers"]
        if re.search(r":: 3\.\d+$", classifier)
    ]
    assert jobs["test"]["strategy"]["matrix"]["python"] == promised
    servers = jobs["real"]["strategy"]["matrix"]["servers"]
    built = (ROOT / "tests/realservers/build.py").read_text()
    assert servers == ["oldest", "newest"]
    assert all(f'"{server}' in built for server in servers)


def test_a_release_is_built_once_attested_signed_and_published_last() -> None:
    jobs = workflow("release")["jobs"]
    used = {
        name: [s.get("uses", "").partition("@")[0] for s in jobs[name]["steps"]] for name in jobs
    }
    assert "actions/attest-build-provenance" in used["build"]
    assert "actions/attest-build-provenance" in used["image"]
    said = {name: "\n".join(s.get("run", "") for s in jobs[name]["steps"]) for name in jobs}
    assert [name for name in jobs if "cosign sign" in said[name]] == ["image", "chart"]
    assert [name for name in jobs if "make release" in said[name]] == ["build"]
    assert set(jobs["publish"]["needs"]) == set(jobs) - {"publish"}
    for name in jobs:
        signs = "cosign sign" in said[name] or "actions/attest-build-provenance" in used[name]
        assert (jobs[name]["permissions"].get("id-token") == "write") == (signs or name == "pypi")


def containerfile() -> str:
    return (ROOT / "Containerfile").read_text()


def test_the_build_context_has_what_the_containerfile_copies_and_no_more() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    allowed = {line.removeprefix("!") for line in lines if line.startswith("!")}
    assert "*" in lines
    copied = {
        source
        for line in re.findall(r"^COPY (?!--from)(.+)$", containerfile(), re.MULTILINE)
        for source in line.split()[:-1]
    }
    assert copied == allowed


def test_the_image_says_what_it_is_and_of_which_base() -> None:
    labels = re.findall(r'org\.opencontainers\.image\.([a-z.]+)="([^"]*)"', containerfile())
    assert dict(labels).keys() >= {
        *("title", "description", "licenses", "url", "source", "documentation"),
        *("version", "revision", "base.name"),
    }
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    assert dict(labels)["source"] == urls["Repository"]
    assert dict(labels)["documentation"] == urls["Documentation"]
    [step] = [
        step for step in steps() if step.get("uses", "").startswith("docker/build-push-action")
    ]
    arguments = {line.partition("=")[0] for line in step["with"]["build-args"].splitlines()}
    asked = set(re.findall(r"\bARG ([A-Z]+)|\bVERSION\b|\b([A-Z]+)=", containerfile()))
    names = {default_name or other for default_name, other in asked} - {""}
    assert arguments <= names | {"VERSION"}
    assert "imagetools inspect" in "".join(step.get("run", "") for step in steps())


def test_every_file_gives_the_repository_the_address_that_pyproject_has() -> None:
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    own = urls["Repository"].removeprefix("https://github.com/")
    tops = [path for path in ROOT.iterdir() if path.name[0] != "." or path.name in HIDDEN]
    files = [path for top in tops for path in (top.rglob("*") if top.is_dir() else [top])]
    hosts = r"(?:github\.com|ghcr\.io|githubusercontent\.com)"
    others = {
        (str(path.relative_to(ROOT)), address)
        for path in files
        if path.is_file() and path.suffix != ".pyc" and path.parent.name != "tests"
        for address in re.findall(
            rf"{hosts}/([\w.-]+/butler-ipam)\b", path.read_text(errors="replace")
        )
        if address != own
    }
    assert others == set()
