"""LB-IPAM as a child process: found, started, watched; a shell script plays the program."""

import os
import signal
from pathlib import Path

import pytest

from envtest.lbipam import read_lbipam_definitions, run_cilium_lbipam
from envtest.settings import EnvironmentSettings, PlaneError, read_settings
from tests.polling import until


def _create_settings(folder: Path, script: str) -> EnvironmentSettings:
    """Return settings whose LB-IPAM is a shell script."""
    program = folder / "cilium-lbipam"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return read_settings({"TEST_ASSET_CILIUM_LBIPAM": str(program)})


async def test_lbipam_gets_a_kubeconfig_that_only_this_user_can_read(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    script = f'file=${{1#*=}}; stat -c %a "$file" > {seen}; cat "$file" >> {seen}; exit 3'
    async with run_cilium_lbipam("the kubeconfig", _create_settings(tmp_path, script)) as lbipam:
        with pytest.raises(PlaneError, match="cilium-lbipam ended with code 3"):
            await lbipam.raise_when_ended()
    assert seen.read_text() == "600\nthe kubeconfig"


async def test_a_killed_lbipam_is_reported_with_its_last_lines(tmp_path: Path) -> None:
    settings = _create_settings(tmp_path, "echo out of luck; exec sleep 600")
    async with run_cilium_lbipam("", settings) as lbipam:

        async def read() -> str:
            return lbipam.read_log()

        await until(read, lambda log: "luck" in log)
        os.kill(lbipam.pid, signal.SIGKILL)
        with pytest.raises(PlaneError, match="out of luck"):
            await lbipam.raise_when_ended()


async def test_the_definition_of_pools_is_the_one_that_lbipam_prints(tmp_path: Path) -> None:
    settings = _create_settings(tmp_path, '[ "$1" = --print-crd ] && echo "kind: Definition"')
    assert await read_lbipam_definitions(settings) == [{"kind": "Definition"}]


async def test_an_lbipam_that_prints_no_definition_is_reported(tmp_path: Path) -> None:
    settings = _create_settings(tmp_path, "echo no such flag >&2; exit 2")
    with pytest.raises(PlaneError, match="--print-crd ended with 2: no such flag"):
        await read_lbipam_definitions(settings)


async def test_without_a_program_the_error_says_how_to_name_one() -> None:
    with pytest.raises(PlaneError, match="TEST_ASSET_CILIUM_LBIPAM"):
        await read_lbipam_definitions(read_settings({}))
    with pytest.raises(PlaneError, match="KUBEBUILDER_ASSETS as cilium-lbipam"):
        async with run_cilium_lbipam("", read_settings({})):
            pass
