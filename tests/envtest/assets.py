"""A folder of programs that play etcd and the others, for tests of how these are started."""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Assets:
    """A folder of stand-ins."""

    folder: Path

    def add(self, name: str, **behaviour: object) -> Path:
        """Put a program there, or change how it behaves."""
        program = self.folder / name
        content = Path(__file__).with_name("stand_in.py").read_text(encoding="utf-8")
        program.write_text(f"#!{sys.executable} -S\n{content}", encoding="utf-8")
        program.chmod(0o755)
        (self.folder / f"{name}.json").write_text(json.dumps(behaviour))
        return program

    def read_notes(self, name: str) -> list[dict[str, Any]]:
        """Return the notes of a program."""
        path = self.folder / f"{name}.notes"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]

    def read_flags(self, name: str) -> dict[str, str]:
        """Return the flags of a program's last start."""
        flags: dict[str, str] = [note for note in self.read_notes(name) if "flags" in note][-1][
            "flags"
        ]
        return flags

    def list_process_ids(self, name: str) -> list[int]:
        """Return the process ids of a program."""
        return [note["pid"] for note in self.read_notes(name) if "pid" in note]

    def list_running(self) -> list[int]:
        """Return the process ids, of all processes ever started, that still run."""
        started = [
            pid for path in self.folder.glob("*.notes") for pid in self.list_process_ids(path.stem)
        ]
        return [pid for pid in started if Path(f"/proc/{pid}/cmdline").exists()]


def list_left_behind(assets: Assets) -> tuple[list[int], list[str]]:
    """Return the processes that still run, and the temporary files that were not removed."""
    files = os.listdir(assets.folder.parent / "tmp")
    # Notes of ports that were drawn stay for two minutes, for other processes that draw some.
    return assets.list_running(), [name for name in files if not name.startswith("envtest-ports-")]
