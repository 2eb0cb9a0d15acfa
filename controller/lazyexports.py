"""Names of a package that are imported when they are first used (PEP 562)."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def export_lazily(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions `__getattr__` and `__dir__` for a package, which Python calls.

    Args:
        package: its name.
        modules: by module of the package, the names that it defines, with spaces between them.
    """
    module_of = {name: module for module, names in modules.items() for name in names.split()}
    namespace = sys.modules[package].__dict__

    def get_attribute(name: str) -> Any:
        """Import a name, and keep it in the package, so that Python calls this once for it."""
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{module_of[name]}"), name)
        namespace[name] = value
        return value

    def list_names() -> list[str]:
        """Return the names of the package, with those that are not imported yet."""
        return sorted({*namespace, *module_of})

    return get_attribute, list_names
