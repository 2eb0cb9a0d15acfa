"""Writes the manifests of the integration with Cluster API from what the code says.

    manifests/clusterapi-crds   a CustomResourceDefinition for each kind of pool
    manifests/clusterapi        the webhooks, as a patch of the configuration that there is

Tests fail while a file differs from what this would write.
"""

from collections.abc import Iterator
from pathlib import Path

import yaml

from reconcilers.cli.crds import file_name
from reconcilers.cli.output import as_yaml
from reconcilers.integrations.clusterapi.crds import crds
from reconcilers.webhooks.configuration import CLUSTER_API, entries

MANIFESTS = Path(__file__).parent.parent / "manifests"
HEAD = """\
# What is asked before a pool of Cluster API is stored; made by .ci/clusterapi.py, never by hand.
"""


def files() -> Iterator[tuple[Path, str]]:
    """Yield each file with the text that it should have."""
    for definition in crds():
        yield MANIFESTS / "clusterapi-crds" / file_name(definition), as_yaml([definition])
    added = [{"op": "add", "path": "/webhooks/-", "value": one} for one in entries(CLUSTER_API)]
    text = yaml.safe_dump(added, sort_keys=False, width=1000)
    yield MANIFESTS / "clusterapi/webhooks.yaml", HEAD + text


def main() -> None:
    """Write all of them."""
    for path, text in files():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
