"""Prints the manifests of an operator: `python -m controller.scaffold MODULE --image IMAGE`.

The module is imported, not run. It has `build(manager)`, which adds everything to a manager, and
may have `OPTIONS` (ManagerOptions), `KINDS` (a sequence of CustomKind) and `WRITES` (of Writes).
"""

import argparse
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from controller.errors import ConfigurationError, NoAnswer
from controller.manager import Manager
from controller.options import ManagerOptions
from controller.scaffold.definitions import CustomKind, create_crd
from controller.scaffold.deployments import DeploymentSettings, create_deployment
from controller.scaffold.roles import create_roles, list_unwatched_kinds
from controller.scaffold.webhookmanifests import (
    create_webhook_configurations,
    list_unregistered_webhooks,
)

PARTS = ("crds", "roles", "deployment", "webhooks")


class _NoTransport:
    """A transport for a manager that never runs, because only its registrations are read."""

    async def request(self, method: str, path: str, **_: Any) -> bytes:
        """Raise NoAnswer."""
        raise NoAnswer(f"{method} {path}: manifests are made without an API server")

    def stream(self, path: str, **_: Any) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Raise NoAnswer."""
        raise NoAnswer(f"watch {path}: manifests are made without an API server")

    async def aclose(self) -> None:
        """Close nothing."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the manifests of the operator that the command line names.

    Args:
        arguments: the command line; None for that of the process.
    """
    parser = argparse.ArgumentParser(prog="python -m controller.scaffold", description=__doc__)
    parser.add_argument("module", help="the operator, for example widgets.operator")
    parser.add_argument(
        "--image", default="", help="the container image; needed for the Deployment"
    )
    parser.add_argument(
        "--name", default="", help="of all objects; by default the module's last name"
    )
    parser.add_argument(
        "--namespace",
        default="",
        help="where the operator runs, and POD_NAMESPACE while the module is imported; by default"
        " the namespace of the lease or of the webhook certificate, else `default`",
    )
    parser.add_argument(
        "--watched",
        metavar="NAMESPACE",
        action="append",
        default=[],
        help="a namespace that will be in the operator's NamespaceSet, to print its Role and"
        " RoleBinding too; may be repeated",
    )
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--only", choices=PARTS, help="print one part")
    flags = parser.parse_args(arguments)
    sys.path.insert(0, str(Path.cwd()))  # where the operator's module usually is
    try:
        # All are created before the first is printed: `kubectl apply -f -` must not get a part.
        manifests = list(_create_manifests(_import_module(flags.module, flags.namespace), flags))
    except ConfigurationError as error:
        parser.exit(1, f"{flags.module}: {error}\n")
    for manifest in manifests:
        sys.stdout.write(
            "---\n" + yaml.safe_dump(_copy_without_shared_parts(manifest), sort_keys=False)
        )


def _import_module(name: str, namespace: str) -> ModuleType:
    """Import the module of an operator, with the POD_NAMESPACE that its Pod has.

    Args:
        name: the name of the module.
        namespace: the value of POD_NAMESPACE; empty to leave it unchanged.

    Raises:
        ConfigurationError: there is no such module. Errors inside the module are raised as they
            are.
    """
    own_namespace = os.environ.get("POD_NAMESPACE")
    if namespace:
        os.environ["POD_NAMESPACE"] = namespace
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        is_named = error.name is not None and f"{name}.".startswith(f"{error.name}.")
        if not is_named:  # neither the module nor a package around it is missing
            raise  # the module is there, and imports another one that is missing
        raise ConfigurationError(
            f"there is no module {error.name} in {Path.cwd()} or in the environment; write"
            " package.module, without .py"
        ) from error
    finally:
        # Only the import sees the Pod's namespace.
        os.environ.pop("POD_NAMESPACE", None)
        if own_namespace is not None:
            os.environ["POD_NAMESPACE"] = own_namespace


def _choose_namespace(namespace: str, options: ManagerOptions) -> str:
    """Return the namespace that the settings name; `default` if they name none.

    Args:
        namespace: the namespace of the command line; empty if it names none.
        options: the options of the manager; they may name namespaces as well.

    Raises:
        ConfigurationError: two settings name different namespaces.
    """
    signed = options.webhook_self_signed
    settings = {
        "--namespace": namespace,
        "ManagerOptions.lease_namespace": options.lease_namespace if options.leader_elect else "",
        "SelfSigned.namespace": signed.namespace if signed else "",
    }
    namespaces = {setting: value for setting, value in settings.items() if value}
    if len(set(namespaces.values())) > 1:
        values = ", ".join(f"{setting} is {value}" for setting, value in namespaces.items())
        raise ConfigurationError(
            f"an operator has one namespace, and {values}; take it from the variable"
            " POD_NAMESPACE in the options, or pass the same --namespace"
        )
    return next(iter(namespaces.values()), "default")


def _create_manifests(
    module: ModuleType, flags: argparse.Namespace
) -> Iterator[Mapping[str, Any]]:
    """Yield the manifests of an operator; report omissions on standard error.

    Args:
        module: the operator's module.
        flags: the arguments of the command line.

    Raises:
        ConfigurationError: the module has no `build`, or no Deployment can be made of its options.
    """
    build = getattr(module, "build", None)
    if not callable(build):
        raise ConfigurationError("the module needs a function build(manager)")
    options = getattr(module, "OPTIONS", None) or ManagerOptions()
    name = flags.name or module.__name__.rsplit(".", 1)[-1].replace("_", "-")
    namespace = _choose_namespace(flags.namespace, options)
    kinds = getattr(module, "KINDS", ())
    # Each cluster has the namespace `default`.
    if flags.only is None and namespace != "default":
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    if flags.only in {None, "crds"}:
        yield from map(create_crd, kinds)
    manager = Manager(_NoTransport(), options=options)
    # Only roles and webhooks depend on what `build` adds to the manager.
    if flags.only in {None, "roles", "webhooks"}:
        build(manager)
    if flags.only in {None, "roles"}:
        yield from create_roles(
            manager,
            name,
            namespace=namespace,
            writes=getattr(module, "WRITES", ()),
            watched=flags.watched,
        )
    if flags.only in {None, "deployment"}:
        if not flags.image:
            raise ConfigurationError("the Deployment needs an image; name it with --image")
        deployment_settings = DeploymentSettings(
            name, namespace, flags.image, replicas=flags.replicas
        )
        yield create_deployment(deployment_settings, options)
    if flags.only in {None, "webhooks"}:
        yield from create_webhook_configurations(manager, name, namespace=namespace, kinds=kinds)
    for sentence in _list_omissions(manager, kinds, flags):
        sys.stderr.write(f"{module.__name__}: {sentence}\n")


def _list_omissions(
    manager: Manager, kinds: Sequence[CustomKind], flags: argparse.Namespace
) -> Iterator[str]:
    """Yield a sentence for each kind that is in no role, and each webhook in no configuration."""
    if flags.only in {None, "roles"}:
        for kind in list_unwatched_kinds(manager, flags.watched):
            yield (
                f"{kind} is in no role, because its NamespaceSet is empty; name each namespace"
                " with --watched"
            )
    if flags.only in {None, "webhooks"}:
        for path in list_unregistered_webhooks(manager, kinds):
            yield (
                f"webhook {path} is in no configuration, because its type is that of no kind in"
                " KINDS and of no informer; write its configuration by hand"
            )


def _copy_without_shared_parts(manifest: Mapping[str, Any]) -> Any:
    """Return a manifest without shared parts, which YAML would write as anchors."""
    return json.loads(json.dumps(manifest))


if __name__ == "__main__":
    main()
