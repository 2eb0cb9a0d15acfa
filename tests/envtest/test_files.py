"""Files of a user that are no valid YAML: each is refused by its name."""

from pathlib import Path

import pytest

from envtest import PlaneError
from envtest.plane import read_crds

INVALID = ["a: [", "a: !!bool x", "a: !!timestamp x", "a: 2020-13-45", r'a: "\UFFFFFFFF"']


@pytest.mark.parametrize("content", INVALID)
def test_a_file_of_crds_that_is_no_valid_yaml_is_refused_by_its_name(
    content: str, tmp_path: Path
) -> None:
    path = tmp_path / "crds.yaml"
    path.write_text(content)
    with pytest.raises(PlaneError, match=r"crds\.yaml cannot be read"):
        read_crds(path)


def test_a_file_of_crds_that_is_no_text_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "crds.yaml"
    path.write_bytes(b"\xff\xfe\xff")
    with pytest.raises(PlaneError, match=r"crds\.yaml cannot be read"):
        read_crds(path)
