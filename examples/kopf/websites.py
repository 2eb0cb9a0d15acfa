"""The Websites of examples/websites.py, written for kopf."""

import kopf
from kubernetes_asyncio import client, config
from kubernetes_asyncio.client.exceptions import ApiException


# -- What is watched
@kopf.on.startup()
async def login(**_):
    await config.load_config()


# -- A pass
@kopf.on.create("example.com", "v1", "websites")
@kopf.on.update("example.com", "v1", "websites", field="spec")
@kopf.on.resume("example.com", "v1", "websites")
async def reconcile(body, spec, meta, name, namespace, status, patch, **_):
    holder = await claim_host(namespace, spec["host"], name)
    if holder != name:
        report(meta, status, patch, 0, "HostTaken", f"{spec['host']} is served by {holder}")
        raise kopf.TemporaryError("HostTaken", delay=60)
    deployment, replicas = await ensure_deployment(body, spec, name, namespace), spec["replicas"]
    ready = (deployment.status and deployment.status.ready_replicas) or 0
    reason = "Serving" if ready >= replicas else "Starting"
    report(meta, status, patch, ready, reason, f"{ready} of {replicas} replicas are ready")


# -- Claim the host
async def claim_host(namespace, host, name):
    async with client.ApiClient() as api:
        core = client.CoreV1Api(api)
        try:
            routes = await core.read_namespaced_config_map("routes", namespace)
        except ApiException as error:
            if error.status != 404:
                raise
            routes = await core.create_namespaced_config_map(
                namespace, {"metadata": {"name": "routes"}, "data": {host: name}}
            )
        if host not in (routes.data or {}):
            version = routes.metadata.resource_version
            change = {"metadata": {"resourceVersion": version}, "data": {host: name}}
            routes = await core.patch_namespaced_config_map("routes", namespace, change)
        return routes.data[host]


# -- Give the host back
@kopf.on.delete("example.com", "v1", "websites")
async def release_host(spec, name, namespace, **_):
    async with client.ApiClient() as api:
        core = client.CoreV1Api(api)
        routes = await core.read_namespaced_config_map("routes", namespace)
        if (routes.data or {}).get(spec["host"]) == name:
            change = {"data": {spec["host"]: None}}
            await core.patch_namespaced_config_map("routes", namespace, change)


# -- Own the Deployment
async def ensure_deployment(body, spec, name, namespace):
    async with client.ApiClient() as api:
        apps = client.AppsV1Api(api)
        try:
            deployment = await apps.read_namespaced_deployment(name, namespace)
        except ApiException as error:
            if error.status != 404:
                raise
            child = deployment_of(name, spec)
            kopf.adopt(child, owner=body)
            return await apps.create_namespaced_deployment(namespace, child)
        if deployment.spec.replicas != spec["replicas"]:
            change = {"spec": {"replicas": spec["replicas"]}}
            return await apps.patch_namespaced_deployment(name, namespace, change)
        return deployment


# -- Report
def report(meta, status, patch, ready, reason, message):
    ok = "True" if reason == "Serving" else "False"
    now = kopf_time()
    for old in status.get("conditions", ()):
        if old["status"] == ok:
            now = old["lastTransitionTime"]
    condition = {
        "type": "Ready",
        "status": ok,
        "reason": reason,
        "message": message,
        "lastTransitionTime": now,
        "observedGeneration": meta.get("generation", 0),
    }
    patch.setdefault("status", {}).update({"readyReplicas": ready, "conditions": [condition]})


def kopf_time():
    from datetime import UTC, datetime

    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# -- Changes of other objects
@kopf.on.event("apps", "v1", "deployments", labels={"website": kopf.PRESENT})
async def deployment_changed(labels, namespace, status, spec, **_):
    ready, replicas = status.get("readyReplicas", 0), spec["replicas"]
    reason = "Serving" if ready >= replicas else "Starting"
    change = {}
    report({}, {}, change, ready, reason, f"{ready} of {replicas} replicas are ready")
    async with client.ApiClient() as api:
        custom = client.CustomObjectsApi(api)
        await custom.patch_namespaced_custom_object_status(
            "example.com",
            "v1",
            namespace,
            "websites",
            labels["website"],
            change,
            _content_type="application/merge-patch+json",
        )


# -- The Deployment
def deployment_of(name, spec):
    labels = {"website": name}
    container = {"name": "web", "image": spec["image"]}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": spec["replicas"],
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
