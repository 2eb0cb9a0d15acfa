"""Authentication by token file and RBAC authorization."""

import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envtest import ControlPlane, TokenFileError, User, parse_token_file, serve
from envtest.access.rbac import AccessAttributes, Authorizer, build_attributes
from envtest.server.request import read_request
from envtest.storage import Store
from tests.envtest.conftest import create_admin_client

Rule = Mapping[str, Sequence[str]]

RBAC = "rbac.authorization.k8s.io"
MAPS = "/api/v1/namespaces/default/configmaps"


def test_a_token_file_is_read_as_the_real_server_reads_it() -> None:
    token_file = '# people\n\nt1,joe,7\nt2,ann,8,"a,b"\nt3,nobody,9,""\n'

    assert parse_token_file(token_file) == {
        "t1": User("joe", (), "7"),
        "t2": User("ann", ("a", "b"), "8"),
        "t3": User("nobody", ("",), "9"),
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("t1,joe\n", "tokens.csv, line 1: 2 columns; write token,user,uid"),
        (",joe,1\n", "line 1: the token is empty"),
        ("t,a,1\nt,b,2\n", "line 2: the token of b is listed twice"),
    ],
)
def test_a_bad_token_file_is_refused_by_its_line(content: str, message: str) -> None:
    with pytest.raises(TokenFileError, match=message):
        parse_token_file(content, "tokens.csv")


def allows(rules: Rule, attributes: AccessAttributes, *, namespace: str = "") -> bool:
    """Ask for one user with one role, bound everywhere or in a namespace."""
    store = Store()
    kind, place = ("Role", "rolebindings") if namespace else ("ClusterRole", "clusterrolebindings")
    prefix = f"{namespace}/" if namespace else ""
    meta = {"name": "r", **({"namespace": namespace} if namespace else {})}
    store.write(f"{RBAC}/{kind.lower()}s", f"{prefix}r", {"metadata": meta, "rules": [rules]})
    binding = {
        "metadata": dict(meta),
        "roleRef": {"kind": kind, "name": "r"},
        "subjects": [{"kind": "User", "name": "joe"}],
    }
    store.write(f"{RBAC}/{place}", f"{prefix}r", binding)
    return Authorizer(store).is_allowed(User("joe"), attributes)


def test_a_rule_allows_its_verbs_groups_and_resources_only() -> None:
    rule = {"verbs": ["get"], "apiGroups": ["lab"], "resources": ["gauges"]}

    assert allows(rule, AccessAttributes("get", "lab", "gauges"))
    assert not allows(rule, AccessAttributes("list", "lab", "gauges"))
    assert not allows(rule, AccessAttributes("get", "", "gauges"))
    assert not allows(
        rule, AccessAttributes("get", "lab", resource="gauges", subresource="status")
    )


def test_rules_match_wildcards_names_subresources_and_paths() -> None:
    anything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    status = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*/status"]}
    rule = {"verbs": ["*"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}
    paths = {"verbs": ["get"], "nonResourceURLs": ["/metrics", "/logs/*", "/all/**"]}

    assert allows(anything, AccessAttributes("x", "y", resource="z", subresource="status"))
    assert allows(status, AccessAttributes("x", "y", resource="z", subresource="status"))
    assert not allows(status, AccessAttributes("x", "y", "z"))
    assert allows(rule, AccessAttributes("get", "", "pods", name="a"))
    assert not allows(rule, AccessAttributes("get", "", "pods", name="b"))
    assert allows(paths, AccessAttributes("get", path="/logs/a"))
    assert allows(paths, AccessAttributes("get", path="/all/a"))
    assert not allows(paths, AccessAttributes("get", path="/metrics/a"))
    assert not allows(paths, AccessAttributes("get", path="/secrets"))


def test_a_role_holds_in_its_namespace_only() -> None:
    rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}

    assert allows(rule, AccessAttributes("get", "", "pods", namespace="a"), namespace="a")
    assert not allows(rule, AccessAttributes("get", "", "pods", namespace="b"), namespace="a")


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ({"fieldSelector": "metadata.name=a"}, "a"),
        ({"fieldSelector": "metadata.namespace=n,metadata.name==a", "watch": "1"}, "a"),
        ({"fieldSelector": "metadata.name!=a"}, ""),
        ({"fieldSelector": "metadata.name="}, ""),
        ({"fieldSelector": "spec.name=a"}, ""),
        ({}, ""),
    ],
)
def test_a_collection_narrowed_to_one_name_may_be_allowed_by_that_name(
    query: Mapping[str, str], name: str
) -> None:
    info = read_request("GET", MAPS, query)
    assert build_attributes(info).name == name
    only_a: Rule = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": ["a"],
        "verbs": ["list", "watch"],
    }
    assert allows(only_a, build_attributes(info)) is (name == "a")


