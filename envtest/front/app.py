"""The HTTP handler, which authenticates, authorizes, routes and answers each request."""

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
from envtest.access.rbac import (
    AccessAttributes,
    Authorizer,
    build_attributes,
    build_forbidden_error,
)
from envtest.access.reviews import Reviews
from envtest.access.tokens import Authenticator, Certificate
from envtest.front.connections import (
    ClientGoneError,
    Connections,
    Deadlines,
    Watchers,
    read_body,
)
from envtest.front.dispatch import (
    answer_call,
    build_missing_path_error,
    has_wrong_scope,
    refuse_missing_verb,
)
from envtest.kinds.catalogue import list_resources
from envtest.server.api import Api
from envtest.server.bodies import parse_media_type
from envtest.server.call import AuthorizedCall, User
from envtest.server.failures import StatusError, build_unclassified_error
from envtest.server.forms import JSON, Form, negotiate_form
from envtest.server.openapi import OpenApi
from envtest.server.paths import Document, Documents
from envtest.server.rendering import render_answer
from envtest.server.request import RequestInfo, read_request
from envtest.server.watches import open_watch
from envtest.storage import DiskError
from envtest.wire.query import Query, has_broken_escape

_log = logging.getLogger(__name__)

# The message of a full etcd, as kube-apiserver passes it on.
_NO_SPACE = "etcdserver: mvcc: database space exceeded"
NOT_FOUND = b"404 page not found\n"
# The number of parsed URLs in the cache, and the longest URL in it, so that clients cannot fill
# the memory.
_MOST_TARGETS = 2048
_LONGEST_TARGET = 512
# The largest chunk of a watch, in bytes, for which an empty buffer certainly has room.
_PROMPT_BYTES = 32 * 1024
# The built-in groups under /apis; the core group has no name, and its own root.
_BUILTIN_GROUPS = frozenset(name.rpartition("/")[0] for name in list_resources()) - {""}


