"""CustomResourceDefinitions: defaults, refusals and warnings, as the API server has them."""

from envtest.schema.crd.definition import crd_warnings, default_crd, names_errors, validate_crd

__all__ = ["crd_warnings", "default_crd", "names_errors", "validate_crd"]
