"""Finding the cluster to control, as every Kubernetes tool does.

In this order: the kubeconfig and context that were given; $KUBECONFIG; the service account
of the pod we run in; ~/.kube/config.

kubernetes_asyncio reads kubeconfigs, exec plugins included, and it is imported only here and only
when there is one to read: the import costs 40 MiB and most of a second, which a pod with a service
account is spared. What it leaves out is added: tokens are stripped, read again every minute in a
thread, and loaded anew after a 401; impersonation, which it would silently ignore, is refused.
"""

import atexit
import os
import shutil
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import structlog
import yaml
from anyio.to_thread import run_sync
from typing_extensions import override

from controller.endpoint import Credentials, Endpoint, tls_context
from controller.errors import ConfigurationError
from controller.incluster import pod_configuration
from controller.proxies import checked_proxy, proxy_from_environment
from controller.rotation import state
from controller.transport import HttpTransport, Transport

log = structlog.get_logger(__name__)

# kubernetes_asyncio's own; its annotations are partial and would have to be contradicted.
Configuration = Any
Load = Callable[[], Awaitable[Configuration]]

TOKEN_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
TOKEN_SECONDS = 60.0
"""How long a token is used before it is read again; as client-go."""
_NAMED_FILES = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
RENEWAL_SECONDS = 5.0
"""A refused token is not looked for more often than this."""


async def connect(
    kubeconfig: Path | None = None, context: str | None = None, *, user_agent: str = "controller"
) -> Transport:
    """Return a transport to the cluster that the arguments or the environment name.

    Nothing is sent yet.

    Args:
        kubeconfig: a file; None looks where everybody looks.
        context: a context in the kubeconfig; None takes its current one.
        user_agent: how we introduce ourselves.

    Raises:
        ConfigurationError: there is none, or what there is cannot be used.
    """
    paths = _kubeconfigs(kubeconfig, context)
    load: Load = _load_in_cluster
    if paths:

        async def load() -> Configuration:
            return await _load_files(paths, context)

    configuration = await load()
    credentials = LoadedCredentials(configuration, load, await run_sync(_files, paths))
    endpoint = Endpoint(
        server=configuration.host,
        credentials=credentials,
        tls=credentials.tls(),
        current_tls=credentials.tls,
        server_name=configuration.tls_server_name or "",
        proxy=_proxy(configuration),
        user_agent=user_agent,
    )
    return HttpTransport(endpoint)


class LoadedCredentials(Credentials):
    """The token and the certificates of a loaded configuration, kept fresh.

    Args:
        configuration: as loaded.
        load: loads it again; runs the exec plugin again, if there is one.
        files: what it was made of; when one of them is replaced, it is loaded again.
    """

    def __init__(
        self, configuration: Configuration, load: Load, files: Sequence[Path] = ()
    ) -> None:
        self._configuration = configuration
        self._load = load
        self._files = files
        self._seen = state(files)
        self._tls = _tls(configuration)
        self._read = anyio.current_time()
        self._renewed = -RENEWAL_SECONDS
        self._changed = False
        self._lock = anyio.Lock()

    @override
    async def authorization(self) -> str:
        if anyio.current_time() - self._read >= TOKEN_SECONDS:
            self._read = anyio.current_time()
            await self._look_at_files()
            if (hook := self._configuration.refresh_api_key_hook) is not None:
                # A file that somebody just replaces is no reason to fail: a 401 would follow.
                await run_sync(_quietly, hook, self._configuration)
        return self._token()

    def tls(self) -> ssl.SSLContext | None:
        """Return what new connections use: authority and certificate as last read."""
        return self._tls

    async def _look_at_files(self) -> None:
        seen = await run_sync(state, self._files)
        if seen == self._seen:
            return
        try:
            configuration = await self._load()
            tls = await run_sync(_tls, configuration)
        except ConfigurationError as error:
            # Half of a pair is there, perhaps: what we have still works, and we look again.
            log.warning("Cannot use the replaced credentials yet", error=str(error))
            return
        self._configuration, self._tls, self._seen = configuration, tls, seen
        log.info("Took the replaced credentials")

    @override
    async def renew(self) -> bool:
        async with self._lock:
            if anyio.current_time() - self._renewed >= RENEWAL_SECONDS:
                before = self._token()
                self._configuration = await self._load()
                self._tls = await run_sync(_tls, self._configuration)
                self._renewed = self._read = anyio.current_time()
                self._changed = before != self._token()
            return self._changed

    def _token(self) -> str:
        token: str = self._configuration.api_key.get("BearerToken") or ""
        return token.strip()


