"""Accept headers: which of their entries wins, and who can be had in which form."""

import pytest

from envtest.server.failures import StatusError
from envtest.server.forms import Form, negotiate, negotiate_groups, negotiate_plain

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
META = "v=v1;g=meta.k8s.io"
GROUPS = "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.mark.parametrize(
    ("accept", "builtin", "custom"),
    [
        ("", Form(JSON), Form(JSON)),
        ("*/*", Form(JSON), Form(JSON)),
        ("*", None, Form(JSON)),
        ("application/*", None, Form(JSON)),
        (JSON, Form(JSON), Form(JSON)),
        (YAML, Form(YAML), Form(YAML)),
        (PROTOBUF, Form(PROTOBUF), None),
        ("application/xml", None, None),
        ("application/xml, */*", Form(JSON), Form(JSON)),
        # As clients of built-in kinds ask for protobuf.
        (f"{PROTOBUF},{JSON}", Form(PROTOBUF), Form(JSON)),
        (f"{PROTOBUF}, */*", Form(PROTOBUF), Form(JSON)),
        (f"{JSON},{PROTOBUF}", Form(JSON), Form(JSON)),
        # A quality counts between types, but not between a type and a wildcard.
        (f"{JSON};q=0.5,{PROTOBUF};q=0.9", Form(PROTOBUF), Form(JSON)),
        (f"*/*,{YAML};q=0.1", Form(YAML), Form(YAML)),
        (f"{JSON};q=none,{YAML};q=0.1", Form(YAML), Form(YAML)),
        # Parameters that nobody knows do not matter; those of a stream do.
        (f"{JSON};charset=utf-8", Form(JSON), Form(JSON)),
        (f"{PROTOBUF};stream=watch,{JSON}", Form(PROTOBUF), Form(JSON)),
        (f"{PROTOBUF};stream=other,{JSON}", Form(JSON), Form(JSON)),
        (f"{YAML};stream=watch,{JSON}", Form(JSON), Form(JSON)),
        (f"{YAML};sv=v2,{JSON};sv=v1", Form(JSON), Form(JSON)),
        # Tables are for people: there are none in protobuf.
        (f"{JSON};as=Table;{META}", Form(JSON, "table"), Form(JSON, "table")),
        (
            f"{PROTOBUF};as=Table;{META},{JSON};as=Table;{META}",
            Form(JSON, "table"),
            Form(JSON, "table"),
        ),
        (f"{PROTOBUF};as=Table;{META}", None, None),
        (f"{JSON};as=Table;v=v2;g=meta.k8s.io,{YAML}", Form(YAML), Form(YAML)),
        # Metadata is the server's own kind, so custom resources have it in protobuf.
        (
            f"{PROTOBUF};as=PartialObjectMetadataList;{META},{JSON}",
            Form(PROTOBUF, "partial", many=True),
            Form(PROTOBUF, "partial", many=True),
        ),
        (
            f"{YAML};as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io",
            Form(YAML, "partial", "v1beta1"),
            Form(YAML, "partial", "v1beta1"),
        ),
        # Half of a transformation is none, and not the object either.
        (f"{JSON};v=v1,{YAML}", Form(YAML), Form(YAML)),
        (f"{JSON};as=Scale;v=v1;g=autoscaling", None, None),
    ],
)
def test_the_first_entry_that_is_served_wins(
    accept: str, builtin: Form | None, custom: Form | None
) -> None:
    assert form_of(accept, custom=False) == builtin
    assert form_of(accept, custom=True) == custom


def form_of(accept: str, *, custom: bool) -> Form | None:
    """Return what wins; nothing if the header is refused."""
    try:
        return negotiate(accept, custom=custom)
    except StatusError as error:
        return None if error.code == 406 else Form("another refusal")


def test_a_refusal_lists_what_there_is() -> None:
    with pytest.raises(StatusError) as custom:
        negotiate(PROTOBUF, custom=True)
    with pytest.raises(StatusError) as builtin:
        negotiate("application/xml")
    with pytest.raises(StatusError) as listed:
        negotiate("application/xml", verb="list")

    spoken = f"{JSON}, {YAML}, {PROTOBUF}"
    assert custom.value.message == f"only the following media types are accepted: {spoken}"
    routed = f"406: Not Acceptable\n\nAvailable representations: {spoken}"
    assert builtin.value.message == routed
    assert listed.value.message == f"{routed}, {JSON};stream=watch, {PROTOBUF};stream=watch"


@pytest.mark.parametrize("custom", [False, True])
def test_there_is_no_watch_in_yaml(*, custom: bool) -> None:
    with pytest.raises(StatusError) as refused:
        negotiate(f"{YAML},{JSON}", custom=custom, verb="watch")

    assert refused.value.message == (
        "only the following media types are accepted: "
        f"{JSON};stream=watch, {PROTOBUF};stream=watch"
    )


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        ("", JSON),
        (PROTOBUF, PROTOBUF),
        (f"{PROTOBUF};as=Table;{META},{YAML}", YAML),
        (f"{JSON};as=Table;{META}", None),
        ("text/html", None),
    ],
)
def test_refusals_are_what_they_are(accept: str, media: str | None) -> None:
    assert negotiate_plain(accept) == media


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        ("", None),
        (JSON, None),
        (f"{JSON};{GROUPS}", JSON),
        (f"{PROTOBUF};{GROUPS},{JSON}", PROTOBUF),
        # Where the plain form stands does not matter.
        (f"{JSON},{YAML};{GROUPS}", YAML),
        (f"*/*;{GROUPS}", JSON),
        # A version that was served until 1.32.
        (f"{JSON};{GROUPS.replace('v2', 'v2beta1')},{JSON}", None),
    ],
)
def test_all_groups_come_at_once_if_any_entry_asks_for_them(
    accept: str, media: str | None
) -> None:
    assert negotiate_groups(accept) == media
