"""`butler-ipam apiserver`: an API server for kubectl, without controllers."""

import json
import signal
import stat
from pathlib import Path

import anyio
import pytest

from tests.reconcilers.cli.commands import Kubectl, find_installed_command, run_to_end, start

READY = "Ctrl-C ends it"
"""The last words that the command prints before it serves requests for ever."""


async def test_kubectl_works_with_the_kubeconfig_that_it_writes(tmp_path: Path) -> None:
    config = tmp_path / "out" / "config"
    kubectl = Kubectl(config, tmp_path)
    arguments = ("apiserver", "--listen=127.0.0.1:0", f"--kubeconfig={config}")
    async with start(*arguments, program=find_installed_command) as server:
        await server.wait_for_output(READY)
        assert f"export KUBECONFIG={config}" in server.stdout
        assert stat.S_IMODE(config.stat().st_mode) == 0o600
        await kubectl.run("create", "namespace", "team-a")
        assert "team-a" in await kubectl.read_output("get", "namespaces")
        assert await server.stop(signal.SIGINT) == 0
    assert "Traceback" not in server.stderr


async def test_objects_in_the_data_folder_survive_a_killed_server(tmp_path: Path) -> None:
    data, config = tmp_path / "data", tmp_path / "config"
    kubectl = Kubectl(config, tmp_path)
    arguments = ("apiserver", "--listen=127.0.0.1:0", f"--data={data}", f"--kubeconfig={config}")
    async with start(*arguments) as server:
        await server.wait_for_output(READY)
        await kubectl.run("create", "configmap", "kept", "--from-literal=a=b")
        server.process.kill()
        await server.process.wait()
    async with start(*arguments) as server:
        await server.wait_for_output(READY)
        kept = json.loads(await kubectl.read_output("get", "configmap", "kept", "-o", "json"))
    assert kept["data"] == {"a": "b"}


async def test_a_deleted_namespace_stays_terminating_because_no_controllers_run(
    tmp_path: Path,
) -> None:
    config = tmp_path / "config"
    kubectl = Kubectl(config, tmp_path)
    async with start("apiserver", "--listen=127.0.0.1:0", f"--kubeconfig={config}") as server:
        await server.wait_for_output(READY)
        await kubectl.run("create", "namespace", "team-a")
        await kubectl.run("delete", "namespace", "team-a", "--wait=false")
        namespace = json.loads(
            await kubectl.read_output("get", "namespace", "team-a", "-o", "json")
        )
    assert namespace["status"]["phase"] == "Terminating"


async def test_users_of_a_token_file_get_the_rights_of_their_groups(tmp_path: Path) -> None:
    config, tokens = tmp_path / "config", tmp_path / "tokens.csv"
    tokens.write_text('secret-one,ada,1,"system:masters"\nsecret-two,bob,2\n')
    kubectl = Kubectl(config, tmp_path)
    arguments = (f"--kubeconfig={config}", f"--token-auth-file={tokens}")
    async with start("apiserver", "--listen=127.0.0.1:0", *arguments) as server:
        await server.wait_for_output(READY)
        content = config.read_text()
        user = config.with_name("user")
        for token, name, allowed in (("secret-one", "ada", True), ("secret-two", "bob", False)):
            user.write_text(_replace_token(content, token))
            done = await Kubectl(user, tmp_path).run("get", "secrets", check=False)
            assert (done.returncode == 0) is allowed, done.stderr.decode()
            if not allowed:
                assert f'User "{name}" cannot list' in done.stderr.decode()
        assert await kubectl.read_output("get", "--raw", "/readyz") == "ok"


def _replace_token(kubeconfig: str, token: str) -> str:
    """Return a kubeconfig with another token."""
    lines = kubeconfig.splitlines()
    return "\n".join(
        f"{line.partition('token:')[0]}token: {token}" if "token:" in line else line
        for line in lines
    )


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--listen=nonsense"], "'nonsense' is not an address to listen on"),
        (["--listen=127.0.0.1:99999"], "is not an address to listen on"),
        (["--token-auth-file=/nowhere"], "/nowhere cannot be read"),
        (["--listen=127.0.0.1:0", "--kubeconfig=/proc/nowhere/config"], "/proc/nowhere"),
        (["--listen=127.0.0.1:0", "--data=/proc/nowhere"], "/proc/nowhere"),
    ],
)
async def test_a_wrong_argument_is_rejected_without_a_traceback(
    arguments: list[str], complaint: str
) -> None:
    done = await run_to_end("apiserver", *arguments)
    assert done.returncode in {1, 2}
    assert complaint in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


async def test_an_error_about_a_token_file_names_the_wrong_line(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text("secret,ada,1\nsecret-two\n")
    done = await run_to_end("apiserver", "--listen=127.0.0.1:0", f"--token-auth-file={tokens}")
    assert done.returncode == 1
    assert "line 2" in done.stderr.decode()


async def test_a_kubeconfig_that_others_wrote_is_not_overwritten(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("apiVersion: v1\nkind: Config\n")
    done = await run_to_end("apiserver", "--listen=127.0.0.1:0", f"--kubeconfig={config}")
    assert done.returncode == 1
    assert "was not written by butler-ipam" in done.stderr.decode()
    assert config.read_text() == "apiVersion: v1\nkind: Config\n"


async def test_a_port_in_use_is_reported_without_a_traceback(tmp_path: Path) -> None:
    config = tmp_path / "config"
    async with start("apiserver", "--listen=127.0.0.1:0", f"--kubeconfig={config}") as server:
        url = (await server.wait_for_output(r"https://(127\.0\.0\.1:\d+)")).group(1)
        done = await run_to_end("apiserver", f"--listen={url}")
    assert done.returncode == 1
    assert f"cannot listen on {url}" in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


async def test_an_endless_file_as_kubeconfig_is_not_read_to_its_end() -> None:
    done = await run_to_end("apiserver", "--listen=127.0.0.1:0", "--kubeconfig=/dev/zero")
    assert done.returncode == 1
    assert "/dev/zero exists and was not written by butler-ipam" in done.stderr.decode()


async def test_a_kubeconfig_without_a_given_path_is_private_and_removed_at_the_end() -> None:
    async with start("apiserver", "--listen=127.0.0.1:0") as server:
        path = anyio.Path((await server.wait_for_output(r"export KUBECONFIG=(\S+)")).group(1))
        await server.wait_for_output(READY)
        assert stat.S_IMODE((await path.stat()).st_mode) == 0o600
        assert stat.S_IMODE((await path.parent.stat()).st_mode) == 0o700
        assert await server.stop() == 0
    assert not await path.exists()
