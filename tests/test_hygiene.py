"""Tests of the tests: what one leaves behind or hides fails that one, and only that one."""

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).parent.parent
SUITE = """
import asyncio, gc, subprocess, sys, time
import aiohttp
import pytest
from controller.indexes import IndexFailure
from controller.loggers import get_logger

KEPT = []
log = get_logger("suite")

@pytest.fixture(scope="module")
def helper():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield child
    child.communicate(b"go")

@pytest.fixture(scope="module")
def forgotten():
    KEPT.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))

@pytest.fixture(scope="module")
def unclosed():
    ring = [open(__file__)]
    ring.append(ring)
    return ring

async def test_good():
    async with aiohttp.ClientSession():
        await asyncio.sleep(0)

async def test_busy():
    begun = time.thread_time()
    while time.thread_time() - begun < 2.2:
        pass

async def test_collecting_the_garbage_of_others_is_not_busy():
    begun = time.thread_time()
    while time.thread_time() - begun < 2.5:
        gc.collect()

async def test_waiting_is_not_busy():
    await asyncio.sleep(2.2)

async def test_asleep():
    time.sleep(0.001)

async def test_orphan():
    KEPT.append(asyncio.get_running_loop().create_task(asyncio.sleep(3600)))

async def test_unclosed_session():
    session = aiohttp.ClientSession()
    session.itself = session

def test_unclosed_file():
    file = open(__file__)
    ring = [file]
    ring.append(ring)

def test_never_awaited():
    ring = [asyncio.sleep(0)]
    ring.append(ring)

def test_child():
    KEPT.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))

def test_after_the_child():
    child = KEPT.pop()
    child.communicate(b"go")
    assert child.returncode == 0

def test_survived_bug():
    log.error("event handler raised", exc_info=TypeError("no keys"))

def test_survived_bug_that_is_handled():
    try:
        {}["key"]
    except KeyError:
        log.exception("listener raised")

@pytest.mark.survives_bugs
def test_bug_that_is_the_subject():
    log.error("event handler raised", exc_info=TypeError("no keys"))

def test_error_of_a_connection():
    log.error("request failed", exc_info=ConnectionResetError())

def test_index_failure():
    with pytest.raises(IndexFailure):
        raise IndexFailure("index 'color' raised KeyError()")

def test_first_with_a_helper(helper):
    assert helper.poll() is None

def test_second_with_a_helper(helper, forgotten, unclosed):
    assert helper.poll() is None

def test_last():
    pass
"""
SETTINGS = """[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings = error
markers = survives_bugs
"""
EXPECTED = {
    "test_busy": "the event loop was kept busy for 2.",
    "test_asleep": "time.sleep(0.001) on the event loop, at ",
    "test_orphan": "a task was left: <Task",
    "test_unclosed_session": "ResourceWarning: Unclosed client session",
    "test_unclosed_file": "ResourceWarning: unclosed file",
    "test_never_awaited": "RuntimeWarning: coroutine 'sleep' was never awaited",
    "test_child": "the child process ",
    "test_survived_bug": "event handler raised: TypeError('no keys')",
    "test_survived_bug_that_is_handled": "listener raised: KeyError('key')",
    "test_index_failure": "index 'color' raised KeyError()",
    "test_last": "the child process ",
}
OF_A_FIXTURE = "ResourceWarning: unclosed file"
"""What else is said of the last test: a fixture of the module has left it."""


def test_what_a_test_leaves_behind_or_hides_fails_that_test(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    report = tmp_path / "report.xml"
    command = [sys.executable, "-m", "pytest", "-p", "tests.hygiene", "-p", "no:cacheprovider"]
    run = subprocess.run(
        [*command, f"--junitxml={report}", "test_suite.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 1, run.stdout + run.stderr
    complaints: dict[str, str] = {}
    names = set()
    for case in ET.parse(report).iter("testcase"):
        names.add(case.attrib["name"])
        for fault in [*case.iter("failure"), *case.iter("error")]:
            complaints[case.attrib["name"]] = f"{fault.attrib['message']}\n{fault.text}"
    assert names == set(re.findall(r"def (test_\w+)", SUITE))
    assert complaints.keys() == EXPECTED.keys(), run.stdout
    for name, expected in EXPECTED.items():
        assert expected in complaints[name], name
    assert OF_A_FIXTURE in complaints["test_last"]
