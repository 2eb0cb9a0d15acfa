"""Finding the cluster to control: kubeconfigs, service accounts, and refusals of broken ones."""

import base64
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml

from controller import config
from controller.config import connect, read_pod_configuration
from controller.errors import ConfigurationError, Unauthorized
from tests.controller.certs import create_authority_and_pair
from tests.controller.kubeconfigs import write_kubeconfig

pytestmark = pytest.mark.usefixtures("no_cluster")


async def connect_and_read(*arguments: Any) -> bytes:
    """Connect with the arguments of `connect`; return the body of the answer to a GET."""
    transport = await connect(*arguments)
    try:
        return await transport.request("GET", "/version")
    finally:
        await transport.aclose()


async def test_the_kubeconfig_of_the_argument_is_used(tmp_path: Path, server: str) -> None:
    assert (
        await connect_and_read(write_kubeconfig(tmp_path / "k", server, {"token": "good"}))
        == b"{}"
    )


async def test_the_kubeconfigs_of_the_environment_and_of_the_home_directory_are_used(
    tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_kubeconfig(tmp_path / "home" / ".kube" / "config", server, {"token": "good"})
    assert await connect_and_read() == b"{}"
    named_file = write_kubeconfig(tmp_path / "named", server, {"token": "bad"})
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'missing'}{os.pathsep}{named_file}")
    with pytest.raises(Unauthorized):
        await connect_and_read()


async def test_of_several_kubeconfigs_the_first_current_context_is_used_as_in_kubectl(
    tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write_kubeconfig(tmp_path / "first", server, {"token": "good"})
    second = tmp_path / "second"
    monkeypatch.setenv("KUBECONFIG", f"{first}{os.pathsep}{second}")
    for current_context in ("two", ""):
        document = yaml.safe_load(first.read_text()) | {"current-context": current_context}
        second.write_text(yaml.safe_dump(document))
        assert await connect_and_read() == b"{}"


async def test_clusters_users_and_contexts_may_each_be_in_a_kubeconfig_of_their_own(
    tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete_file = write_kubeconfig(tmp_path / "complete", server, {"token": "good"})
    document = yaml.safe_load(complete_file.read_text())
    for name in ("clusters", "users", "contexts", "current-context"):
        (tmp_path / name).write_text(yaml.safe_dump({name: document[name]}))
    names = ("users", "clusters", "contexts", "current-context")
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(str(tmp_path / name) for name in names))
    assert await connect_and_read() == b"{}"
    assert config.list_context_names() == ["one", "two"]


async def test_a_pod_uses_its_service_account_and_reads_its_token_again(
    tmp_path: Path, tokens_seen: list[str], server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, _ = create_authority_and_pair()
    token, ca = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("good\n")
    ca.write_bytes(authority)
    monkeypatch.setattr(config, "TOKEN_FILE", token)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    transport = await connect()
    await transport.aclose()
    endpoint = vars(transport)["_endpoint"]
    assert endpoint.server == "https://[fd00::1]:443"
    assert await endpoint.credentials.get_authorization() == "Bearer good"
    token.write_text("newer\n")
    assert await endpoint.credentials.get_authorization() == "Bearer good"
    assert await endpoint.credentials.renew()
    assert await endpoint.credentials.get_authorization() == "Bearer newer"


def test_a_pod_does_not_load_kubernetes_asyncio(tmp_path: Path) -> None:
    authority, _ = create_authority_and_pair()
    (tmp_path / "token").write_text("good\n")
    (tmp_path / "ca.crt").write_bytes(authority)
    script = (
        "import sys, anyio\n"
        "from pathlib import Path\n"
        "from controller import config\n"
        f"config.TOKEN_FILE = Path({str(tmp_path / 'token')!r})\n"
        "transport = anyio.run(config.connect)\n"
        "print(transport.server, 'kubernetes_asyncio' in sys.modules)\n"
    )
    service = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    printed = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **service},
    ).stdout
    assert printed.split() == ["https://10.96.0.1:443", "False"]


