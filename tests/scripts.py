"""Scripts of the repository that belong to no package, loaded so that tests can call them."""

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parent.parent


def load_script(name: str) -> ModuleType:
    """Return a script as a module.

    Args:
        name: its path, from the root of the repository.
    """
    spec = importlib.util.spec_from_file_location(Path(name).stem, ROOT / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
