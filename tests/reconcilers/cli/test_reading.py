"""Input that cannot be read or parsed: one error for each fault, and the rest is still planned."""

import errno
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconcilers.cli.reading import objects
from tests.reconcilers.cli.commandline import (
    make_allocation,
    make_held_status,
    make_object,
    make_pool,
    plan,
    plan_text,
    run,
)
from tests.reconcilers.cli.commands import make_command_line, make_environment

VALID_POOL = yaml.safe_dump(make_pool("good"))


def plan_manifests(manifests: str | bytes) -> tuple[list[str], list[str]]:
    """Run `plan` on manifests; return the errors, and the names of the planned objects."""
    data = manifests.encode() if isinstance(manifests, str) else manifests
    outcome = run("plan", "-f", "-", "-o", "json", stdin=data)
    assert outcome.code == (1 if outcome.errors else 0)
    return outcome.errors, list(outcome.items)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"\xff\xfea\0: \x001\0", "UTF-16"),
        (b"\xfe\xff\0a\0:", "UTF-16"),
        (b"\x7fELF\0\0", "binary file"),
        (b"a: 1\nb: \x80\n", "not UTF-8 text (byte 0x80 in line 2)"),
    ],
)
def test_a_file_that_is_not_utf_8_text_is_an_error(
    tmp_path: Path, data: bytes, sentence: str
) -> None:
    (tmp_path / "bad.yaml").write_bytes(data)
    (tmp_path / "good.yaml").write_text(VALID_POOL)
    outcome = run("plan", "-f", tmp_path, "-o", "json")
    assert outcome.code == 1
    assert [sentence in error for error in outcome.errors] == [True]
    assert outcome.errors[0].startswith(str(tmp_path / "bad.yaml"))
    assert list(outcome.items) == ["NetworkPool/good"]


def test_a_utf_8_byte_order_mark_is_ignored() -> None:
    assert plan_manifests(b"\xef\xbb\xbf" + VALID_POOL.encode()) == ([], ["NetworkPool/good"])


def test_a_missing_file_is_an_error_and_the_other_files_are_planned(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(VALID_POOL)
    outcome = run("plan", "-f", tmp_path / "nope.yaml", "-f", tmp_path / "good.yaml", "-o", "json")
    assert outcome.code == 1
    assert outcome.errors == [f"{tmp_path}/nope.yaml: there is no such file or folder"]
    assert list(outcome.items) == ["NetworkPool/good"]


def test_input_above_the_size_limit_is_an_error_and_the_other_files_are_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "MOST_BYTES", 1 << 20)
    (tmp_path / "good.yaml").write_text(VALID_POOL.ljust(1 << 20))
    stdin = b"#" * ((1 << 20) + 1)
    files = ("-f", "/dev/zero", "-f", "-", "-f", tmp_path / "good.yaml")
    outcome = run("plan", *files, "-o", "json", stdin=stdin)
    assert outcome.errors == [
        f"{name}: this cannot be read: it is longer than 1 MiB; split it into smaller files"
        for name in ("/dev/zero", "standard input")
    ]
    assert list(outcome.items) == ["NetworkPool/good"]


@pytest.mark.parametrize("command", ["plan", "map"])
def test_a_url_is_not_fetched(command: str) -> None:
    outcome = run(command, "-f", "https://example.com/pools.yaml")
    assert outcome.code == 1
    assert outcome.errors[0].endswith("this is a URL; download it first, only files are read")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("a" * 300, "this cannot be read: File name too long"),
        ("round", "this cannot be read: Too many levels of symbolic links"),
        ("gone", "there is no such file or folder"),
        ("good.yaml/below", "this cannot be read: Not a directory"),
    ],
)
def test_a_path_that_leads_to_no_file_is_an_error_and_the_other_files_are_planned(
    tmp_path: Path, name: str, sentence: str
) -> None:
    (tmp_path / "round").symlink_to("round")
    (tmp_path / "gone").symlink_to("nowhere")
    (tmp_path / "good.yaml").write_text(VALID_POOL)
    outcome = run("plan", "-f", tmp_path / name, "-f", tmp_path / "good.yaml", "-o", "json")
    assert (outcome.code, outcome.errors) == (1, [f"{tmp_path}/{name}: {sentence}"])
    assert list(outcome.items) == ["NetworkPool/good"]


