"""Finding the cluster to control, in the order of every Kubernetes tool.

1. the kubeconfig and context that the caller names
2. the files in $KUBECONFIG
3. the service account of the pod
4. ~/.kube/config

kubernetes_asyncio reads kubeconfigs; their exec plugins are run by execplugin.py. It is imported
only if there is a kubeconfig, and without its models (credentials.py). A kubeconfig with
impersonation is refused, because kubernetes_asyncio would silently ignore it.
"""

import atexit
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import anyio
import yaml
from anyio.to_thread import run_sync

from controller.argumenttypes import check_type
from controller.credentials import Configuration, LoadedCredentials, import_kubeconfig_reader
from controller.endpoint import Endpoint, parse_host_url
from controller.errors import ConfigurationError
from controller.execplugin import run_plugin
from controller.httptransport import HttpTransport
from controller.proxies import check_proxy, find_environment_proxy
from controller.transport import Transport
from controller.yamlerrors import YAML_ERRORS

TOKEN_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
HOST = "KUBERNETES_SERVICE_HOST"
PORT = "KUBERNETES_SERVICE_PORT"
_NAMED_FILES = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_Documents = Sequence[Mapping[str, Any]]


async def connect(
    kubeconfig: Path | None = None,
    context: str | None = None,
    *,
    user_agent: str = "controller",
    may_ask: bool = True,
) -> Transport:
    """Return a transport to the cluster that the arguments or the environment name.

    Nothing is sent yet. The caller closes the transport.

    Args:
        kubeconfig: a file; None for the search order above.
        context: a context in the kubeconfig; None for its current one.
        user_agent: the User-Agent header of all requests.
        may_ask: whether an exec plugin may ask a person on the terminal.

    Raises:
        ConfigurationError: no cluster is configured, or its configuration cannot be used.
        TypeError: `kubeconfig` is no Path.
    """
    check_type(
        kubeconfig,
        (Path, type(None)),
        argument="connect: kubeconfig",
        expected="a pathlib.Path or None",
    )
    paths = _find_kubeconfigs(kubeconfig, context)

    async def load() -> Configuration:
        """Return the configuration; LoadedCredentials calls this again when a file has changed."""
        if paths:
            return await _load_kubeconfigs(paths, context, may_ask=may_ask)
        return await run_sync(read_pod_configuration, TOKEN_FILE)

    configuration = await load()
    credentials = LoadedCredentials(configuration, load, await run_sync(_list_files, paths))
    if configuration.proxy:
        proxy = check_proxy(str(configuration.proxy), "the kubeconfig's proxy-url")
    else:
        proxy = find_environment_proxy(configuration.host, os.environ)
    return HttpTransport(
        Endpoint(
            server=configuration.host,
            credentials=credentials,
            tls=credentials.get_tls_context(),
            get_current_tls=credentials.get_tls_context,
            server_name=configuration.tls_server_name or "",
            proxy=proxy,
            user_agent=user_agent,
        )
    )


@asynccontextmanager
async def open_transport(
    kubeconfig: Path | None, context: str | None, *, user_agent: str, may_ask: bool = True
) -> AsyncIterator[Transport]:
    """Connect for the time of the context; the arguments are those of `connect`."""
    transport = await connect(kubeconfig, context, user_agent=user_agent, may_ask=may_ask)
    try:
        yield transport
    finally:
        with anyio.CancelScope(shield=True):  # a cancelled program closes its connections, too
            await transport.aclose()


@dataclass(frozen=True, slots=True)
class PodConfiguration:
    """The in-cluster configuration of a pod, with the attributes of kubernetes_asyncio's class.

    Args:
        host: the server's URL.
        ssl_ca_cert: path of the authority's certificates, PEM.
        api_key: the token, under `BearerToken`.
    """

    host: str
    ssl_ca_cert: str
    api_key: dict[str, str] = field(repr=False)
    verify_ssl: bool = True
    cert_file: str = ""
    key_file: str = ""
    tls_server_name: str = ""
    proxy: str = ""
    refresh_api_key_hook: None = None
    """None: LoadedCredentials reads the token again when its file changes."""


