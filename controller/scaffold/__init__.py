"""Manifests of an operator from its types and its manager: CRDs, roles, Deployment, webhooks.

`python -m controller.scaffold MODULE` prints them all; `__main__` says what the module has. A name
is imported when it is first used, as in `controller`: the types alone need no manager.
"""

from typing import TYPE_CHECKING

from controller.lazyexports import export_lazily

if TYPE_CHECKING:
    from controller.scaffold.definitions import (
        AGE,
        READY,
        Column,
        CustomKind,
        ScalePaths,
        create_crd,
    )
    from controller.scaffold.deployments import DeploymentSettings, create_deployment
    from controller.scaffold.roles import Writes, create_roles
    from controller.scaffold.schemas import create_structural_schema
    from controller.scaffold.webhookmanifests import create_webhook_configurations

__all__ = [
    "AGE",
    "READY",
    "Column",
    "CustomKind",
    "DeploymentSettings",
    "ScalePaths",
    "Writes",
    "create_crd",
    "create_deployment",
    "create_roles",
    "create_structural_schema",
    "create_webhook_configurations",
]

# The same imports for run time; tests/controller/test_surface.py compares the two.
_MODULES = {
    "definitions": "AGE READY Column CustomKind ScalePaths create_crd",
    "deployments": "DeploymentSettings create_deployment",
    "roles": "Writes create_roles",
    "schemas": "create_structural_schema",
    "webhookmanifests": "create_webhook_configurations",
}

if not TYPE_CHECKING:  # a type checker that saw it would take any name for one of ours
    __getattr__, __dir__ = export_lazily(__name__, _MODULES)
