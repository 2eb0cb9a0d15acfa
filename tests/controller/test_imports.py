"""Libraries that importing the framework does not load."""

import subprocess
import sys


def test_a_manager_that_serves_nothing_is_imported_without_the_http_library() -> None:
    script = (
        "import sys, controller.manager, controller.tenantconfig, controller.testing\n"
        "print([name for name in ('aiohttp', 'structlog') if name in sys.modules])\n"
    )
    printed = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    assert printed == "[]\n"
