"""Large answers, made small for who can take them so.

As kube-apiserver's response writers do it: gzip at its fastest, for what is worth it.
"""

import zlib

from aiohttp import web

# Answers to reads are compressed above this size; OpenAPI documents, which another library serves,
# already above that of a packet.
OBJECTS = 128 * 1024
DOCUMENTS = 1400
_GZIP_WINDOW = 31


def compress(request: web.BaseRequest, response: web.Response, data: bytes) -> None:
    """Compress an answer if its client asks for gzip.

    Args:
        request: of the client.
        response: the answer; its body and headers are changed.
        data: its body.
    """
    asked = request.headers.get("Accept-Encoding", "")
    if not any(one.strip() == "gzip" for one in asked.split(",")):
        return
    squeeze = zlib.compressobj(1, zlib.DEFLATED, _GZIP_WINDOW)
    response.body = squeeze.compress(data) + squeeze.flush()
    response.headers["Content-Encoding"] = "gzip"
    response.headers.add("Vary", "Accept-Encoding")
