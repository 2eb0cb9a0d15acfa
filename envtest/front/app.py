"""The HTTP front: one handler that authenticates, authorizes, routes, answers."""

import logging
from asyncio import get_running_loop
from contextlib import aclosing
from dataclasses import dataclass, field
from random import getrandbits
from urllib.parse import unquote

import msgspec
from aiohttp import web

from envtest.access.accounts import AccountTokens
from envtest.access.impersonation import choose_user
from envtest.access.rbac import AccessAttributes, Authorizer, attributes, refusal
from envtest.access.reviews import Reviews
from envtest.access.tokens import Authenticator, Certificate
from envtest.front.connections import (
    ClientGoneError,
    Connections,
    Deadlines,
    Watchers,
    read_body,
)
from envtest.front.dispatch import answer, check_served, has_wrong_scope, no_such_path
from envtest.kinds.catalogue import resources
from envtest.server.api import Api
from envtest.server.bodies import parse_media_type
from envtest.server.call import AuthorizedCall, User
from envtest.server.failures import StatusError, internal
from envtest.server.forms import JSON, Form, negotiate
from envtest.server.openapi import OpenApi
from envtest.server.paths import Document, Documents
from envtest.server.rendering import render
from envtest.server.request import RequestInfo, read_request
from envtest.server.watches import open_watch
from envtest.storage import DiskError
from envtest.wire.query import Query, is_broken

_log = logging.getLogger(__name__)

# What etcd says when it takes no more, and kube-apiserver passes on.
_NO_SPACE = "etcdserver: mvcc: database space exceeded"
NOT_FOUND = b"404 page not found\n"
# How many meanings of methods and URLs are remembered.
_TARGETS = 2048
# Longer URLs are not: made-up ones must not fill the memory.
_TARGET_LENGTH = 512
# A piece of a watch, in bytes, that an empty buffer takes without a wait.
_PROMPT = 32 * 1024
_BUILTIN = frozenset(name.rpartition("/")[0] for name in resources())


class _Target(msgspec.Struct, frozen=True):
    """What a method and a URL mean, for any user."""

    query: Query
    info: RequestInfo
    access: AccessAttributes


