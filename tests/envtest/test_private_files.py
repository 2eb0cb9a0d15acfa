"""Who can read what a data folder keeps: Secrets and tokens are among it."""

from pathlib import Path

from envtest import serve


async def test_only_the_owner_can_read_what_is_kept(tmp_path: Path) -> None:
    async with serve(data=tmp_path / "kept") as server:
        server.get_or_create_token("joe")
        modes = {path.name: path.stat().st_mode & 0o077 for path in (tmp_path / "kept").iterdir()}
    assert "objects.sqlite-wal" in modes
    assert modes == dict.fromkeys(modes, 0)
