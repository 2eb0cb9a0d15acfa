"""The story of the demo: a YAML file as steps, with what each of its words does.

story.yaml is the story with MetalLB in tenants, cilium.yaml the story with Cilium's LB-IPAM. A
*word* of the story names a function: an action below `do`, or a check below `see`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.resources import files
from typing import Any

import yaml

from controller.meta import Key
from reconcilers.api import names
from reconcilers.api.resources import (
    OWN_KINDS,
    TENANT_CLUSTER,
)
from reconcilers.api.services import SERVICE
from reconcilers.api.tenantaddons import CILIUM, DEFAULT_LOAD_BALANCER
from reconcilers.cli.demo import checks, promises
from reconcilers.cli.demo.promises import OverlapWatch, ReleaseWatch
from reconcilers.cli.demo.settings import BUNDLE
from reconcilers.cli.demo.steps import (
    Action,
    Attempt,
    Check,
    LeaderLoss,
    Stopwatch,
    StoryStep,
    apply_manifests,
    build_attempt,
    copy_kubeconfig,
    delete_objects,
    expect_refusals,
    expect_warnings,
    wait_for,
)
from reconcilers.cli.demo.view import PlatformView, take_view_later
from reconcilers.cli.local.objects import Manifest
from reconcilers.cli.local.platform import LocalTenant
from reconcilers.configuration.settings import TenantSettings

WEB = Key("team-a", "web")
_WITH_BALANCER = (
    LocalTenant("tenant-web", WEB),
    LocalTenant("tenant-shop", Key("team-b", "shop")),
)
TENANTS: Mapping[str, Sequence[LocalTenant]] = {
    DEFAULT_LOAD_BALANCER: (
        *_WITH_BALANCER,
        LocalTenant("tenant-bare", Key("team-d", "bare"), has_balancer=False),
    ),
    CILIUM: _WITH_BALANCER,
}
"""The tenants of each story, by the load balancer that is in them."""
FILES = {DEFAULT_LOAD_BALANCER: "story.yaml", CILIUM: "cilium.yaml"}
"""The file of each story, by the load balancer of its tenants."""


def build_story(
    overlaps: OverlapWatch,
    releases: ReleaseWatch,
    silent_url: str,
    provider: str = DEFAULT_LOAD_BALANCER,
) -> list[StoryStep]:
    """Return the steps of the story, in order.

    Args:
        overlaps: checks all allocations for overlaps, from the first change on.
        releases: looks into tenants when ranges are released.
        silent_url: the URL of an API server that never answers.
        provider: the load balancer of tenants, as a TenantCluster names it.
    """
    loss, watch = LeaderLoss(), Stopwatch()
    # The words below `see` and `do` in the story, each with the function that makes its check or
    # action from the word's arguments. The checks of checks.py are words under their own names.
    check_makers: dict[str, Callable[..., Check]] = {
        **vars(checks),
        "adds_up": promises.check_sums,
        "all_free": promises.check_pool_free,
        "everything_free": promises.check_all_pools_free,
        "nothing_left": promises.check_nothing_left,
        "let_go_first": lambda count: partial(releases.check_removed_first, count=count),
        "never_overlapped": lambda: overlaps.check_no_overlaps,
        "leader_replaced": lambda: loss.check_served,
        "sooner_than_usual": lambda: watch.check_faster_than(
            TenantSettings().growth_after, "the usual wait"
        ),
    }
    action_makers: dict[str, Callable[..., Action]] = {
        "apply": apply_manifests,
        "apply_bundle": _apply_bundle,
        "apply_in_tenant": lambda tenant, manifest: apply_manifests(manifest, tenant=tenant),
        "apply_service": lambda tenant, name: apply_manifests(build_service(name), tenant=tenant),
        "delete": lambda kind, *keys: delete_objects(OWN_KINDS[kind], *keys),
        "delete_all": _delete_all,
        "delete_service": lambda tenant, name: delete_objects(
            SERVICE, Key("default", name), tenant=tenant
        ),
        "give_kubeconfig_of_silent_server": lambda key: copy_kubeconfig(key, silent_url, WEB),
        "lose_leader": lambda count, request: partial(
            loss.lose_leader, requests=_copy_numbered(request, count)
        ),
        "restore": _restore_allocation,
        "start_stopwatch": lambda: watch.start,
        "touch": _touch_cluster,
        "wait_for": lambda check, *arguments: wait_for(check_makers[check](*arguments)),
    }
    return [
        _make_step(entry, action_makers, check_makers) for entry in read_story(provider)["steps"]
    ]


def read_story(provider: str = DEFAULT_LOAD_BALANCER) -> Mapping[str, Any]:
    """Return the file of a story: its introduction, its steps, and its end."""
    story_yaml = files(__package__).joinpath(FILES[provider]).read_text(encoding="utf-8")
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    document: Mapping[str, Any] = yaml.load(story_yaml, Loader=loader)  # noqa: S506 - a safe one
    return document


def _make_step(
    entry: Mapping[str, Any],
    action_makers: Mapping[str, Callable[..., Action]],
    check_makers: Mapping[str, Callable[..., Check]],
) -> StoryStep:
    """Return the step that an entry of story.yaml describes."""
    title, explanation = entry["title"], entry["text"]
    # A step of requests that the API server rejects or warns about has no actions and checks.
    for word, make in (("refused", expect_refusals), ("warned", expect_warnings)):
        if word in entry:
            return make(title, *map(_make_attempt, entry[word]), explanation=explanation)
    actions = [_call_word(action_makers, act) for act in entry.get("do", ())]
    checks_made = [_call_word(check_makers, check) for check in entry["see"]]
    return StoryStep(title, tuple(checks_made), actions=tuple(actions), explanation=explanation)


def _call_word(words: Mapping[str, Callable[..., Any]], entry: Mapping[str, list[Any]]) -> Any:
    """Return the action or check that an entry of the story describes.

    Args:
        words: the function for each word.
        entry: one word of the story, with the arguments of its function.
    """
    [(word, arguments)] = entry.items()
    return words[word](*map(_parse_argument, arguments))


def _parse_argument(written: Any) -> Any:
    """Return the key for a text `namespace/name`; any other value unchanged."""
    return Key(*written.split("/")) if isinstance(written, str) and "/" in written else written


def _make_attempt(written: Mapping[str, Any]) -> Attempt:
    """Return the request that an entry below `refused` or `warned` describes."""
    # An entry has exactly one of these keys.
    [verb] = {"create", "change", "delete"} & written.keys()
    (kind, name), spec = written[verb], written.get("spec", {})
    return build_attempt(
        written["what"],
        verb,
        resource=OWN_KINDS[kind],
        name=name,
        spec=spec,
        words=written["words"],
    )


def build_service(name: str) -> Manifest:
    """Return the manifest of a Service of type LoadBalancer."""
    ports = [{"name": "http", "port": 80, "protocol": "TCP"}]
    spec = {"type": "LoadBalancer", "selector": {"app": name}, "ports": ports}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


def _copy_numbered(request: Manifest, count: int) -> list[Manifest]:
    """Return `count` copies of a manifest, numbered in their names."""
    name = request["metadata"]["name"]
    return [{**request, "metadata": {"name": f"{name}-{n:02}"}} for n in range(count)]


@take_view_later
async def _apply_bundle(view: PlatformView) -> None:
    """Apply the ConfigMap from which the controllers install MetalLB in tenants.

    It has only the definitions of MetalLB's kinds. The demo runs no pods, so the Deployments of a
    real installation would have no effect.
    """
    bundle = "\n---\n".join(json.dumps(definition) for definition in view.definitions)
    meta, data = {"name": BUNDLE}, {"metallb.yaml": bundle}
    await apply_manifests(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
    )(view)


@take_view_later
async def _delete_all(view: PlatformView, kind: str) -> None:
    """Delete all IPAllocations, NetworkPools or ProviderConfigs."""
    caches = (view.allocations, view.pools, view.providers)
    [cache] = [candidate for candidate in caches if candidate.resource.kind == kind]
    await delete_objects(OWN_KINDS[kind], *[obj.metadata.key for obj in cache])(view)


@take_view_later
async def _touch_cluster(view: PlatformView, cluster: Key) -> None:
    """Change an annotation of a cluster, so that the controllers reconcile the cluster now."""
    # An apply needs no version, which a controller may change at any time. The manager is another
    # than that of the story's manifests, whose fields stay.
    await view.management.client.apply(
        TENANT_CLUSTER,
        cluster,
        {"metadata": {"annotations": {"example.com/touched": "yes"}}},
        manager="butler-ipam-demo-touch",
        uid=view.uids[cluster],
    )


@take_view_later
async def _restore_allocation(view: PlatformView, owner: Key, backup: Manifest) -> None:
    """Apply an IPAllocation from a backup, with an annotation that names a deleted cluster's uid.

    Args:
        owner: the TenantCluster that the allocation was made for.
    """
    annotations = {names.ANNOTATION_TENANT_UID: view.uids[owner]}
    await apply_manifests(
        {**backup, "metadata": {**backup["metadata"], "annotations": annotations}}
    )(view)
