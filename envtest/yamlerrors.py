"""Exceptions that PyYAML raises for invalid documents."""

from typing import Final

import yaml

YAML_ERRORS: Final = (yaml.YAMLError, ValueError, KeyError, AttributeError, OverflowError)
"""Exceptions for a document that is not YAML, or that has an impossible value.

Only syntax raises YAMLError. A scalar that does not fit its tag raises one of the others, as
`!!bool x` does.
"""