def test_a_link_to_itself_in_a_folder_is_an_error_and_the_other_files_are_planned(
    tmp_path: Path,
) -> None:
    (tmp_path / "round.yaml").symlink_to("round.yaml")
    (tmp_path / "good.yaml").write_text(VALID_POOL)
    outcome = run("plan", "-f", tmp_path, "-o", "json")
    assert outcome.errors == [
        f"{tmp_path}/round.yaml: this cannot be read: Too many levels of symbolic links"
    ]
    assert list(outcome.items) == ["NetworkPool/good"]


def test_an_empty_file_name_is_an_error_and_does_not_mean_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "good.yaml").write_text(VALID_POOL)
    monkeypatch.chdir(tmp_path)
    outcome = run("plan", "-f", "")
    assert outcome.code == 1
    assert (
        outcome.errors[0] == "--filename: the name of the file is empty; name a file or a folder"
    )


def test_an_inner_folder_that_cannot_be_read_is_an_error_and_names_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "good.yaml").write_text(VALID_POOL)
    (tmp_path / "locked").mkdir()
    scandir = os.scandir

    def refuse(path: Any = ".") -> Any:
        if Path(path).name == "locked":  # file modes would not stop root
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    outcome = run("plan", "-R", "-f", tmp_path, "-o", "json")
    assert (outcome.code, outcome.errors) == (
        1,
        [f"{tmp_path}/locked: this cannot be read: Permission denied"],
    )
    assert list(outcome.items) == ["NetworkPool/good"]


def test_a_closed_standard_input_is_an_error_without_a_traceback() -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *make_command_line("plan", "-f", "-")],
        capture_output=True,
        text=True,
        check=False,
        env=make_environment(),
    )
    assert done.returncode == 1
    assert done.stderr.startswith(
        "error: standard input: standard input is closed; pass a file, or pipe manifests into the"
        " command\n"
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("content", ["", "\n\n", "# nothing\n", "---\n---\n"])
def test_the_error_about_an_empty_input_says_that_there_is_nothing_to_plan(content: str) -> None:
    outcome = plan_text(content)
    assert outcome.code == 1
    assert outcome.errors == ["there is nothing to plan: no NetworkPool or IPAllocation was found"]
    assert outcome.warnings == ["standard input: it contains no object"]


def test_a_file_of_comments_among_others_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("# later\n")
    (tmp_path / "b.yaml").write_text(VALID_POOL)
    outcome = run("plan", "-f", tmp_path)
    assert outcome.code == 0
    assert outcome.warnings == [f"{tmp_path}/a.yaml: it contains no object"]


def test_the_yaml_and_json_files_of_a_folder_are_read(tmp_path: Path) -> None:
    (tmp_path / "1.yaml").write_text(VALID_POOL)
    (tmp_path / "2.yml").write_text(yaml.safe_dump(make_pool("two", "10.2.0.0/24")))
    (tmp_path / "3.json").write_text(json.dumps(make_pool("three", "10.3.0.0/24")))
    (tmp_path / "README.md").write_text("no: manifest: this")
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "4.yaml").write_text(yaml.safe_dump(make_pool("four", "10.4.0.0/24")))
    flat = run("plan", "-f", tmp_path, "-o", "json")
    assert list(flat.items) == ["NetworkPool/good", "NetworkPool/two", "NetworkPool/three"]
    assert "NetworkPool/four" in run("plan", "-R", "-f", tmp_path, "-o", "json").items


def test_a_folder_without_manifests_is_an_error(tmp_path: Path) -> None:
    outcome = run("plan", "-f", tmp_path)
    assert outcome.code == 1
    assert "no .yaml, .yml, .json file is in this folder; -R looks" in outcome.errors[0]


