"""The token and certificates of a loaded configuration, kept up to date while the process runs.

At most once a minute, a request checks whether the files of the configuration have changed. If one
has, the configuration is loaded again. A 401 loads it again at once, at most every five seconds.
kubernetes_asyncio does less: it never reads certificates again, does not strip tokens, and runs an
exec plugin once.

All requests share one load, as client-go's do: an exec plugin runs once, however many requests
were refused. The load is a task of its own, because no request may end it by its timeout. If it
fails, requests get that error for a while, and the next load comes after a pause that doubles.
"""

import asyncio
import logging
import ssl
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
from anyio.to_thread import run_sync
from typing_extensions import override

from controller.endpoint import Credentials, create_tls_context
from controller.errors import ConfigurationError
from controller.loggers import get_logger

log = get_logger(__name__)

# kubernetes_asyncio's Configuration or PodConfiguration; the former's annotations are wrong.
Configuration = Any
Load = Callable[[], Awaitable[Configuration]]
FileState = tuple[tuple[str, int, int, int] | None, ...]

_PACKAGE = "kubernetes_asyncio"

TOKEN_SECONDS = 60.0
"""How long a token is used before it is read again, as in client-go."""
RENEWAL_SECONDS = 5.0
"""After a 401 the configuration is loaded again at most this often."""
LONGEST_PAUSE = 60.0
"""Seconds between two loads, at most, however many have failed."""


@lru_cache(maxsize=1)
def import_kubeconfig_reader() -> ModuleType:
    """Return kubernetes_asyncio.config, without the models and APIs of kubernetes_asyncio.client.

    The models and APIs cost 36 MiB and half a second, and the package's own `__init__` loads them
    all. Here the parent packages are made from their specs and not executed, so only `config` and
    the module of Configuration are loaded. All are removed from `sys.modules` again, so other code
    that imports kubernetes_asyncio gets the whole package.
    """
    # The package logs errors that it raises, too. Without a handler Python would print them.
    logging.getLogger(_PACKAGE).addHandler(logging.NullHandler())
    if _PACKAGE in sys.modules:
        return import_module(f"{_PACKAGE}.config")  # other code has loaded all of it
    try:
        _add_unexecuted(_PACKAGE)
        client: Any = _add_unexecuted(f"{_PACKAGE}.client")
        client.Configuration = import_module(f"{_PACKAGE}.client.configuration").Configuration
        client.ApiClient = None  # `config` imports the name, and uses it only to make clients
        return import_module(f"{_PACKAGE}.config")
    finally:
        for name in [module for module in sys.modules if module.partition(".")[0] == _PACKAGE]:
            del sys.modules[name]


def _add_unexecuted(name: str) -> ModuleType:
    """Add a package to `sys.modules` and return it, without executing its `__init__`."""
    spec = find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    module = sys.modules[name] = module_from_spec(spec)
    return module


