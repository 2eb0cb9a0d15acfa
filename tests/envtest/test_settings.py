"""Which control plane the environment asks for."""

from pathlib import Path

import pytest

from envtest.settings import PlaneError, read_settings


@pytest.fixture
def assets(tmp_path: Path) -> Path:
    """Return a folder with programs called etcd and kube-apiserver."""
    for name in ("etcd", "kube-apiserver"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    return tmp_path


def test_without_settings_the_embedded_server_is_used() -> None:
    assert read_settings({}).kind == "embedded"


def test_a_folder_of_assets_means_binaries(assets: Path) -> None:
    settings = read_settings({"KUBEBUILDER_ASSETS": str(assets)})

    assert (settings.kind, settings.etcd) == ("binaries", assets / "etcd")


def test_a_single_asset_wins_over_the_folder(assets: Path) -> None:
    other = assets / "other"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    settings = read_settings({"KUBEBUILDER_ASSETS": str(assets), "TEST_ASSET_ETCD": str(other)})

    assert settings.etcd == other


def test_an_existing_cluster_wins_over_binaries(assets: Path) -> None:
    env = {"KUBEBUILDER_ASSETS": str(assets), "USE_EXISTING_CLUSTER": "true"}

    assert read_settings(env).kind == "existing"


def test_missing_assets_are_reported(tmp_path: Path) -> None:
    with pytest.raises(
        PlaneError, match=r"KUBEBUILDER_ASSETS names .*etcd, which is not an executable file"
    ):
        read_settings({"KUBEBUILDER_ASSETS": str(tmp_path)})


def test_one_binary_alone_is_not_enough(assets: Path) -> None:
    with pytest.raises(PlaneError, match="set TEST_ASSET_KUBE_APISERVER, too"):
        read_settings({"TEST_ASSET_ETCD": str(assets / "etcd")})


@pytest.mark.parametrize(("content", "seconds"), [("90s", 90), ("1m30s", 90), ("500ms", 0.5)])
def test_durations_are_written_as_in_go(content: str, seconds: float) -> None:
    settings = read_settings({"KUBEBUILDER_CONTROLPLANE_START_TIMEOUT": content})

    assert settings.start_seconds == seconds


def test_an_invalid_duration_is_reported() -> None:
    with pytest.raises(PlaneError, match="is not a duration; write for example 90s"):
        read_settings({"KUBEBUILDER_CONTROLPLANE_START_TIMEOUT": "soon"})


def test_kube_controller_manager_need_not_be_there(assets: Path) -> None:
    env = {"KUBEBUILDER_ASSETS": str(assets)}
    assert read_settings(env).controller_manager is None

    manager = assets / "kube-controller-manager"
    manager.write_text("#!/bin/sh\n")
    with pytest.raises(
        PlaneError, match="kube-controller-manager, which is not an executable file"
    ):
        read_settings(env)
    manager.chmod(0o755)
    assert read_settings(env).controller_manager == manager


def test_a_kube_controller_manager_that_is_named_must_be_there(assets: Path) -> None:
    env = {"KUBEBUILDER_ASSETS": str(assets), "TEST_ASSET_KUBE_CONTROLLER_MANAGER": "/nowhere"}
    with pytest.raises(PlaneError, match="TEST_ASSET_KUBE_CONTROLLER_MANAGER names /nowhere"):
        read_settings(env)


def test_metallb_need_not_be_there_and_has_two_names(assets: Path) -> None:
    env = {"KUBEBUILDER_ASSETS": str(assets)}
    assert read_settings(env).metallb is None

    (assets / "controller").write_text("#!/bin/sh\n")
    (assets / "controller").chmod(0o755)
    assert read_settings(env).metallb == assets / "controller"

    (assets / "metallb-controller").write_text("#!/bin/sh\n")
    with pytest.raises(
        PlaneError, match="metallb-controller, which is not an executable file; correct or"
    ):
        read_settings(env)
    (assets / "metallb-controller").chmod(0o755)
    assert read_settings(env).metallb == assets / "metallb-controller"


def test_metallb_can_be_named_without_the_servers(assets: Path) -> None:
    settings = read_settings({"TEST_ASSET_METALLB_CONTROLLER": str(assets / "etcd")})
    assert (settings.kind, settings.metallb) == ("embedded", assets / "etcd")


def test_lb_ipam_need_not_be_there_and_can_be_named_without_the_servers(assets: Path) -> None:
    assert read_settings({"KUBEBUILDER_ASSETS": str(assets)}).lbipam is None
    settings = read_settings({"TEST_ASSET_CILIUM_LBIPAM": str(assets / "etcd")})
    assert (settings.kind, settings.lbipam) == ("embedded", assets / "etcd")


def test_a_folder_is_no_program(assets: Path) -> None:
    with pytest.raises(PlaneError, match="which is not an executable file"):
        read_settings({"TEST_ASSET_METALLB_CONTROLLER": str(assets)})
