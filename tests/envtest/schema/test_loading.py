"""What evaluates rules is loaded with the first rule, and not before."""

import subprocess
import sys

_CODE = """
import sys, anyio
from envtest import serve
from envtest.schema import CompiledSchema

def loaded():
    return "envtest.schema.cel.evaluator" in sys.modules

async def main():
    async with serve():
        CompiledSchema.compile({"type": "object"})
        print(loaded())
    rule = {"rule": "self.a == 1"}
    inner = {"type": "object", "properties": {"a": {"type": "integer"}}}
    CompiledSchema.compile(
        {"type": "object", "properties": {"spec": inner | {"x-kubernetes-validations": [rule]}}}
    )
    print(loaded())

anyio.run(main)
"""


def test_a_server_starts_without_what_evaluates_rules() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _CODE], capture_output=True, check=True, text=True
    )

    assert done.stdout.split() == ["False", "True"]