class LoadedCredentials(Credentials):
    """Credentials of a configuration; reads in threads, so the event loop is not blocked.

    Args:
        configuration: the first configuration.
        load: loads the configuration again, which runs an exec plugin again.
        files: the files that the configuration was read from.
    """

    def __init__(
        self, configuration: Configuration, load: Load, files: Sequence[Path] = ()
    ) -> None:
        self._configuration = configuration
        self._load = load
        self._files = files
        self._state = read_file_state(files)
        self._tls = _create_tls_context_for(configuration)
        self._read_at = anyio.current_time()  # when the files were compared last
        self._loaded_at = -RENEWAL_SECONDS  # long ago, so that the first 401 loads at once
        self._changed = False  # whether the last load brought other credentials
        self._loading: asyncio.Task[None] | None = None
        self._load_scope = anyio.CancelScope()
        # Why the last load failed, empty if it did not; the seconds to wait after it; their end.
        self._failure = ""
        self._pause = 0.0
        self._retry_at = 0.0

    @override
    def get_cached_authorization(self) -> str | None:
        """Return the Authorization header; None once a minute, to compare the files first.

        Raises:
            ConfigurationError: the token cannot be sent in a header.
        """
        if anyio.current_time() - self._read_at >= TOKEN_SECONDS:
            return None
        return require_sendable_token(self._configuration)

    @override
    async def get_authorization(self) -> str:
        """Return the Authorization header; compare the files first, at most once a minute.

        Raises:
            ConfigurationError: the token cannot be sent in a header.
        """
        cached_authorization = self.get_cached_authorization()
        if cached_authorization is not None:
            return cached_authorization
        self._read_at = anyio.current_time()
        if await run_sync(read_file_state, self._files) != self._state:
            await self._join_load()
        if (hook := self._configuration.refresh_api_key_hook) is not None:
            await run_sync(_refresh_token, hook, self._configuration)
        return require_sendable_token(self._configuration)

    def get_tls_context(self) -> ssl.SSLContext | None:
        """Return the TLS settings for new connections, as last read; None for plain HTTP."""
        return self._tls

    @override
    async def renew(self) -> bool:
        """Load the configuration again after a 401; return whether the credentials changed.

        The result of a load in the last five seconds is used again: many requests may get a 401 at
        the same time.

        Raises:
            ConfigurationError: the configuration cannot be loaded.
        """
        if anyio.current_time() - self._loaded_at >= RENEWAL_SECONDS:
            await self._join_load()
            if self._failure:
                raise ConfigurationError(self._failure)
        return self._changed

    @override
    async def aclose(self) -> None:
        """End a load that still runs, and wait for its end."""
        if self._loading is not None:
            # A cancellation by asyncio would interrupt the shielded end of an exec plugin.
            self._load_scope.cancel()
            await asyncio.wait([self._loading])

    async def _join_load(self) -> None:
        """Wait until the configuration was loaded again, or until the load has failed.

        Start a load unless one runs or the pause after a failed one lasts. The load goes on if the
        caller is cancelled, because other callers wait for it.
        """
        if self._loading is None:
            if anyio.current_time() < self._retry_at:
                return  # the last load failed and its pause is not over; `_failure` has the error
            self._load_scope = anyio.CancelScope()
            load = self._load_again(self._load_scope)
            self._loading = asyncio.create_task(load)  # noqa: TID251 - ended by aclose
        await asyncio.wait([self._loading])

    async def _load_again(self, scope: anyio.CancelScope) -> None:
        """Load the configuration again inside `scope`, so that `aclose` can cancel the load."""
        try:
            with scope:
                await self._replace_configuration()
        finally:
            self._loading = None

    async def _replace_configuration(self) -> None:
        """Load the configuration; on failure keep the present one and note the error."""
        try:
            old_identity = self._build_identity()
            state = await run_sync(read_file_state, self._files)
            configuration = await self._load()
            require_sendable_token(configuration)  # raises before the present token is replaced
            tls = await run_sync(_create_tls_context_for, configuration)
        except ConfigurationError as error:
            # Perhaps only one file of a pair was replaced so far, or a plugin's server is away.
            self._failure = str(error)
            self._pause = min(max(2 * self._pause, RENEWAL_SECONDS), LONGEST_PAUSE)
            self._retry_at = anyio.current_time() + self._pause
            log.warning(
                "Cannot load the credentials again", error=self._failure, pause=self._pause
            )
        else:
            self._configuration, self._tls = configuration, tls
            # This is the state before the load, so a file replaced during the load is read again.
            self._state = state
            self._loaded_at = self._read_at = anyio.current_time()
            self._changed = old_identity != self._build_identity()
            self._failure, self._pause = "", 0.0
            if self._changed:
                log.info("Loaded new credentials")

    def _build_identity(self) -> tuple[str, str, FileState]:
        """Return a value that differs when the token or the client certificate does.

        The loader writes a certificate from inside the kubeconfig to a file of its own, so the
        path differs. The token is not checked: one that cannot be sent is replaced like any other.
        """
        configuration = self._configuration
        return _read_token(configuration), configuration.cert_file or "", self._state


def _read_token(configuration: Configuration) -> str:
    """Return the Authorization header of a configuration, unchecked; empty if it has no token."""
    token: str = (configuration.api_key.get("BearerToken") or "").strip()
    return token


def require_sendable_token(configuration: Configuration) -> str:
    """Return the Authorization header of a configuration; empty if it has no token.

    Raises:
        ConfigurationError: the token cannot be sent in a header.
    """
    token = _read_token(configuration)
    if not token.isprintable():
        raise ConfigurationError(
            f"the token for {configuration.host} has a line break or another control"
            " character in it: write it in one line"
        )
    return token


def read_file_state(files: Iterable[Path]) -> FileState:
    """Return a value that differs when one of the files was replaced, changed or removed.

    The resolved path is part of the value. kubelet replaces the files of a Secret volume by a new
    target of one symlink, and a new file may have the age and the size of the old one.
    """
    return tuple(_read_file_version(file) for file in files)


def _read_file_version(file: Path) -> tuple[str, int, int, int] | None:
    """Return path, inode, mtime (ns) and size (bytes) of a file; None if it cannot be read."""
    try:
        real = file.resolve()
        status = real.stat()
    except OSError:
        return None
    return str(real), status.st_ino, status.st_mtime_ns, status.st_size


def _refresh_token(hook: Callable[[Configuration], object], configuration: Configuration) -> None:
    """Call the loader's hook, which reads the token file again; on failure keep the old token.

    If the old token has expired, the API server answers 401 and the transport calls `renew`.
    """
    loader_error = import_kubeconfig_reader().ConfigException
    try:
        hook(configuration)
    except (OSError, loader_error) as error:
        log.debug("Cannot reload the token, keeping the present one", error=str(error))


def _create_tls_context_for(configuration: Configuration) -> ssl.SSLContext | None:
    """Return the TLS context for a configuration; None for plain HTTP.

    Raises:
        ConfigurationError: the authorities, or the client certificate and its key, are unusable.
    """
    if not configuration.host.startswith("https://"):
        return None
    try:
        context = create_tls_context(
            cafile=configuration.ssl_ca_cert, verify=configuration.verify_ssl
        )
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, configuration.key_file)
    except (ssl.SSLError, OSError) as error:
        raise ConfigurationError(
            f"the certificates for {configuration.host} cannot be used: {error}"
        ) from error
    return context
