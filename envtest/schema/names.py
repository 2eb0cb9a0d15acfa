"""Rules for names of objects, labels and groups, with the server's messages.

They are those of apimachinery's util/validation.
"""

from __future__ import annotations

import re
from typing import Final

from envtest.memo import remember_results

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_QUALIFIED})?"
_MAX_SUBDOMAIN: Final = 253
_MAX_LABEL: Final = 63

_is_label = re.compile(_LABEL).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_label_1035 = re.compile(_LABEL_1035).fullmatch
_is_qualified = re.compile(_QUALIFIED).fullmatch
_is_value = re.compile(_VALUE).fullmatch

_QUALIFIED_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_QUALIFIED}')"
)


def find_subdomain_errors(name: str) -> list[str]:
    """Return why `name` is not a DNS-1123 subdomain (object names, API groups)."""
    errors = (
        []
        if len(name) <= _MAX_SUBDOMAIN
        else [f"must be no more than {_MAX_SUBDOMAIN} characters"]
    )
    if not _is_subdomain(name):
        errors.append(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
            "'-' or '.', and must "
            "start and end with an alphanumeric character (e.g. 'example.com', regex used for "
            "validation is "
            f"'{_SUBDOMAIN}')"
        )
    return errors


def find_label_errors(label: str) -> list[str]:
    """Return why `label` is not a DNS-1123 label (namespaces)."""
    errors = [] if len(label) <= _MAX_LABEL else [f"must be no more than {_MAX_LABEL} characters"]
    if not _is_label(label):
        errors.append(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or "
            "'-', and must start and "
            "end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for "
            "validation is "
            f"'{_LABEL}')"
        )
    return errors


def find_label_1035_errors(label: str) -> list[str]:
    """Return why `label` is not a DNS-1035 label (names of resources and versions)."""
    errors = [] if len(label) <= _MAX_LABEL else [f"must be no more than {_MAX_LABEL} characters"]
    if not _is_label_1035(label):
        errors.append(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start "
            "with an alphabetic "
            "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
            "regex used for "
            f"validation is '{_LABEL_1035}')"
        )
    return errors


@remember_results(4096)
def find_qualified_name_errors(qualified_name: str) -> list[str]:
    """Return the errors of a qualified name: a label key, annotation key or finalizer."""
    prefix, slash, name = qualified_name.rpartition("/")
    if "/" in prefix:
        # There is more than one slash.
        prefixed = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_QUALIFIED_RULE} {prefixed}"]
    errors: list[str] = []
    if slash and not prefix:
        errors.append("prefix part must be non-empty")
    elif slash:
        errors += [f"prefix part {error}" for error in find_subdomain_errors(prefix)]
    if not name:
        errors.append("name part must be non-empty")
    elif len(name) > _MAX_LABEL:
        errors.append(f"name part must be no more than {_MAX_LABEL} bytes")
    if not _is_qualified(name):
        errors.append(f"name part {_QUALIFIED_RULE}")
    return errors


@remember_results(4096)
def find_label_value_errors(value: str) -> list[str]:
    """Return why `value` is not a label value."""
    errors = [] if len(value) <= _MAX_LABEL else [f"must be no more than {_MAX_LABEL} bytes"]
    if not _is_value(value):
        errors.append(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', "
            "'_' or '.', and must "
            "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or "
            "'12345', regex used "
            f"for validation is '({_QUALIFIED})?')"
        )
    return errors