def read_pod_configuration(
    token_file: Path, environment: Mapping[str, str] = os.environ
) -> PodConfiguration:
    """Read the service account of this pod, by client-go's rules.

    Args:
        token_file: where kubelet puts the token; `ca.crt` is in the same folder.
        environment: has the server's host and port, as kubelet sets them.

    Raises:
        ConfigurationError: the address, the token or ca.crt is missing or empty.
    """
    host, port = environment.get(HOST, ""), environment.get(PORT, "")
    if not host or not port:
        raise ConfigurationError(f"the pod's service account cannot be used: no {HOST} or {PORT}")
    authority = token_file.with_name("ca.crt")
    for file in (token_file, authority):
        try:
            is_empty = not file.read_bytes().strip()
        except OSError as error:
            raise ConfigurationError(
                f"the pod's service account cannot be used: {file}: {error.strerror}"
            ) from error
        if is_empty:
            raise ConfigurationError(f"the pod's service account cannot be used: {file} is empty")
    address = f"[{host}]" if ":" in host else host  # only an IPv6 address has a colon
    token = token_file.read_text().strip()
    return PodConfiguration(
        f"https://{address}:{port}", str(authority), {"BearerToken": f"Bearer {token}"}
    )


def _find_kubeconfigs(kubeconfig: Path | None, context: str | None) -> list[Path]:
    """Return the kubeconfig files to read; an empty list means the pod's service account.

    The module's docstring has the search order.

    Raises:
        ConfigurationError: there is neither a kubeconfig nor a service account.
    """
    if kubeconfig is not None:
        path = kubeconfig.expanduser()
        # A folder passes: the error of reading it has a better message.
        if not path.is_file() and not path.is_dir():
            raise ConfigurationError(f"--kubeconfig names {path}, and there is no such file")
        return [path]
    if listed := os.environ.get("KUBECONFIG"):
        paths = [Path(path).expanduser() for path in listed.split(os.pathsep) if path]
        if existing := [path for path in paths if path.exists()]:
            return existing  # like kubectl, which passes over missing files if one file exists
        raise ConfigurationError(f"KUBECONFIG names {listed}, and there is no such file")
    # A named context is an entry of a kubeconfig, so the service account is not meant.
    if not context and os.environ.get(HOST) and TOKEN_FILE.exists():
        return []
    default = Path.home() / ".kube" / "config"
    if default.exists():
        return [default]
    raise ConfigurationError(
        f"there is no cluster to talk to: no --kubeconfig, no KUBECONFIG, no {default}, and"
        " this is not a pod with a service account"
    )


def list_context_names(kubeconfig: Path | None = None) -> list[str]:
    """Return the names of the contexts that `connect` can be given, each once.

    The list is empty if `connect` would use the service account of a pod.

    Args:
        kubeconfig: a file; None looks where kubectl looks.

    Raises:
        ConfigurationError: there is no kubeconfig, or one is wrong.
    """
    documents = _read_kubeconfigs(_find_kubeconfigs(kubeconfig, context=None))
    entries = (entry for document in documents for entry in _list_entries(document, "context"))
    return [*dict.fromkeys(str(entry["name"]) for entry in entries if "name" in entry)]


def _list_files(kubeconfigs: Sequence[Path]) -> list[Path]:
    """Return the files that a configuration is read from: kubeconfigs, and the files they name.

    Fields ending in `-data` hold the contents themselves and name no file.

    Args:
        kubeconfigs: the kubeconfig files; empty for the pod's service account.
    """
    if not kubeconfigs:
        return [TOKEN_FILE, TOKEN_FILE.with_name("ca.crt")]
    files = list(kubeconfigs)
    for path, document in zip(kubeconfigs, _read_kubeconfigs(kubeconfigs), strict=True):
        for section in ("cluster", "user"):
            for entry in _index_entries([document], section).values():
                references = (entry[name] for name in _NAMED_FILES if entry.get(name))
                files += [path.parent / name for name in references if isinstance(name, str)]
    return files