@pytest.mark.parametrize(
    ("token", "authority", "port", "message_part"),
    [
        ("good", "ca", "", "no KUBERNETES_SERVICE_HOST or KUBERNETES_SERVICE_PORT"),
        (" \n", "ca", "443", "token is empty"),
        ("good", "", "443", "ca.crt is empty"),
        ("good", None, "443", "ca.crt: No such file or directory"),
    ],
)
def test_a_service_account_that_is_not_complete_is_refused(
    tmp_path: Path, token: str, authority: str | None, port: str, message_part: str
) -> None:
    (tmp_path / "token").write_text(token)
    if authority is not None:
        (tmp_path / "ca.crt").write_text(authority)
    service = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": port}
    with pytest.raises(ConfigurationError, match=message_part):
        read_pod_configuration(tmp_path / "token", service)


async def test_private_keys_of_a_kubeconfig_are_written_to_a_folder_that_only_its_owner_can_read(
    tmp_path: Path,
) -> None:
    authority, pair = create_authority_and_pair()
    user = {
        "client-certificate-data": base64.b64encode(pair.certificate).decode(),
        "client-key-data": base64.b64encode(pair.key).decode(),
    }
    ca = {"certificate-authority-data": base64.b64encode(authority).decode()}
    path = write_kubeconfig(tmp_path / "k", "https://127.0.0.1:6443", user, **ca)
    transport = await connect(path)
    await transport.aclose()
    directory = anyio.Path(vars(config)["_create_private_directory"]())
    assert stat.S_IMODE((await directory.stat()).st_mode) == 0o700


@pytest.mark.parametrize(
    ("content", "message_part"),
    [
        ("a: [", "is not YAML: "),
        ("a: !!bool x", "is not YAML: "),
        ("a: !!timestamp x", "is not YAML: "),
        ("a: 2020-13-45", "is not YAML: "),
        (r'a: "\UFFFFFFFF"', "is not YAML: "),
        ("kind: Pod", "has no contexts"),
        ("- a", "has no contexts"),
    ],
)
async def test_a_file_that_is_no_kubeconfig_is_refused_by_name(
    content: str, message_part: str, tmp_path: Path
) -> None:
    path = tmp_path / "odd"
    path.write_text(content)
    with pytest.raises(ConfigurationError) as caught:
        await connect(path)
    assert str(path) in str(caught.value)
    assert message_part in str(caught.value)


async def test_the_error_names_the_missing_kubeconfig_or_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigurationError, match="there is no cluster to talk to"):
        await connect()
    with pytest.raises(ConfigurationError, match="--kubeconfig names"):
        await connect(tmp_path / "missing")
    with pytest.raises(ConfigurationError, match="cannot be read: Is a directory"):
        await connect(tmp_path)
    path = write_kubeconfig(tmp_path / "k", "https://127.0.0.1", {"token": "t"})
    with pytest.raises(ConfigurationError, match="has no context 'three'; there are: one, two"):
        await connect(path, "three")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    with pytest.raises(ConfigurationError, match="KUBECONFIG names"):
        await connect()


def overwrite_fields(path: Path, change: dict[str, Any]) -> Path:
    """Overwrite top-level fields of a kubeconfig; return its path."""
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | change))
    return path


async def read_refusal(path: Path) -> str:
    """Connect by a refused kubeconfig; return the error's message, which names the file."""
    with pytest.raises(ConfigurationError) as caught:
        await connect(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "server",
    [
        *("", 5, None, "127.0.0.1:6443", "ftp://127.0.0.1", "https://", "https://127.0.0.1:99999"),
        *("https://[::1", f"https://{'a' * 64}.example"),
    ],
)
async def test_a_server_that_is_no_url_is_refused_before_anything_is_sent(
    tmp_path: Path, server: Any
) -> None:
    path = write_kubeconfig(tmp_path / "k", server, {"token": "t"})
    message = await read_refusal(path)
    assert "cluster 'c'" in message
    assert "is not a URL of a host: write https://HOST:PORT" in message


@pytest.mark.parametrize("proxy", ["http://[::1", "http://127.0.0.1:99999", 5, "socks5://h"])
async def test_a_proxy_that_is_no_url_is_refused(tmp_path: Path, proxy: Any) -> None:
    path = write_kubeconfig(
        tmp_path / "k", "https://127.0.0.1", {"token": "t"}, **{"proxy-url": proxy}
    )
    with pytest.raises(ConfigurationError, match="proxy-url names the proxy"):
        await connect(path)


