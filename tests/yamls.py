"""Reads and writes YAML with libyaml: it takes a tenth of the time of PyYAML's own parser.

Manifests and definitions have thousands of lines, and many tests read the same ones: what a
document says is remembered. Where PyYAML was built without libyaml its own parser reads them.
"""

import pickle
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import IO, Any

import yaml

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def read_yaml(text: str | bytes | IO[str]) -> Any:
    """Return the one document of a text."""
    found = list(read_all_yaml(text))
    if len(found) > 1:
        raise ValueError(f"{len(found)} documents where one is expected")
    return found[0] if found else None


def read_all_yaml(text: str | bytes | IO[str]) -> Iterator[Any]:
    """Yield the documents of a text, empty ones as None; they are the caller's own."""
    whole = text if isinstance(text, str | bytes) else text.read()
    told = whole if isinstance(whole, str) else whole.decode()
    for part in re.split(r"^(?=---\n)", told, flags=re.MULTILINE):
        yield from pickle.loads(_read(part))


@lru_cache(maxsize=1024)
def _read(text: str) -> bytes:
    """Return the documents of a text, pickled: who gets them may change them."""
    return pickle.dumps(list(yaml.load_all(text, Loader=_LOADER)))


def written_yaml(documents: Iterable[Any]) -> str:
    """Return documents as one text, their fields in the order that they have."""
    text: str = yaml.dump_all(documents, Dumper=_DUMPER, sort_keys=False)
    return text