@pytest.mark.parametrize("command", [("pools",), ("tenants",), ("check",), ("whois", "10.0.0.1")])
def test_the_error_about_an_empty_folder_suggests_recursive_unless_it_was_given(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    outcome = run(*command, "-f", tmp_path)
    assert outcome.code != 0
    assert "no .yaml, .yml, .json file is in this folder; -R looks" in outcome.err
    assert "-R" not in run(*command, "-f", tmp_path, "-R").err


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(VALID_POOL)
    assert run("plan", "-f", path, "-f", tmp_path).code == 0


def test_a_syntax_error_skips_only_its_own_document() -> None:
    errors, objects = plan_manifests(
        f"{VALID_POOL}---\na: b: c\n---\n{yaml.safe_dump(make_allocation('a', pool='good'))}"
    )
    line = VALID_POOL.count("\n") + 2
    [error] = errors
    assert error == (
        f"standard input:{line}: this is not valid YAML:"
        " mapping values are not allowed in this context (document 2)"
    )
    assert objects == ["NetworkPool/good", "IPAllocation/a"]


def test_json_documents_may_follow_each_other() -> None:
    manifests = (
        json.dumps(make_pool("one")) + "\n" + json.dumps(make_pool("two", "10.2.0.0/24"), indent=2)
    )
    assert plan_manifests(manifests) == ([], ["NetworkPool/one", "NetworkPool/two"])


def test_an_error_in_indented_json_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(make_allocation("a", 0), indent=2))
    line = json.dumps(make_allocation("a", 0), indent=2).splitlines().index('    "count": 0') + 1
    [error] = run("plan", "-f", tmp_path).errors
    assert error.startswith(f"{tmp_path}/a.json:{line}: ")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"a": 1,\n "b" 2}', ":2: this is not valid JSON: Expecting ':' delimiter"),
        ('{"a": 1,\n "a": 2}', ":2: the key 'a' appears twice in one object"),
        ('{"a": NaN}', "NaN is not a number in JSON"),
        ("[" * 100_000, "nested"),
    ],
)
def test_an_error_about_invalid_json_names_the_problem(
    tmp_path: Path, content: str, problem: str
) -> None:
    (tmp_path / "a.json").write_text(content)
    [error] = run("plan", "-f", tmp_path).errors
    assert problem in error


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("hello\n", "document 1 is a single word, not an object with a kind"),
        ("- a\n", "document 1 is a list, not an object with a kind"),
        ("kind: NetworkPool\n", "document 1: apiVersion is missing"),
        ("apiVersion: v1\n", "document 1: kind is missing"),
        ("apiVersion: 1\nkind: Pod\n", "document 1: apiVersion must be a string, not 1"),
        ("apiVersion: v1\nkind: List\n", "List: items is missing"),
        ("apiVersion: v1\nkind: List\nitems: {}\n", "List: items must be a list"),
        ("apiVersion: v1\nkind: List\nitems: [5]\n", "items[0] of the List in document 1"),
    ],
)
def test_a_document_that_is_no_object_is_an_error_and_the_next_is_planned(
    content: str, problem: str
) -> None:
    errors, objects = plan_manifests(f"{content}---\n{VALID_POOL}")
    assert [problem in error for error in errors] == [True]
    assert errors[0].startswith("standard input:")
    assert objects == ["NetworkPool/good"]


@pytest.mark.parametrize(
    ("api_version", "kind", "hint"),
    [
        ("butler.butlerlabs.dev/v1alpha1", "NetworkPol", "did you mean NetworkPool?"),
        ("butler.butlerlabs.dev/v1alpha1", "networkpool", "did you mean NetworkPool?"),
        ("butler.butlerlabs.dev/v1alpha1", "ipa", "did you mean IPAllocation?"),
        ("butler.butlerlabs.dev/v1", "NetworkPool", "is another version"),
        ("butler.butlerlab.dev/v1alpha1", "NetworkPool", "is of another group"),
        ("v1", "Secrte", "did you mean Secret?"),
        ("example.com/v1", "Xyzzy", "the kinds known are NetworkPool, IPAllocation"),
    ],
)
def test_an_unknown_kind_is_an_error_with_the_nearest_name(
    api_version: str, kind: str, hint: str
) -> None:
    errors, objects = plan_manifests(f"{VALID_POOL}---\napiVersion: {api_version}\nkind: {kind}\n")
    [error] = errors
    assert error.startswith(f"standard input:{VALID_POOL.count(chr(10)) + 2}: document 2: ")
    assert hint in error
    assert objects == ["NetworkPool/good"]