async def _load_kubeconfigs(
    paths: list[Path], context: str | None, *, may_ask: bool
) -> Configuration:
    """Read kubeconfig files, merge them as kubectl does, and run the user's exec plugin.

    The classes of kubernetes_asyncio merge and load the files. Where they differ from kubectl,
    this function changes their input: it leaves out empty files, removes fields of the user that
    kubectl would ignore, and gives the loader the credentials of the plugin.

    Args:
        paths: the files; at least one.
        context: the context to use; None for the current context of the files.
        may_ask: whether the exec plugin may ask a person on the terminal.

    Raises:
        ConfigurationError: the files cannot be used, or the exec plugin failed.
    """
    documents = _read_kubeconfigs(paths)
    where = os.pathsep.join(map(str, paths))
    context_name = _choose_context(documents, context, where)
    user_name = _index_entries(documents, "context")[context_name].get("user")
    # Empty if the context names no user, which plain HTTP does not need.
    user = _index_entries(documents, "user").get(str(user_name), {})
    config = import_kubeconfig_reader()
    reader = config.kube_config
    configuration = reader.Configuration()
    try:
        # kubernetes_asyncio fails for an empty file, which kubectl passes over.
        nonempty_paths = [
            path for path, document in zip(paths, documents, strict=True) if document
        ]
        merged = reader.KubeConfigMerger(os.pathsep.join(map(str, nonempty_paths))).config
        plugin_answer: Mapping[str, str] = {}
        ignored_fields: Sequence[str] = ()
        if "exec" in user:
            plugin = config.exec_provider.ExecProvider(reader.ConfigNode("exec", user["exec"]))
            plugin_answer = await run_plugin(
                plugin.args, plugin.env, user["exec"], may_ask=may_ask
            )
            # The loader must not run the plugin again or prefer other credentials to the plugin's.
            ignored_fields = ("exec", "token", "tokenFile", "username", "password")
        elif user.get("token") and user.get("tokenFile"):
            # The loader takes `token`; kubectl takes it only while the file cannot be read.
            token_file = _find_token_file(paths, documents, user_name)
            ignored_fields = ("token",) if _has_token(token_file) else ("tokenFile",)
        for field_name in ignored_fields:
            merged["users"].get_with_name(user_name)["user"].value.pop(field_name, None)
        loader = reader.KubeConfigLoader(
            merged,
            active_context=context_name,
            config_base_path=None,  # each file's own folder
            temp_file_path=_create_private_directory(),
        )
        if plugin_answer:
            _set_plugin_credentials(loader, reader, plugin_answer)
        await loader.load_and_set(configuration)
    except (config.ConfigException, ConfigurationError) as error:
        raise ConfigurationError(f"kubeconfig {where}: {error}") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError, AssertionError) as error:
        # The loader raises these for fields of the wrong type, which it does not check.
        raise ConfigurationError(
            f"kubeconfig {where} cannot be used: {type(error).__name__}: {error}"
        ) from error
    _check_user(user, configuration, where=where, name=user_name)
    return configuration


def _set_plugin_credentials(loader: Any, reader: Any, plugin_answer: Mapping[str, str]) -> None:
    """Give a loader of kubernetes_asyncio the credentials of an exec plugin.

    Args:
        loader: a KubeConfigLoader.
        reader: the module of kubernetes_asyncio that reads kubeconfigs.
        plugin_answer: has `token`, or `clientCertificateData` and `clientKeyData`.
    """
    if "token" in plugin_answer:
        loader.token = f"Bearer {plugin_answer['token']}"
        return
    # The loader wants paths, so the certificate and the key are written to files.
    loader.cert_file, loader.key_file = (
        reader.FileOrData(
            plugin_answer,
            file_key_name=None,  # the answer never names a file
            data_key_name=answer_field,
            base64_file_content=False,  # the answer has PEM texts
            temp_file_path=_create_private_directory(),
        ).as_file()
        for answer_field in ("clientCertificateData", "clientKeyData")
    )


def _find_token_file(paths: Sequence[Path], documents: _Documents, user: object) -> Path:
    """Return the file that the field `tokenFile` of a user names.

    A relative path counts from the folder of the first kubeconfig that has the user.
    """
    for path, document in zip(paths, documents, strict=True):
        if (fields := _index_entries([document], "user").get(str(user))) is not None:
            return path.parent / str(fields["tokenFile"])
    raise KeyError(user)  # not reached: the caller has read the field from these documents


def _has_token(file: Path) -> bool:
    """Return whether a file can be read and is not empty."""
    try:
        return bool(file.read_bytes().strip())
    except OSError:
        return False


def _choose_context(documents: _Documents, context: str | None, where: str) -> str:
    """Return the name of the context to use, after checking the entries that the context names.

    The context is `context`, else the first current-context of all files, as in kubectl. The
    entries are checked here because the loader's own errors are not clear.

    Raises:
        ConfigurationError: the context is not named or missing, the cluster or the user that it
            names is missing, or the cluster's server is no URL.
    """
    contexts = _index_entries(documents, "context")
    all_names = ", ".join(contexts) or "none"
    current_names = (document.get("current-context") for document in documents)
    name = str(context or next(filter(None, current_names), ""))
    if not name:
        raise ConfigurationError(
            f"kubeconfig {where} has no current-context; name one of these: {all_names}"
        )
    if name not in contexts:
        raise ConfigurationError(
            f"kubeconfig {where} has no context {name!r}; there are: {all_names}"
        )
    cluster = _find_context_entry(documents, name, section="cluster", where=where)
    server = cluster.get("server")
    parts = parse_host_url(server) if isinstance(server, str) else None
    if parts is None:
        raise ConfigurationError(
            f"kubeconfig {where}: the server of cluster {contexts[name]['cluster']!r} is not a"
            f" URL of a host: write https://HOST:PORT instead of {str(server or '')[:100]!r}"
        )
    # Plain HTTP (kubectl proxy, for example) needs no user; but a user that is named must exist.
    if parts.scheme == "https" or contexts[name].get("user"):
        _find_context_entry(documents, name, section="user", where=where)
    return name