def test_what_is_deleted_or_made_is_not_narrowed_to_a_name() -> None:
    query = {"fieldSelector": "metadata.name=a"}

    assert build_attributes(read_request("DELETE", MAPS, query)) == build_attributes(
        read_request("DELETE", MAPS, {})
    )
    assert build_attributes(read_request("POST", MAPS, query)).name == ""


async def test_a_binding_takes_effect_with_the_next_request() -> None:
    async with ControlPlane.start(force_embedded=True, tokens={"t": User("joe")}) as plane:
        joe = httpx.AsyncClient(
            base_url=plane.url,
            verify=plane.create_admin_tls(),
            headers={"Authorization": "Bearer t"},
        )
        async with create_admin_client(plane) as admin, joe:
            refused = await joe.get(MAPS)
            rules = [{"verbs": ["list"], "apiGroups": [""], "resources": ["configmaps"]}]
            await admin.post(
                f"/apis/{RBAC}/v1/clusterroles", json={"metadata": {"name": "r"}, "rules": rules}
            )
            await admin.post(
                f"/apis/{RBAC}/v1/clusterrolebindings",
                json={
                    "metadata": {"name": "r"},
                    "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "r"},
                    "subjects": [{"kind": "User", "apiGroup": RBAC, "name": "joe"}],
                },
            )
            allowed = await joe.get(MAPS)

    assert (refused.status_code, allowed.status_code) == (403, 200)


async def test_a_client_certificate_is_its_users_name_and_groups() -> None:
    async with serve() as server:
        context = ssl.create_default_context(cadata=server.authority.pair.certificate.decode())
        with TemporaryDirectory() as folder:
            pair = server.authority.issue_client_certificate("eve", ("system:masters",))
            context.load_cert_chain(*pair.write(Path(folder), "eve"))
        async with httpx.AsyncClient(base_url=server.url, verify=context) as client:
            path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
            shown_user = (await client.post(path, json={})).json()["status"]["userInfo"]

    assert shown_user["username"] == "eve"
    assert shown_user["groups"] == ["system:masters", "system:authenticated"]


NAMES = st.sampled_from(["a", "b", "system:serviceaccount:n:a"])
SUBJECTS = st.lists(
    st.fixed_dictionaries(
        {"kind": st.sampled_from(["User", "Group", "ServiceAccount"]), "name": NAMES},
        optional={"namespace": st.sampled_from(["n", "m"])},
    ),
    max_size=3,
)


def is_one_of(user: User, subject: Mapping[str, str], home: str) -> bool:
    """Return whether a subject is a user, as the documentation of RBAC has it."""
    if subject["kind"] == "Group":
        return subject["name"] in user.groups
    if subject["kind"] == "User":
        return subject["name"] == user.name
    namespace = subject.get("namespace", home)
    return bool(namespace) and user.name == f"system:serviceaccount:{namespace}:{subject['name']}"


@given(
    st.lists(st.tuples(st.sampled_from(["", "n"]), SUBJECTS), max_size=5),
    NAMES,
    st.lists(NAMES, max_size=2),
    st.sampled_from(["", "n", "m"]),
)
def test_every_user_has_the_rules_of_the_bindings_that_name_it(
    bindings: Sequence[tuple[str, Any]], name: str, groups: Sequence[str], namespace: str
) -> None:
    store, user = Store(), User(name, tuple(groups))
    expected = []
    for number, (home, subjects) in enumerate(bindings):
        role = f"r{number}"
        rules = [{"verbs": [role], "apiGroups": [""], "resources": ["x"]}]
        store.write(f"{RBAC}/clusterroles", role, {"metadata": {"name": role}, "rules": rules})
        meta = {"name": role, **({"namespace": home} if home else {})}
        body = {
            "metadata": meta,
            "roleRef": {"kind": "ClusterRole", "name": role},
            "subjects": subjects,
        }
        place, key = ("rolebindings", f"{home}/{role}") if home else ("clusterrolebindings", role)
        store.write(f"{RBAC}/{place}", key, body)
        if home in {"", namespace} and any(is_one_of(user, subject, home) for subject in subjects):
            expected.append((bool(home), role))

    verbs = [rule["verbs"][0] for rule in Authorizer(store).iterate_rules(user, namespace)]

    assert verbs == [role for _, role in sorted(expected)]
