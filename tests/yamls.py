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


def read_yaml(content: str | bytes | IO[str]) -> Any:
    """Return the one document of a text."""
    documents = list(read_all_yaml(content))
    if len(documents) > 1:
        raise ValueError(f"{len(documents)} documents where one is expected")
    return documents[0] if documents else None


def read_all_yaml(content: str | bytes | IO[str]) -> Iterator[Any]:
    """Yield the documents of a text, empty ones as None; they are the caller's own."""
    whole = content if isinstance(content, str | bytes) else content.read()
    told = whole if isinstance(whole, str) else whole.decode()
    for part in re.split(r"^(?=---\n)", told, flags=re.MULTILINE):
        yield from pickle.loads(_read(part))


@lru_cache(maxsize=1024)
def _read(content: str) -> bytes:
    """Return the documents of a text, pickled: who gets them may change them."""
    return pickle.dumps(list(yaml.load_all(content, Loader=_LOADER)))


def written_yaml(documents: Iterable[Any]) -> str:
    """Return documents as one text, their fields in the order that they have."""
    content: str = yaml.dump_all(documents, Dumper=_DUMPER, sort_keys=False)
    return content
