"""A disk that takes no more: told in a sentence, before the first request as well as after."""

import subprocess
from pathlib import Path

from tests.program import script

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
        script(_SERVER, str(tmp_path)), capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith(f"{tmp_path / 'objects.sqlite'} takes no more (")
    assert done.stdout.endswith("); make room, or give another folder\n")


_WRITER = """
import resource, sys, anyio, httpx, ssl
from pathlib import Path
from envtest import serve

async def main():
    async with serve(data=Path(sys.argv[1])) as server:
        tls = ssl.create_default_context(cadata=server.authority.pair.certificate.decode())
        headers = {"Authorization": f"Bearer {server.get_or_create_token('admin')}"}
        async with httpx.AsyncClient(base_url=server.url, verify=tls, headers=headers) as http:
            path = "/api/v1/namespaces/default/configmaps"
            resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, resource.RLIM_INFINITY))
            answer = await http.post(path, json={"metadata": {"name": "a"}})
            print(answer.status_code, answer.json()["message"])
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
            print((await http.get(f"{path}/a")).status_code)
            print((await http.post(path, json={"metadata": {"name": "a"}})).status_code)

anyio.run(main)
"""


def test_a_write_that_finds_no_room_is_refused_as_by_etcd_and_may_be_tried_again(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        script(_WRITER, str(tmp_path)), capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == [
        "500 etcdserver: mvcc: database space exceeded",
        "404",
        "201",
    ]
    assert "POST /api/v1/namespaces/default/configmaps was not stored: " in done.stderr
    assert "Traceback" not in done.stderr