def _files(kubeconfigs: Sequence[Path]) -> list[Path]:
    """Return the files that a configuration is made of: kubeconfigs, and what they name.

    Files with `-data` in their place are the loader's own copies and never change.
    """
    if not kubeconfigs:
        return [TOKEN_FILE, TOKEN_FILE.with_name("ca.crt")]
    found = list(kubeconfigs)
    for path in kubeconfigs:
        document = _document(path)
        for plural, single in (("clusters", "cluster"), ("users", "user")):
            for entry in document.get(plural) or ():
                inner = entry.get(single) or {}
                found += [path.parent / inner[name] for name in _NAMED_FILES if inner.get(name)]
    return found


def _loaders() -> Any:
    return import_module("kubernetes_asyncio.config")


def _blank() -> Configuration:
    return import_module("kubernetes_asyncio.client.configuration").Configuration()


def _quietly(hook: Callable[[Configuration], object], configuration: Configuration) -> None:
    try:
        hook(configuration)
    except (OSError, _loaders().ConfigException):
        return


def _kubeconfigs(kubeconfig: Path | None, context: str | None) -> list[Path]:
    """Return the kubeconfig files to read; none means the pod's service account.

    Raises:
        ConfigurationError: there is neither.
    """
    if kubeconfig is not None:
        return [_existing(kubeconfig, "--kubeconfig")]
    if listed := os.environ.get("KUBECONFIG"):
        paths = [Path(path).expanduser() for path in listed.split(os.pathsep) if path]
        if found := [path for path in paths if path.exists()]:
            return found
        raise ConfigurationError(f"KUBECONFIG names {listed}, and there is no such file")
    if not context and os.environ.get("KUBERNETES_SERVICE_HOST") and TOKEN_FILE.exists():
        return []
    default = Path.home() / ".kube" / "config"
    if default.exists():
        return [default]
    raise ConfigurationError(
        f"there is no cluster to talk to: no --kubeconfig, no KUBECONFIG, no {default}, and this"
        " is not a pod with a service account"
    )


def _existing(path: Path, where: str) -> Path:
    path = path.expanduser()
    if not path.is_file():
        raise ConfigurationError(f"{where} names {path}, and there is no such file")
    return path


async def _load_in_cluster() -> Configuration:
    return await run_sync(pod_configuration, TOKEN_FILE)


async def _load_files(paths: list[Path], context: str | None) -> Configuration:
    documents = [_document(path) for path in paths]
    where = os.pathsep.join(map(str, paths))
    configuration = _blank()
    try:
        loader = await _loaders().load_kube_config(
            config_file=where,
            context=context,
            client_configuration=configuration,
            persist_config=False,
            temp_file_path=_private_directory(),
        )
    except _loaders().ConfigException as error:
        raise ConfigurationError(f"kubeconfig {where}: {error}") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError, AssertionError) as error:
        # The loader checks little of what it reads.
        raise ConfigurationError(
            f"kubeconfig {where} cannot be used: {type(error).__name__}: {error}"
        ) from error
    _refuse_impersonation(documents, loader.current_context or {}, where)
    return configuration


def _document(path: Path) -> Mapping[str, Any]:
    try:
        document = yaml.safe_load(path.read_bytes())
    except yaml.YAMLError as error:
        detail = " ".join(str(error).split())
        raise ConfigurationError(f"kubeconfig {path} is no YAML: {detail}") from error
    except OSError as error:
        raise ConfigurationError(f"kubeconfig {path} cannot be read: {error.strerror}") from error
    if not isinstance(document, dict) or not document.get("contexts"):
        raise ConfigurationError(f"kubeconfig {path} has no contexts: is it a kubeconfig?")
    return document


def _refuse_impersonation(
    documents: list[Mapping[str, Any]], context: Mapping[str, Any], where: str
) -> None:
    """Refuse a user with `as`: to act as oneself instead is to act with other rights."""
    user = (context.get("context") or {}).get("user")
    for document in documents:
        for entry in document.get("users") or ():
            if entry.get("name") == user and "as" in (entry.get("user") or {}):
                raise ConfigurationError(
                    f"kubeconfig {where}: user {user} impersonates another (`as`), which is not"
                    " supported; use credentials of the account itself"
                )


@lru_cache(maxsize=1)
def _private_directory() -> str:
    """Return the directory, ours alone and removed at exit, for the loader's files with keys."""
    directory = tempfile.mkdtemp(prefix="kubeconfig-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def _tls(configuration: Configuration) -> ssl.SSLContext | None:
    if not configuration.host.startswith("https://"):
        return None
    try:
        context = tls_context(cafile=configuration.ssl_ca_cert, verify=configuration.verify_ssl)
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, configuration.key_file)
    except (ssl.SSLError, OSError) as error:
        raise ConfigurationError(
            f"the certificates for {configuration.host} cannot be used: {error}"
        ) from error
    return context


def _proxy(configuration: Configuration) -> str:
    if configuration.proxy:
        return checked_proxy(configuration.proxy, "the kubeconfig's proxy-url")
    return proxy_from_environment(configuration.host, os.environ)