@dataclass(slots=True)
class Front:
    """Authentication, authorization and routing of each request."""

    api: Api
    authenticator: Authenticator
    authorizer: Authorizer
    reviews: Reviews
    accounts: AccountTokens
    deadlines: Deadlines
    watchers: Watchers = field(default_factory=Watchers)
    # What was asked for lately: controllers ask for the same objects again and again.
    targets: dict[tuple[str, str], _Target] = field(default_factory=dict)
    documents: Documents = field(init=False)

    def __post_init__(self) -> None:
        """Put together what follows from the rest."""
        self.documents = Documents(self.api, OpenApi(self.api.registry))

    def server(self) -> Connections:
        """Return the acceptor of connections; it needs a running event loop."""
        return Connections(self.handle, self.watchers, self.deadlines)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request; every refusal is a Status."""
        warnings: list[str] = []
        try:
            return await self._answer(request, warnings)
        except StatusError as error:
            return _render_refusal(request, error, warnings)
        except ClientGoneError:
            return web.Response()
        except DiskError as error:
            _log.error("%s %s was not kept: %s", request.method, request.path, error)
            return _render_refusal(request, StatusError(500, _NO_SPACE), warnings)
        except Exception:  # noqa: BLE001  # the last resort: a short answer to the client, the trace in the log
            _log.exception("%s %s failed", request.method, request.path)
            return _render_refusal(request, internal("Internal error occurred"), warnings)

    async def _answer(self, request: web.BaseRequest, warnings: list[str]) -> web.StreamResponse:
        """Authenticate, authorize and run a request; return the response.

        Raises:
            StatusError: the request is refused.
        """
        target = self._target(request)
        if isinstance(target, web.Response):
            return target
        query, info = target.query, target.info
        caller = self._authenticate(request)
        user = choose_user(self.authorizer, caller, request.headers)
        decision = self.authorizer.decide(user, target.access)
        if not decision.allowed:
            error = refusal(user, info, decision.reason)
            error.headers["X-Content-Type-Options"] = "nosniff"
            raise error
        if not info.is_resource:
            document = self.documents.find(
                info.path, query, headers=request.headers, address=request.host
            )
            return _missing(info.path) if document is None else _document(request, query, document)
        resource = self.api.registry.find(info.group, info.version, info.resource)
        if resource is None or info.path.startswith("//") or has_wrong_scope(resource, info):
            return _missing(info.path)
        check_served(resource, info, request.method)
        accept = request.headers.get("Accept", "")
        form = negotiate(accept, "object", "table")
        if resource.deprecation:
            warnings.append(resource.deprecation)
        call = AuthorizedCall(
            info=info,
            resource=resource,
            user=user,
            query=query,
            dry_runs=query.all_of("dryRun"),
            agent=request.headers.get("User-Agent", ""),
            content_type=parse_media_type(request.headers.get("Content-Type", "")),
            data=await read_body(request, self.deadlines.body),
            warnings=warnings,
        )
        if info.verb == "watch":
            return await self._watch(request, call, form)
        result = await answer(self.api, self.reviews, accounts=self.accounts, call=call)
        code, data = render(result, form, query.get("includeObject", "Metadata"))
        if _wants_pretty(request, query):
            data = msgspec.json.format(data, indent=2)
        return _response(code, data, content_type=JSON, warnings=warnings)

    def _target(self, request: web.BaseRequest) -> "_Target | web.Response":
        """Return the target of a request, or the refusal of a path that cannot be read."""
        key = (request.method, request.raw_path)
        known = self.targets.get(key)
        if known is not None:
            return known
        path, _, parameters = request.raw_path.partition("?")
        if is_broken(path):
            return _make_text_response(400, b"400 Bad Request")
        query = Query(parameters)
        info = read_request(request.method, unquote(path), query)
        target = _Target(query, info, attributes(info))
        if len(request.raw_path) <= _TARGET_LENGTH:
            if len(self.targets) >= _TARGETS:
                self.targets.clear()
            self.targets[key] = target
        return target

    def _authenticate(self, request: web.BaseRequest) -> User:
        transport = request.transport
        described = transport.get_extra_info("peercert") if transport else None
        certificate = None
        if transport and described:
            encoded = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
            certificate = Certificate(described, encoded)
        authorization = request.headers.get("Authorization", "")
        return self.authenticator.of_request(authorization, certificate)

    async def _watch(
        self, request: web.BaseRequest, call: AuthorizedCall, form: Form
    ) -> web.StreamResponse:
        """Stream the events of a watch until it ends or the client goes away."""
        watch = open_watch(self.api, call, form)
        response = web.StreamResponse(headers=_headers(JSON, call.warnings))
        response.enable_chunked_encoding()
        await response.prepare(request)
        with self.watchers.count_watch(request.protocol):
            try:
                async with aclosing(watch.stream()) as chunks:
                    async for chunk in chunks:
                        await self._push(request, response, chunk)
                await response.write_eof()
            except ConnectionError:
                # The client went away, which is how most watches end.
                pass
        return response

    async def _push(
        self, request: web.BaseRequest, response: web.StreamResponse, chunk: bytes
    ) -> None:
        """Send a chunk of a watch; disconnect a client that does not read it in time."""
        transport = request.transport
        if transport is None:
            raise ConnectionResetError
        if len(chunk) <= _PROMPT and not transport.get_write_buffer_size():
            # Nothing to wait for: it is far less than what may lie in the buffer.
            await response.write(chunk)
            return
        # A timer and not a cancel scope: this is a busy line of a watched server.
        timer = get_running_loop().call_later(self.deadlines.write, transport.abort)
        try:
            await response.write(chunk)
        finally:
            timer.cancel()


def _wants_pretty(request: web.BaseRequest, query: Query) -> bool:
    """Return whether a person reads the answer, as the real server guesses it."""
    parameter = query.get("pretty")
    if parameter is not None:
        return parameter.lower() not in {"0", "false"}
    return request.headers.get("User-Agent", "").startswith(("curl", "Wget", "Mozilla/5.0"))


def _headers(content_type: str, warnings: list[str]) -> list[tuple[str, str]]:
    warning_headers = [
        ("Warning", '299 - "{}"'.format(warning.replace("\\", "\\\\").replace('"', '\\"')))
        for warning in dict.fromkeys(warnings)
    ]
    return [
        ("Audit-Id", _audit_id()),
        ("Cache-Control", "no-cache, private"),
        ("Content-Type", content_type),
        *warning_headers,
    ]


def _audit_id() -> str:
    """Return a random UUID; it is no secret, so it needs no system call."""
    digits = f"{getrandbits(128):032x}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def _response(code: int, data: bytes, content_type: str, warnings: list[str]) -> web.Response:
    return web.Response(status=code, body=data, headers=_headers(content_type, warnings))


def _document(request: web.BaseRequest, query: Query, document: Document) -> web.Response:
    """Return the answer that is a document."""
    data = document.data
    if document.media == JSON and _wants_pretty(request, query):
        data = msgspec.json.format(data, indent=2)
    response = _response(document.code, data, content_type=document.media, warnings=[])
    if not document.media:
        del response.headers["Content-Type"]
    response.headers.update(document.headers)
    return response


def _make_text_response(code: int, data: bytes) -> web.Response:
    response = _response(code, data, content_type="text/plain; charset=utf-8", warnings=[])
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


def _missing(path: str) -> web.Response:
    """Return the 404: a Status within the built-in groups, a plain text elsewhere.

    Raises:
        StatusError: 404.
    """
    root, _, rest = path.removeprefix("/").rstrip("/").partition("/")
    if (root == "api" and rest) or (root == "apis" and rest.partition("/")[0] in _BUILTIN - {""}):
        raise no_such_path()
    return _make_text_response(404, NOT_FOUND)


def _render_refusal(
    request: web.BaseRequest, error: StatusError, warnings: list[str]
) -> web.Response:
    data = msgspec.json.encode(error.body())
    if _wants_pretty(request, Query(request.raw_path.partition("?")[2])):
        data = msgspec.json.format(data, indent=2)
    response = _response(error.code, data, content_type=JSON, warnings=warnings)
    response.headers.update(error.headers)
    return response
