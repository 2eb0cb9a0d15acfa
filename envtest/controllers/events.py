"""Events that controllers tell of what they find."""

import secrets

import msgspec

from envtest.server import objectmeta
from envtest.server.api import Api
from envtest.server.objectmeta import Body
from envtest.server.resource import Resource
from envtest.storage import Stored

_REPORTER = "garbage-collector-controller"


def record(api: Api, resource: Resource, stored: Stored, *, reason: str, message: str) -> None:
    """Store a warning about an object; what is in no namespace has its events in `default`."""
    meta = msgspec.json.decode(stored.body)["metadata"]
    namespace = meta.get("namespace", "default")
    name = f"{meta['name']}.{secrets.token_hex(8)}"
    now = objectmeta.timestamp()
    own: Body = {"name": name, "namespace": namespace}
    objectmeta.fill_in(own)
    body: Body = {
        "metadata": own,
        "involvedObject": {
            "kind": resource.kind,
            "namespace": meta.get("namespace", ""),
            "name": meta["name"],
            "uid": meta["uid"],
            "apiVersion": resource.api_version,
            "resourceVersion": meta["resourceVersion"],
        },
        "reason": reason,
        "message": message,
        "source": {"component": _REPORTER},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "type": "Warning",
        "eventTime": None,
        "reportingComponent": _REPORTER,
        "reportingInstance": "",
    }
    api.store.write("events", f"{namespace}/{name}", body)