def _find_context_entry(
    documents: _Documents, context: str, section: str, where: str
) -> Mapping[str, Any]:
    """Return the fields of the cluster or user that a context names.

    Args:
        documents: the kubeconfigs.
        context: the name of the context.
        section: `cluster` or `user`.
        where: the paths of the kubeconfigs, for the message.

    Raises:
        ConfigurationError: the context names no such entry, or the entry is missing.
    """
    name = _index_entries(documents, "context")[context].get(section)
    entry = _index_entries(documents, section).get(str(name)) if name else None
    if entry is None:
        subject = (
            f"the {section} {name!r}, and there is none of that name" if name else f"no {section}"
        )
        raise ConfigurationError(f"kubeconfig {where}: context {context!r} names {subject}")
    return entry


def _index_entries(documents: _Documents, section: str) -> dict[str, Mapping[str, Any]]:
    """Return the contexts, clusters or users by name; like kubectl, the first of each name.

    Args:
        documents: the kubeconfigs.
        section: `context`, `cluster` or `user`.
    """
    entries: dict[str, Mapping[str, Any]] = {}
    for document in documents:
        for entry in _list_entries(document, section):
            if isinstance(entry.get(section), dict):
                entries.setdefault(str(entry.get("name")), entry[section])
    return entries


def _list_entries(document: Mapping[str, Any], section: str) -> list[Mapping[str, Any]]:
    """Return the entries of `contexts`, `clusters` or `users` that are dictionaries.

    Args:
        document: the kubeconfig.
        section: the singular of the list's name: `context`, `cluster` or `user`.
    """
    entries = document.get(f"{section}s")
    if not isinstance(entries, list):
        return []
    return [entry for entry in entries if isinstance(entry, dict)]


def _read_kubeconfigs(paths: Sequence[Path]) -> list[Mapping[str, Any]]:
    """Return the contents of kubeconfig files; empty without paths, for the service account.

    Raises:
        ConfigurationError: a file cannot be used, or no file has contexts.
    """
    documents = [_read_kubeconfig(path) for path in paths]
    if paths and not any(document.get("contexts") for document in documents):
        raise _create_no_contexts_error(os.pathsep.join(map(str, paths)))
    return documents


def _create_no_contexts_error(where: str) -> ConfigurationError:
    """Return the error for kubeconfig files without any context."""
    return ConfigurationError(f"kubeconfig {where} has no contexts: is it a kubeconfig?")


def _read_kubeconfig(path: Path) -> Mapping[str, Any]:
    """Return the contents of a kubeconfig file; raise ConfigurationError if it cannot be used."""
    try:
        document = yaml.safe_load(path.read_bytes())
    except YAML_ERRORS as error:
        detail = " ".join(str(error).split())
        raise ConfigurationError(f"kubeconfig {path} is not YAML: {detail}") from error
    except OSError as error:
        raise ConfigurationError(f"kubeconfig {path} cannot be read: {error.strerror}") from error
    if document is None:
        return {}  # an empty file, which kubectl passes over if another file has contexts
    if not isinstance(document, dict):
        raise _create_no_contexts_error(str(path))
    return document


def _check_user(
    user: Mapping[str, Any], configuration: Configuration, where: str, name: object
) -> None:
    """Raise ConfigurationError if the loader would silently use other rights than the user's.

    Raises:
        ConfigurationError: the user has `as`, or its exec plugin gave no credentials.
    """
    if "as" in user:
        raise ConfigurationError(
            f"kubeconfig {where}: user {name} impersonates another (`as`), which is not"
            " supported; use credentials of the account itself"
        )
    token = configuration.api_key.get("BearerToken", "").removeprefix("Bearer").strip()
    if "exec" in user and not token and not configuration.cert_file:
        raise ConfigurationError(
            f"kubeconfig {where}: the exec plugin of user {name} gave neither a token nor a client"
            " certificate with its key"
        )


@lru_cache(maxsize=1)
def _create_private_directory() -> str:
    """Return a directory for the loader's key files: readable by us alone, removed at exit.

    Each call returns the same directory.
    """
    directory = tempfile.mkdtemp(prefix="kubeconfig-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory
