"""CustomResourceDefinitions: defaults, refusals and warnings, as the API server has them."""

from envtest.schema.crd.definition import (
    default_crd,
    find_crd_warnings,
    find_names_errors,
    validate_crd,
)

__all__ = ["default_crd", "find_crd_warnings", "find_names_errors", "validate_crd"]
