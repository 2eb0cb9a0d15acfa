"""One admission exchange: configurations, a request, what the hooks were asked, what came back."""

import itertools
import json
import re
from typing import Any

import anyio
import httpx

from tests.envtest.admission.hooks import Hook, Reply
from tests.envtest.replay import mask
from tests.polling import SECONDS

GROUP = "/apis/admissionregistration.k8s.io/v1"
# Where the hook of the recordings was.
RECORDED_HOOK = "https://127.0.0.1:40893"
UNREACHABLE = "https://127.0.0.1:1"
_PAUSE_SECONDS = 0.05
_serial = itertools.count(1)

Body = dict[str, Any]


def build_collection_path(body: Body) -> str:
    """Return the path of a configuration's collection."""
    return f"{GROUP}/{body['kind'].lower()}s"


class Stage:
    """A server and a hook, between which configurations come and go."""

    def __init__(self, client: httpx.AsyncClient, hook: Hook) -> None:
        self._client = client
        self._hook = hook
        self._present: list[str] = []

    async def configure(self, *configurations: Body) -> None:
        """Put exactly these configurations in force; `${hook}` in a URL is where the hook is."""
        for path in self._present:
            await self._client.delete(path)
        self._present = []
        self._hook.replies = {}
        marks = set()
        for body in (*configurations, _build_canary("Mutating"), _build_canary("Validating")):
            ready = self._fill_in_hook(body)
            answer = await self._client.post(build_collection_path(ready), json=ready)
            assert answer.status_code == 201, answer.text
            self._present.append(f"{build_collection_path(ready)}/{ready['metadata']['name']}")
            marks |= set(re.findall(r"/canary/\d+", json.dumps(ready)))
        with anyio.fail_after(SECONDS):
            while not marks <= self._hook.in_force:
                await self._client.post(
                    "/api/v1/namespaces/default/configmaps?dryRun=All",
                    json={"metadata": {"generateName": "canary-", "labels": {"canary": "yes"}}},
                )
                await anyio.sleep(0 if marks <= self._hook.in_force else _PAUSE_SECONDS)
        self._hook.asked.clear()

    def _fill_in_hook(self, body: Body) -> Body:
        by_name = self._hook.url.replace("127.0.0.1", "localhost")
        encoded = json.dumps(body).replace("${hook}", self._hook.url)
        encoded = encoded.replace("${hook-by-name}", by_name)
        filled: Body = json.loads(encoded)
        for webhook in filled.get("webhooks") or ():
            if webhook["clientConfig"].get("caBundle") == "<ca>":
                webhook["clientConfig"]["caBundle"] = self._hook.ca_bundle
        return filled

    async def send(self, request: Body) -> httpx.Response:
        """Send a request."""
        body = request.get("body")
        headers = {"Content-Type": request.get("contentType", "application/json")}
        return await self._client.request(
            request["method"],
            request["path"],
            content=None if body is None else json.dumps(body),
            headers={**headers, **request.get("headers", {})},
        )

    async def exchange(self, request: Body, replies: dict[str, Reply]) -> Body:
        """Send a request; return the masked reviews and the masked answer."""
        self._hook.replies = replies
        self._hook.asked.clear()
        answer = await self.send(request)
        described = {
            "status": answer.status_code,
            "body": self._mask(json.loads(answer.text)),
            "warnings": answer.headers.get_list("warning"),
        }
        reviews = [self._mask(asked_review) for asked_review in self._hook.asked]
        return {"reviews": reviews, "response": described}

    def _mask(self, value: Any) -> Any:
        """Mask what differs from run to run, the place of the hook included."""
        encoded = json.dumps(mask(value)).replace(self._hook.url, RECORDED_HOOK)
        # Its port by itself, too: refusals to connect name it.
        port, recorded = (url.rpartition(":")[2] for url in (self._hook.url, RECORDED_HOOK))
        for pattern, replacement in (
            (rf"(?<=:){port}\b", recorded),
            (r"\bgen-[a-z0-9]{5}\b", "gen-<name>"),
            # Go names the resolver that it asked.
            (r"(lookup nowhere\.invalid) on [0-9.]+:[0-9]+", r"\1"),
        ):
            encoded = re.sub(pattern, replacement, encoded)
        return json.loads(encoded)


def _build_canary(kind: str) -> Body:
    """Return a configuration whose call shows that all earlier configurations are in force."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": "zz-canary"},
        "webhooks": [
            {
                "name": "canary.lab.example.com",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "clientConfig": {"url": f"${{hook}}/canary/{next(_serial)}", "caBundle": "<ca>"},
                "objectSelector": {"matchLabels": {"canary": "yes"}},
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["configmaps"],
                    }
                ],
            }
        ],
    }
