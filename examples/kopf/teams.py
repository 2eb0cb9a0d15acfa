"""The Teams of examples/teams.py, written for kopf."""

import os

import kopf
from kubernetes_asyncio import client, config
from kubernetes_asyncio.client.exceptions import ApiException

OWNERS = "example.com/owners"


# -- Convert
# kopf serves no conversion webhooks: another program has to, or the CRD has one version.


# -- Set defaults
@kopf.on.mutate("example.com", "v2", "teams", operation="CREATE")
async def set_defaults(spec, name, patch, **_):
    if "namespace" not in spec:
        patch.spec["namespace"] = f"team-{name}"


# -- Refuse
@kopf.on.validate("example.com", "v2", "teams", operations=["CREATE", "UPDATE"])
async def validate(spec, meta, old, **_):
    if meta.get("deletionTimestamp"):
        return
    if not all("@" in owner for owner in spec.get("owners") or [""]):
        raise kopf.AdmissionError("spec.owners: name the mail addresses of persons", code=422)
    if old and spec["namespace"] != old["spec"]["namespace"]:
        raise kopf.AdmissionError(
            "spec.namespace cannot change: delete the team and make another", code=422
        )


# -- What is watched
@kopf.on.startup()
async def configure(settings, **_):
    await config.load_config()
    # kopf makes the webhook configurations itself; it needs a certificate, made elsewhere.
    settings.admission.managed = "teams.example.com"
    settings.admission.server = kopf.WebhookServer(
        addr="127.0.0.1",
        host="127.0.0.1",
        cafile=os.environ["WEBHOOK_CA"],
        certfile=os.environ["WEBHOOK_CERTIFICATE"],
        pkeyfile=os.environ["WEBHOOK_KEY"],
    )


# -- A pass
@kopf.on.create("example.com", "v2", "teams")
@kopf.on.update("example.com", "v2", "teams")
@kopf.on.resume("example.com", "v2", "teams")
async def reconcile(body, spec, **_):
    annotations = {OWNERS: ", ".join(spec["owners"])}
    child = {"metadata": {"name": spec["namespace"], "annotations": annotations}}
    kopf.append_owner_reference(child, owner=body)
    async with client.ApiClient() as api:
        core = client.CoreV1Api(api)
        try:
            await core.create_namespace(child)
        except ApiException as error:
            if error.status != 409:
                raise
            change = {"metadata": {"annotations": annotations}}
            await core.patch_namespace(spec["namespace"], change)