class _Target(msgspec.Struct, frozen=True):
    """A parsed method and URL; it is the same for all users."""

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
    # Method and URL -> target: a cache, because controllers request the same objects repeatedly.
    targets: dict[tuple[str, str], _Target] = field(default_factory=dict)
    documents: Documents = field(init=False)

    def __post_init__(self) -> None:
        """Create the documents, which need the other fields."""
        self.documents = Documents(self.api, OpenApi(self.api.registry))

    def create_connections(self) -> Connections:
        """Return the server that accepts connections; it needs a running event loop."""
        return Connections(self.handle, self.watchers, self.deadlines)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request; every refusal is a Status."""
        warnings: list[str] = []
        try:
            return await self._answer(request, warnings)
        except StatusError as error:
            return _build_refusal_response(request, error, warnings)
        except ClientGoneError:
            # aiohttp demands a response, though nobody receives it.
            return web.Response()
        except DiskError as error:
            _log.error("%s %s was not stored: %s", request.method, request.path, error)
            return _build_refusal_response(request, StatusError(500, _NO_SPACE), warnings)
        except Exception:  # noqa: BLE001  # any defect: the client gets a short answer, the log the trace
            _log.exception("%s %s failed", request.method, request.path)
            return _build_refusal_response(
                request, build_unclassified_error("Internal error occurred"), warnings
            )

    async def _answer(self, request: web.BaseRequest, warnings: list[str]) -> web.StreamResponse:
        """Authenticate, authorize and run a request; return the response.

        Raises:
            StatusError: the request is refused.
        """
        target = self._find_target(request)
        if isinstance(target, web.Response):
            return target
        query, info = target.query, target.info
        caller = self._authenticate(request)
        user = choose_user(self.authorizer, caller, request.headers)
        decision = self.authorizer.decide(user, target.access)
        if not decision.allowed:
            error = build_forbidden_error(user, info, decision.reason)
            # The real server sets this header in a refusal by authorization.
            error.headers["X-Content-Type-Options"] = "nosniff"
            raise error
        if not info.is_resource:
            document = self.documents.find(
                info.path, query, headers=request.headers, address=request.host
            )
            return (
                _refuse_missing_path(info.path)
                if document is None
                else _build_document_response(request, query, document)
            )
        resource = self.api.registry.find(info.group, info.version, info.resource)
        # `read_request` ignores repeated slashes at the beginning, but such a path does not exist.
        if resource is None or info.path.startswith("//") or has_wrong_scope(resource, info):
            return _refuse_missing_path(info.path)
        refuse_missing_verb(resource, info, request.method)
        accept = request.headers.get("Accept", "")
        form = negotiate_form(accept, "object", "table")
        if resource.deprecation:
            warnings.append(resource.deprecation)
        call = AuthorizedCall(
            info=info,
            resource=resource,
            user=user,
            query=query,
            dry_runs=query.get_all("dryRun"),
            agent=request.headers.get("User-Agent", ""),
            content_type=parse_media_type(request.headers.get("Content-Type", "")),
            data=await read_body(request, self.deadlines.body),
            warnings=warnings,
        )
        if info.verb == "watch":
            return await self._stream_watch(request, call, form)
        result = await answer_call(self.api, self.reviews, accounts=self.accounts, call=call)
        code, data = render_answer(result, form, query.get("includeObject", "Metadata"))
        if _wants_pretty(request, query):
            data = msgspec.json.format(data, indent=2)
        return _build_response(code, data, content_type=JSON, warnings=warnings)

    def _find_target(self, request: web.BaseRequest) -> "_Target | web.Response":
        """Return the target of a request, or the answer to a path that cannot be decoded."""
        key = (request.method, request.raw_path)
        cached_target = self.targets.get(key)
        if cached_target is not None:
            return cached_target
        path, _, parameters = request.raw_path.partition("?")
        if has_broken_escape(path):
            return _make_text_response(400, b"400 Bad Request")
        query = Query(parameters)
        info = read_request(request.method, unquote(path), query)
        target = _Target(query, info, build_attributes(info))
        if len(request.raw_path) <= _LONGEST_TARGET:
            if len(self.targets) >= _MOST_TARGETS:
                self.targets.clear()
            self.targets[key] = target
        return target

    def _authenticate(self, request: web.BaseRequest) -> User:
        """Return the user of a request, by its client certificate or its Authorization header."""
        transport = request.transport
        fields = transport.get_extra_info("peercert") if transport else None
        certificate = None
        if transport and fields:
            encoded = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
            certificate = Certificate(fields, encoded)
        authorization = request.headers.get("Authorization", "")
        return self.authenticator.find_request_user(authorization, certificate)

    async def _stream_watch(
        self, request: web.BaseRequest, call: AuthorizedCall, form: Form
    ) -> web.StreamResponse:
        """Stream the events of a watch until it ends or the client goes away."""
        watch = open_watch(self.api, call, form)
        response = web.StreamResponse(headers=_build_headers(JSON, call.warnings))
        response.enable_chunked_encoding()
        await response.prepare(request)
        with self.watchers.count_watch(request.protocol):
            try:
                async with aclosing(watch.stream()) as chunks:
                    async for chunk in chunks:
                        await self._send_chunk(request, response, chunk)
                await response.write_eof()
            except ConnectionError:
                # The client went away, which is how most watches end.
                pass
        return response

    async def _send_chunk(
        self, request: web.BaseRequest, response: web.StreamResponse, chunk: bytes
    ) -> None:
        """Send a chunk of a watch; disconnect a client that does not read it in time."""
        transport = request.transport
        if transport is None:
            # The connection is closed already.
            raise ConnectionResetError
        if len(chunk) <= _PROMPT_BYTES and not transport.get_write_buffer_size():
            # The buffer has room, so this does not wait and needs no timer.
            await response.write(chunk)
            return
        # A timer costs less than a cancel scope, and chunks are sent often.
        timer = get_running_loop().call_later(self.deadlines.write, transport.abort)
        try:
            await response.write(chunk)
        finally:
            timer.cancel()


def _wants_pretty(request: web.BaseRequest, query: Query) -> bool:
    """Return whether to indent JSON: the client asks for it, or is curl, Wget or a browser."""
    parameter = query.get("pretty")
    if parameter is not None:
        return parameter.lower() not in {"0", "false"}
    return request.headers.get("User-Agent", "").startswith(("curl", "Wget", "Mozilla/5.0"))


def _build_headers(content_type: str, warnings: list[str]) -> list[tuple[str, str]]:
    """Return the headers of every answer, with a Warning header for each warning."""
    warning_headers = [
        ("Warning", '299 - "{}"'.format(warning.replace("\\", "\\\\").replace('"', '\\"')))
        for warning in dict.fromkeys(warnings)
    ]
    return [
        ("Audit-Id", _create_audit_id()),
        ("Cache-Control", "no-cache, private"),
        ("Content-Type", content_type),
        *warning_headers,
    ]


def _create_audit_id() -> str:
    """Return a random UUID, without the system call of `uuid4`, as it need not be secret."""
    digits = f"{getrandbits(128):032x}"
    # The 4 is the version (random), and the a the variant of RFC 9562.
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def _build_response(
    code: int, data: bytes, content_type: str, warnings: list[str]
) -> web.Response:
    """Return a response with the headers of every answer."""
    return web.Response(status=code, body=data, headers=_build_headers(content_type, warnings))


def _build_document_response(
    request: web.BaseRequest, query: Query, document: Document
) -> web.Response:
    """Return a document as a response."""
    data = document.data
    if document.media == JSON and _wants_pretty(request, query):
        data = msgspec.json.format(data, indent=2)
    response = _build_response(document.code, data, content_type=document.media, warnings=[])
    # A 304 has no body.
    if not document.media:
        del response.headers["Content-Type"]
    response.headers.update(document.headers)
    return response


def _make_text_response(code: int, data: bytes) -> web.Response:
    """Return a plain text response, as Go's http.Error writes it."""
    response = _build_response(code, data, content_type="text/plain; charset=utf-8", warnings=[])
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


def _refuse_missing_path(path: str) -> web.Response:
    """Answer a path that does not exist, in one of kube-apiserver's two ways.

    Return a plain text 404 for a path outside of the built-in groups.

    Raises:
        StatusError: 404 for a path within a built-in group.
    """
    root, _, rest = path.removeprefix("/").rstrip("/").partition("/")
    is_in_core_group = root == "api" and rest
    if is_in_core_group or (root == "apis" and rest.partition("/")[0] in _BUILTIN_GROUPS):
        raise build_missing_path_error()
    return _make_text_response(404, NOT_FOUND)


def _build_refusal_response(
    request: web.BaseRequest, error: StatusError, warnings: list[str]
) -> web.Response:
    """Return a refusal as a response with its Status."""
    data = msgspec.json.encode(error.build_status())
    if _wants_pretty(request, Query(request.raw_path.partition("?")[2])):
        data = msgspec.json.format(data, indent=2)
    response = _build_response(error.code, data, content_type=JSON, warnings=warnings)
    response.headers.update(error.headers)
    return response
