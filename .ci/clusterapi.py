"""Writes the manifests of the integrations from what the code says.

    manifests/clusterapi-crds   a CustomResourceDefinition for each kind of pool
    manifests/clusterapi        the webhooks, as a patch of the configuration that there is
    manifests/INTEGRATION       the same of each other integration that has webhooks

Tests fail while a file differs from what this would write. `repository` writes the two files that
clusterctl installs a release from, rendered from manifests/clusterctl; it needs kubectl.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

from manifests.rendering import render_folder
from reconcilers.cli.crds import build_file_name
from reconcilers.cli.output import render_yaml
from reconcilers.integrations.clusterapi.crds import build_pool_crds
from reconcilers.webhooks.configuration import INTEGRATIONS, build_entries

MANIFESTS = Path(__file__).resolve().parent.parent / "manifests"
CONTRACT = "v1beta2"
"""The contract of Cluster API that the releases of a series keep to."""
IMAGE = "registry.example/butler-ipam"
"""What manifests/clusterctl names: clusterctl takes no image without a registry."""
HEAD = """\
# What is asked before a pool of it is stored; made by .ci/clusterapi.py, never by hand.
"""


def files() -> Iterator[tuple[Path, str]]:
    """Yield each file with the text that it should have."""
    for definition in build_pool_crds():
        yield (
            MANIFESTS / "clusterapi-crds" / build_file_name(definition),
            render_yaml([definition]),
        )
    for folder, validated in INTEGRATIONS.items():
        if not validated:
            continue
        added = [
            {"op": "add", "path": "/webhooks/-", "value": entry}
            for entry in build_entries(validated)
        ]
        patch = yaml.safe_dump(added, sort_keys=False, width=1000)
        yield MANIFESTS / folder / "webhooks.yaml", HEAD + patch


def repository(folder: Path, tag: str, image: str = IMAGE) -> None:
    """Write ipam-components.yaml and metadata.yaml of a release, as clusterctl reads them.

    Args:
        folder: where to; in a local repository it is named after the version.
        tag: of the image, which begins with the version.
        image: where the image is.
    """
    manifest = render_folder(MANIFESTS / "clusterctl")
    manifest, count = re.subn(rf"image: {IMAGE}:\S+", f"image: {image}:{tag}", manifest)
    if count != 1:
        sys.exit(f"manifests/clusterctl names the image {count} times")
    if "${" in manifest:
        sys.exit("manifests/clusterctl holds ${, which clusterctl would take for a variable")
    (folder / "ipam-components.yaml").write_text(manifest, encoding="utf-8")
    major, minor, *_ = tag.split(".")
    metadata = {
        "apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3",
        "kind": "Metadata",
        "releaseSeries": [{"major": int(major), "minor": int(minor), "contract": CONTRACT}],
    }
    (folder / "metadata.yaml").write_text(render_yaml([metadata]), encoding="utf-8")


def main() -> None:
    """Write all of them."""
    for path, content in files():
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