def test_known_kinds_that_do_not_concern_addresses_are_skipped_with_a_note() -> None:
    others = "".join(
        f"---\napiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\n"
        for version, kind in [("v1", "Secret"), ("v1", "Secret"), ("apps/v1", "Deployment")]
    )
    outcome = plan_text(VALID_POOL + others)
    assert outcome.code == 0
    assert (
        outcome.err == "note: skipped, because plan does not need them: Deployment, Secret (2)\n"
    )


def test_objects_in_nested_lists_are_planned() -> None:
    inner = {"apiVersion": "v1", "kind": "List", "items": [make_pool("two", "10.2.0.0/24")]}
    outer = {"apiVersion": "v1", "kind": "List", "items": [make_pool("one"), inner]}
    assert list(plan(outer).items) == ["NetworkPool/one", "NetworkPool/two"]


def test_the_items_of_a_list_of_one_kind_need_not_repeat_it() -> None:
    network_pool = make_pool("one")
    listed = {
        "apiVersion": network_pool.pop("apiVersion"),
        "kind": "NetworkPoolList",
        "items": [network_pool],
    }
    del network_pool["kind"]
    assert list(plan(listed).items) == ["NetworkPool/one"]


def test_a_list_whose_items_are_null_is_empty() -> None:
    """Go writes an empty list so."""
    manifests = f"apiVersion: v1\nkind: List\nitems: null\n---\n{VALID_POOL}"
    assert plan_manifests(manifests) == ([], ["NetworkPool/good"])


def test_an_object_that_is_defined_twice_is_an_error_that_names_both_places() -> None:
    errors, _ = plan_manifests(f"{VALID_POOL}---\n{VALID_POOL}")
    [error] = errors
    assert error == (
        f"standard input:{VALID_POOL.count(chr(10)) + 2}: NetworkPool butler-system/good"
        " is defined twice, first at standard input:1"
    )


def test_the_same_name_in_another_namespace_is_another_object() -> None:
    outcome = plan(make_pool(), make_pool(namespace="other", cidr="10.9.0.0/24"))
    assert outcome.code == 0


def test_objects_without_a_namespace_get_the_namespace_of_the_flag() -> None:
    unplaced = make_pool()
    del unplaced["metadata"]["namespace"]
    assert plan(unplaced).items["NetworkPool/lab"]["metadata"]["namespace"] == "butler-system"
    elsewhere = plan(unplaced, options=["-n", "elsewhere"])
    assert elsewhere.items["NetworkPool/lab"]["metadata"]["namespace"] == "elsewhere"


def test_the_error_about_a_name_that_yaml_parses_as_a_boolean_suggests_quotes() -> None:
    manifests = VALID_POOL.replace("name: good", "name: y")
    line = manifests.splitlines().index("  name: y") + 1
    errors, _ = plan_manifests(manifests)
    [error] = errors
    assert error == (
        f"standard input:{line}: NetworkPool without a name: metadata.name:"
        " must be a string, not true; quote it"
    )


def test_invalid_objects_are_errors_and_the_other_objects_are_planned() -> None:
    outcome = plan(
        make_pool(),
        make_object("NetworkPool", "bad", {"cidr": 5}),
        make_allocation("fine", 4),
        make_allocation("wrong", 0),
        make_allocation("old", status=make_held_status("10.40.0.8", "10.40.0.15")),
    )
    assert outcome.code == 1
    assert len(outcome.errors) == 2
    assert outcome.items["IPAllocation/fine"]["status"]["phase"] == "Allocated"
    assert set(outcome.items) == {
        *("NetworkPool/lab", "IPAllocation/fine", "IPAllocation/old"),
    }
