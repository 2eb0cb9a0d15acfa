"""Exceptions that PyYAML raises for invalid documents."""

from typing import Final

import yaml

YAML_ERRORS: Final = (
    yaml.YAMLError,
    ValueError,
    KeyError,
    AttributeError,
    OverflowError,
    RecursionError,
)
"""Exceptions for a document that is not YAML, or that has an impossible value.

Only syntax raises YAMLError. A scalar that does not fit its tag or its form raises whatever the
conversion raises: `!!bool x` a KeyError, `!!timestamp x` an AttributeError, the date 2020-13-45 a
ValueError, an escaped character above U+10FFFF an OverflowError. Deep nesting raises a
RecursionError.
"""
