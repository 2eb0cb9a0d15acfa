"""The inventory of examples/inventory.py, written for kopf.

kopf watches the cluster that it runs in and no other, so a daemon for each Secret watches its
cluster with another library.
"""

import base64

import kopf
import yaml
from kubernetes_asyncio import client, config, watch
from kubernetes_asyncio.client.exceptions import ApiException

LABEL = "example.com/cluster"


# -- What is watched
@kopf.on.startup()
async def login(**_):
    await config.load_config()


# -- A pass
@kopf.daemon("", "v1", "secrets", labels={LABEL: kopf.PRESENT}, cancellation_timeout=5)
async def count_nodes(body, spec, name, namespace, stopped, **_):
    while not stopped:
        remote = await remote_configuration(body)
        try:
            async with client.ApiClient(remote) as api:
                core, nodes = client.CoreV1Api(api), {}
                listed = await core.list_node()
                nodes = {node.metadata.name: node for node in listed.items}
                await write(body, name, namespace, nodes)
                version = listed.metadata.resource_version
                events = watch.Watch().stream(core.list_node, resource_version=version)
                async for event in events:
                    node = event["object"]
                    nodes[node.metadata.name] = node
                    if event["type"] == "DELETED":
                        del nodes[node.metadata.name]
                    await write(body, name, namespace, nodes)
        except Exception as error:
            await write_data(body, name, namespace, {"error": str(error)})
            await stopped.wait(5)


# -- Reach the other cluster
async def remote_configuration(body):
    # Everything that the kubeconfig asks for is done: programs are run, files are read.
    loaded = yaml.safe_load(base64.b64decode(body["data"]["kubeconfig"]))
    remote = client.Configuration()
    await config.load_kube_config_from_dict(loaded, client_configuration=remote)
    return remote


# -- Write the ConfigMap
async def write_data(owner, name, namespace, data):
    child = {"metadata": {"name": f"{name}-nodes"}, "data": data}
    kopf.append_owner_reference(child, owner=owner)
    async with client.ApiClient() as api:
        core = client.CoreV1Api(api)
        try:
            await core.create_namespaced_config_map(namespace, child)
        except ApiException as error:
            if error.status != 409:
                raise
            config_map = await core.read_namespaced_config_map(f"{name}-nodes", namespace)
            config_map.data = data
            await core.replace_namespaced_config_map(f"{name}-nodes", namespace, config_map)


# -- Which nodes are ready
async def write(owner, name, namespace, nodes):
    ready = sum(
        any(
            condition.type == "Ready" and condition.status == "True"
            for condition in node.status.conditions or ()
        )
        for node in nodes.values()
    )
    await write_data(owner, name, namespace, {"nodes": str(len(nodes)), "ready": str(ready)})
