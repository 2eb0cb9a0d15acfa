"""clusterctl, with a provider repository on this machine instead of those on the internet."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.manifests.clusters import STAND_INS, Cluster
from tests.scripts import load_script
from tests.servers import ASSETS
from tests.yamls import read_all_yaml

VERSION = "v0.1.0"
METAL3_VERSION = "v1.14.0"
CORE_VERSION = "v1.11.2"
"""The version of Cluster API's core, which is also that of clusterctl."""


def find_cluster_api_program(name: str = "clusterctl") -> str:
    """Return the path of a program of Cluster API; skip the test if it was not built."""
    folder = os.environ.get(ASSETS)
    parent = Path(folder).parent / "clusterapi" / name if folder else None
    if parent is None or not parent.exists():
        pytest.skip(f"no {name} beside {ASSETS} ({folder or 'not set'}): `make clusterctl`")
    return str(parent)


class Clusterctl:
    """clusterctl with a repository of the core, of our provider and, if given, of metal3's.

    Args:
        folder: where the repository and clusterctl's configuration are written.
        core: the manifests of Cluster API's core.
        metal3: the manifests of metal3's IPAM provider; empty leaves it out.
    """

    def __init__(self, folder: Path, core: str, metal3: str = "") -> None:
        self._program = find_cluster_api_program()
        self._config = folder / "clusterctl.yaml"
        ours = folder / "ipam-butler-ipam" / VERSION
        theirs = folder / "cluster-api" / CORE_VERSION
        for source_folder in (ours, theirs):
            source_folder.mkdir(parents=True)
        load_script(".ci/clusterapi.py").repository(ours, VERSION.removeprefix("v"))
        self.components: list[dict[str, Any]] = list(
            read_all_yaml((ours / "ipam-components.yaml").read_text())
        )
        """The objects that clusterctl installs for our provider."""
        (theirs / "core-components.yaml").write_text(core)
        (theirs / "metadata.yaml").write_text(
            (ours / "metadata.yaml")
            .read_text()
            .replace("major: 0", "major: 1")
            .replace("minor: 1", "minor: 11")
        )
        providers = [
            {
                "name": "butler-ipam",
                "type": "IPAMProvider",
                "url": str(ours / "ipam-components.yaml"),
            },
            {
                "name": "cluster-api",
                "type": "CoreProvider",
                "url": str(theirs / "core-components.yaml"),
            },
        ]
        if metal3:
            metal3_folder = folder / "ipam-metal3" / METAL3_VERSION
            metal3_folder.mkdir(parents=True)
            (metal3_folder / "ipam-components.yaml").write_text(metal3)
            series = [{"major": 1, "minor": 14, "contract": "v1beta2"}]
            (metal3_folder / "metadata.yaml").write_text(
                yaml.safe_dump(
                    {
                        "apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3",
                        "kind": "Metadata",
                        "releaseSeries": series,
                    }
                )
            )
            url = str(metal3_folder / "ipam-components.yaml")
            providers.append({"name": "metal3", "type": "IPAMProvider", "url": url})
        self._config.write_text(yaml.safe_dump({"providers": providers}))

    async def run(self, cluster: Cluster, *arguments: str) -> str:
        """Run clusterctl against a cluster and return its output; fail if clusterctl fails."""
        command = (*arguments, f"--config={self._config}", f"--kubeconfig={cluster.config}")
        return await cluster.succeed(self._program, *command)

    async def init(self, cluster: Cluster, ipam: str = f"butler-ipam:{VERSION}") -> None:
        """Install Cluster API's core and an IPAM provider, ours if no other is named.

        clusterctl requires cert-manager, and assumes that it works once a Certificate can be
        created. Here the stand-in definitions of cert-manager's kinds are enough for that.
        """
        await cluster.apply("-f", STAND_INS / "cert-manager.yaml")
        providers = (f"--core=cluster-api:{CORE_VERSION}", f"--ipam={ipam}")
        await self.run(cluster, "init", *providers, "--bootstrap=-", "--control-plane=-")
