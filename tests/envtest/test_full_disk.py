"""A disk that takes no more: told in a sentence, before the first request as well as after."""

import subprocess
import sys
from pathlib import Path

# A limit on the size of files stands in for a full disk; what it takes is less than a new server.
_SERVER = """
import resource, sys, anyio
from pathlib import Path
from envtest import DiskError, serve

async def main():
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
    try:
        async with serve(data=Path(sys.argv[1])):
            print("started")
    except DiskError as error:
        print(error)

anyio.run(main)
"""


def test_a_server_that_cannot_keep_what_it_makes_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SERVER, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith(f"{tmp_path / 'objects.sqlite'} takes no more (")
    assert done.stdout.endswith("); make room, or give another folder\n")
