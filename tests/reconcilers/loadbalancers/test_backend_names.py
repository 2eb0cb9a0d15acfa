"""MetalLB is named only behind the port of load balancers, so that others can be added."""

from fnmatch import fnmatch
from pathlib import Path

import reconcilers

ROOT = Path(reconcilers.__file__).parent
NAMED_IN = {
    "loadbalancers/metallb/*": "the adapter",
    "loadbalancers/__init__.py": "lists the adapters",
    "wiring/*": "chooses the adapter",
    "api/names.py": "the names of objects in tenants, which users see",
    "api/networkpool.py": "a source of addresses that users write",
    "api/reasons.py": "the reasons of conditions, which users know",
    "api/tenantaddons.py": "the value of spec.addons.loadBalancer.provider",
    "api/vocabulary.py": "the words of API.md",
    "configuration/settings.py": "the options that users know",
    "cli/settingflags.py": "the flags that users know",
    "cli/up.py": "help that says what is started",
    "cli/demo/*": "the demo shows the backend at work",
    "cli/local/*": "starts the backend on this machine",
    "cli/standin/*": "plays the backend on this machine",
    "integrations/kubermatic/auditing.py": "what KKP itself makes of a pool",
}
"""Where MetalLB may be named, and why."""


def _list_files_that_name_metallb() -> set[str]:
    """Return the shipped modules that name MetalLB, below the package."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        if "metallb" in path.read_text(encoding="utf-8").lower()
    }


def test_metallb_is_named_only_behind_the_port_and_where_users_know_the_word() -> None:
    unexpected = {
        name
        for name in _list_files_that_name_metallb()
        if not any(fnmatch(name, p) for p in NAMED_IN)
    }
    assert unexpected == set(), "use the port of load balancers, or its kind's title"


def test_each_listed_file_names_metallb() -> None:
    files = _list_files_that_name_metallb()
    unused = {pattern for pattern in NAMED_IN if not any(fnmatch(name, pattern) for name in files)}
    assert unused == set()