@pytest.mark.parametrize(
    ("change", "message_part"),
    [
        ({"current-context": ""}, "has no current-context; name one of these: one, two"),
        ({"current-context": None}, "has no current-context; name one of these: one, two"),
        ({"current-context": ["one"]}, "has no context"),
        ({"current-context": "three"}, "has no context 'three'; there are: one, two"),
        ({"users": []}, "context 'one' names the user 'u', and there is none of that name"),
        ({"users": None}, "context 'one' names the user 'u', and there is none of that name"),
        ({"users": "u"}, "context 'one' names the user 'u', and there is none of that name"),
        ({"users": [{"name": "u", "user": None}]}, "names the user 'u', and there is none"),
        ({"clusters": [5]}, "context 'one' names the cluster 'c', and there is none of that name"),
        ({"contexts": [{"name": "one", "context": {"cluster": "c"}}]}, "'one' names no user"),
        ({"contexts": [{"name": "one", "context": {"user": "u"}}]}, "'one' names no cluster"),
        (
            {"contexts": [{"name": "one", "context": {"cluster": ["c"]}}]},
            "names the cluster ['c']",
        ),
        ({"contexts": [{"name": "one", "context": "c"}]}, "has no context 'one'; there are: none"),
    ],
)
async def test_a_kubeconfig_with_a_missing_context_cluster_or_user_is_refused(
    tmp_path: Path, change: dict[str, Any], message_part: str
) -> None:
    path = write_kubeconfig(tmp_path / "k", "https://127.0.0.1", {"token": "t"})
    assert message_part in await read_refusal(overwrite_fields(path, change))


async def test_malformed_users_that_the_context_does_not_name_are_ignored(
    tmp_path: Path, server: str
) -> None:
    path = write_kubeconfig(tmp_path / "k", server, {"token": "good"})
    document = yaml.safe_load(path.read_text())
    document["users"] += [{"name": "v", "user": "text"}, {"name": "w", "user": {"tokenFile": 5}}]
    path.write_text(yaml.safe_dump(document))
    assert await connect_and_read(path) == b"{}"


async def test_a_server_of_plain_http_needs_no_user(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "k", "http://127.0.0.1:8001", {})
    contexts = [{"name": "one", "context": {"cluster": "c"}}]
    transport = await connect(overwrite_fields(path, {"contexts": contexts}))
    await transport.aclose()


async def test_impersonation_is_refused_and_not_ignored(tmp_path: Path, server: str) -> None:
    path = write_kubeconfig(tmp_path / "k", server, {"token": "good"})
    with pytest.raises(ConfigurationError, match="user i impersonates another"):
        await connect(path, "two")


async def test_a_file_that_is_no_certificate_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("no certificate")
    user = {"token": "t"}
    cluster = {"certificate-authority": str(tmp_path / "ca")}
    path = write_kubeconfig(tmp_path / "k", "https://127.0.0.1", user, **cluster)
    with pytest.raises(ConfigurationError, match=r"certificates for https://127\.0\.0\.1"):
        await connect(path)


async def test_an_empty_file_among_several_kubeconfigs_is_skipped_as_in_kubectl(
    tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty, comment = tmp_path / "empty", tmp_path / "comment"
    empty.write_bytes(b"")
    comment.write_text("# nothing yet\n")
    full = write_kubeconfig(tmp_path / "full", server, {"token": "good"})
    for order in ((empty, full, comment), (full, comment, empty)):
        monkeypatch.setenv("KUBECONFIG", ":".join(map(str, order)))
        assert await connect_and_read()


async def test_an_empty_kubeconfig_alone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    monkeypatch.setenv("KUBECONFIG", str(empty))
    with pytest.raises(ConfigurationError, match="has no contexts"):
        await connect()


async def test_the_token_file_of_a_user_is_used_rather_than_the_token_as_in_kubectl(
    tmp_path: Path, server: str
) -> None:
    """As transport.NewBearerAuthWithRefreshRoundTripper of client-go does."""
    (tmp_path / "token").write_text("good\n")
    user = {"token": "bad", "tokenFile": "token"}
    assert await connect_and_read(write_kubeconfig(tmp_path / "config", server, user))


@pytest.mark.parametrize("content", [None, "", "  \n"])
async def test_the_token_of_a_user_is_used_while_the_token_file_cannot_be_read(
    tmp_path: Path, server: str, content: str | None
) -> None:
    if content is not None:
        (tmp_path / "token").write_text(content)
    user = {"token": "good", "tokenFile": "token"}
    assert await connect_and_read(write_kubeconfig(tmp_path / "config", server, user))
