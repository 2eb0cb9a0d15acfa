"""CustomResourceDefinitions: defaults, refusals and warnings, as the API server has them."""

from envtest.schema.crd.definition import (
    find_crd_warnings,
    find_names_errors,
    set_crd_defaults,
    validate_crd,
)

__all__ = ["find_crd_warnings", "find_names_errors", "set_crd_defaults", "validate_crd"]
