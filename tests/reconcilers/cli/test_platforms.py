"""Commands on saved pools of KKP and networks of vitistack."""

from pathlib import Path
from typing import Any

import yaml

from allocator import AddressRange
from controller.meta import Key, MetadataOnly, ObjectMeta
from reconcilers.integrations.kubermatic import api as kkps
from reconcilers.integrations.vitistack import api as networks
from reconcilers.promises.journal import AnnotatedJournal, Promise, PromisedRange
from tests.reconcilers.cli.commandline import Outcome, run

CREATED = "2026-01-01T00:00:00Z"
RANGE = {"type": "range", "poolCidr": "10.1.0.0/28", "allocationRange": 4}
PREFIX = {"type": "prefix", "poolCidr": "10.2.0.0/28", "allocationPrefix": 30}
Body = dict[str, Any]


def make_kkp_object(kind: str, name: str, spec: Body, namespace: str = "", **more: Any) -> Body:
    """Return an object of KKP; without a namespace it is of the whole cluster."""
    meta = {"name": name, "creationTimestamp": CREATED}
    meta |= {"namespace": namespace} if namespace else {}
    version = "kubermatic.k8c.io/v1"
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec, **more}


def make_ipam_pool(name: str, **datacenters: Body) -> Body:
    """Return an IPAMPool with the settings of each datacenter."""
    return make_kkp_object("IPAMPool", name, {"datacenters": datacenters})


def make_kkp_cluster(name: str, datacenter: str) -> Body:
    """Return a Cluster of KKP in a datacenter."""
    spec = {"cloud": {"dc": datacenter}}
    return make_kkp_object("Cluster", name, spec, status={"namespaceName": f"cluster-{name}"})


def make_ipam_allocation(pool: str, cluster: str, datacenter: str, **spec: Any) -> Body:
    """Return the IPAMAllocation of an IPAMPool for a Cluster of KKP.

    Args:
        spec: `cidr` or `addresses`, the range that it holds; without both it holds none.
    """
    kind = "prefix" if "cidr" in spec else "range"
    spec_fields = {"type": kind, "dc": datacenter, **spec}
    return make_kkp_object(
        "IPAMAllocation", pool, spec=spec_fields, namespace=f"cluster-{cluster}"
    )


def make_vitistack_object(kind: str, name: str, spec: Body, **more: Any) -> Body:
    """Return an object of vitistack in namespace dc."""
    version = "v1alpha1" if kind == "NetworkConfiguration" else "v1alpha2"
    meta = {"name": name, "namespace": "dc", "creationTimestamp": CREATED}
    head = {"apiVersion": f"vitistack.io/{version}", "kind": kind, "metadata": meta}
    return {**head, "spec": spec, **more}


def make_network(name: str = "net", start: str = "10.3.0.10", end: str = "10.3.0.12") -> Body:
    """Return a NetworkNamespace that hands out the addresses from `start` to `end`."""
    static = {"ipv4CIDR": "10.3.0.0/24", "ipv4Gateway": "10.3.0.1"}
    static |= {"ipv4RangeStart": start, "ipv4RangeEnd": end}
    status = {"provisioningPhase": "Ready"}
    spec = {"ipAllocation": {"type": "static", "static": static}}
    return make_vitistack_object("NetworkNamespace", name, spec, status=status)


def make_vitistack_request(
    name: str, address: str = "", *, requested: str = "", network: str = "net"
) -> Body:
    """Return an IPAllocation of vitistack.

    Args:
        address: the address that it holds; empty if it waits.
        requested: its spec.requestedAddress; empty to leave it out.
        network: the name of its NetworkNamespace.
    """
    spec = {"networkNamespaceName": network, "networkConfigurationName": "vm"}
    spec |= {"requestedAddress": requested} if requested else {}
    status = {"phase": "Allocated", "address": address} if address else {}
    return make_vitistack_object("IPAllocation", name, spec, status=status)


VM = make_vitistack_object("NetworkConfiguration", "vm", {"networkInterfaces": []})


def run_on_saved(tmp_path: Path, command: str, *objects: Body) -> Outcome:
    """Save objects in a file, and run a command, given as one string, with `-f` on it."""
    file = tmp_path / "saved.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    name, *rest = command.split()
    return run(name, *rest, "-f", file)


def list_pools(tmp_path: Path, command: str, *objects: Body) -> list[Body]:
    """Return the pools in the JSON of a command, each merged with its only family."""
    outcome = run_on_saved(tmp_path, f"{command} -o json", *objects)
    merged = []
    for pool in yaml.safe_load(outcome.out)["items"]:
        [family] = pool.pop("families")
        merged.append(pool | family)
    return merged


def list_extents(pool: Body) -> list[tuple[str, str, str, list[str]]]:
    """Return start, end, state and holders of the extents that are handed out or stray."""
    return [
        (
            extent["start"],
            extent["end"],
            extent["state"],
            [
                f"{holder['kind']} {holder['namespace']}/{holder['name']}"
                for holder in extent["holders"]
            ],
        )
        for extent in pool["extents"]
        if extent["state"] not in {"outside", "reserved"}
    ]


def list_findings(tmp_path: Path, *objects: Body) -> set[tuple[str, str]]:
    """Run `check`; return kind and object name of each finding."""
    output = yaml.safe_load(run_on_saved(tmp_path, "check -o json", *objects).out)["findings"]
    return {(finding["kind"], finding["subject"]["name"]) for finding in output}


def test_each_datacenter_of_a_pool_is_listed_with_its_figures(tmp_path: Path) -> None:
    objects = [
        make_ipam_pool("metallb", east=RANGE, west=PREFIX),
        make_kkp_cluster("a", "east"),
        make_kkp_cluster("b", "east"),
        make_ipam_allocation("metallb", "a", "east", addresses=["10.1.0.0-10.1.0.3"]),
        make_ipam_allocation("metallb", "c", "east", addresses=["10.9.0.1-10.9.0.1"]),
        make_ipam_allocation("metallb", "d", "west", cidr="10.2.0.4/30"),
    ]
    east, west = list_pools(tmp_path, "pools", *objects)
    assert east == {
        "kind": "IPAMPool",
        "namespace": "",
        "name": "metallb",
        "part": "east",
        "ready": "True",
        "reason": "",
        "waiting": 1,
        "family": "IPv4",
        "offers": "10.1.0.0/28, 4 addresses each",
        "cidr": "10.1.0.0/28",
        "prefixLength": None,
        "fault": "",
        "total": 16,
        "allocated": 4,
        "available": 12,
        "largestFreeBlock": 12,
        "fragmentationPercent": 0,
        "utilizationPercent": 25,
        "outOfRange": 1,
        "holders": 2,
        "tenants": 2,
    }
    assert (west["part"], west["total"], west["allocated"], west["prefixLength"]) == (
        *("west", 4, 1, 30),
    )
    assert "metallb (east)" in run_on_saved(tmp_path, "pools", *objects).out


def test_the_map_shows_holders_of_an_ipampool_that_overlap_or_lie_outside(tmp_path: Path) -> None:
    [east] = list_pools(
        tmp_path,
        "map metallb",
        make_ipam_pool("metallb", east={**RANGE, "poolCidr": "10.1.0.0/29"}),
        make_ipam_allocation("metallb", "a", "east", addresses=["10.1.0.0-10.1.0.2"]),
        make_ipam_allocation(
            "metallb", "b", "east", addresses=["10.1.0.2-10.1.0.3", "10.1.0.8-10.1.0.8"]
        ),
    )
    a, b = "IPAMAllocation cluster-a/metallb", "IPAMAllocation cluster-b/metallb"
    assert list_extents(east) == [
        ("10.1.0.0", "10.1.0.1", "allocated", [a]),
        ("10.1.0.2", "10.1.0.2", "overlap", [a, b]),
        ("10.1.0.3", "10.1.0.3", "allocated", [b]),
        ("10.1.0.4", "10.1.0.7", "free", []),
        ("10.1.0.8", "10.1.0.8", "stray", [b]),
    ]


def test_the_map_draws_pools_of_kkp_and_vitistack(tmp_path: Path) -> None:
    drawn = run_on_saved(
        tmp_path,
        "map",
        make_ipam_pool(
            "metallb", east={**RANGE, "poolCidr": "10.1.0.0/29"}, north={**RANGE, "type": "x"}
        ),
        make_ipam_allocation("metallb", "a", "east", addresses=["10.1.0.0-10.1.0.2"]),
        make_network(),
        make_vitistack_request("web", "10.3.0.11"),
    ).out.splitlines()
    east = drawn.index("IPAMPool metallb in east  10.1.0.0/29")
    assert drawn[east + 1] == "10.1.0.0  ###....."
    north = drawn.index("IPAMPool metallb in north  10.1.0.0/28, 4 addresses each")
    assert drawn[north + 1] == '  cannot be drawn: unknown allocation type "x"'
    net = drawn.index("NetworkNamespace dc/net  10.3.0.0/24")
    assert drawn[net + 1] == "10.3.0.0     x        .#."


def test_whois_names_the_holders_of_addresses_of_kkp_and_vitistack(tmp_path: Path) -> None:
    objects = [
        make_ipam_pool("metallb", east=RANGE),
        make_ipam_allocation("metallb", "a", "east", addresses=["10.1.0.0-10.1.0.3"]),
        make_network(),
        make_vitistack_request("web", "10.3.0.11"),
    ]
    outcome = run_on_saved(tmp_path, "whois 10.1.0.2 10.3.0.11", *objects)
    assert outcome.code == 0
    assert "IPAMPool metallb in east" in outcome.out
    assert "IPAMAllocation cluster-a/metallb" in outcome.out
    assert "ipallocations.vitistack.io dc/web" in outcome.out


def test_check_reports_each_kind_of_problem_of_kkp(tmp_path: Path) -> None:
    findings_by_name = list_findings(
        tmp_path,
        make_ipam_pool("twice", east=RANGE),
        make_ipam_pool("metallb", east=RANGE, west={**PREFIX, "allocationPrefix": 8}),
        make_kkp_cluster("a", "east"),
        make_kkp_cluster("b", "east"),
        make_ipam_allocation("metallb", "a", "east", addresses=["10.1.0.0-10.1.0.3"]),
        make_ipam_allocation("metallb", "b", "east", addresses=["10.1.0.3-10.1.0.6"]),
        make_ipam_allocation("lost", "b", "east", addresses=["nonsense"]),
        make_ipam_allocation("twice", "a", "east"),
        make_ipam_allocation("twice", "gone", "north", addresses=["10.1.0.9-10.1.0.9"]),
    )
    assert findings_by_name == {
        ("InvalidPool", "metallb"),
        ("Overlap", "metallb"),
        ("PoolsOverlap", "metallb"),
        ("PoolsOverlap", "twice"),
        ("UnknownPool", "lost"),
        ("NoAddresses", "twice"),
        ("UnknownPool", "twice"),
        ("Unclaimed", "twice"),
    }


def test_check_names_every_pair_of_pools_that_overlap(tmp_path: Path) -> None:
    # Pool b shares addresses with a and c; a and c share none.
    pools = {"a": "10.1.0.0/25", "b": "10.1.0.0/24", "c": "10.1.0.128/25"}
    saved = [make_ipam_pool(name, dc={**RANGE, "poolCidr": cidr}) for name, cidr in pools.items()]
    findings = yaml.safe_load(run_on_saved(tmp_path, "check -o json", *saved).out)["findings"]
    hands_out = "datacenter dc: addresses are also handed out by"
    ends = "well for separate sites, a slip otherwise"

    def describe_sharing(*names: str) -> str:
        pools = (f"IPAMPool {name} in datacenter dc (128 addresses)" for name in names)
        return f"{hands_out} {', '.join(pools)}: {ends}"

    assert [(finding["subject"]["name"], finding["sentence"]) for finding in findings] == [
        ("a", describe_sharing("b")),
        ("b", describe_sharing("a", "c")),
        ("c", describe_sharing("b")),
    ]


def test_check_has_no_findings_in_sound_objects_of_kkp_and_vitistack(tmp_path: Path) -> None:
    outcome = run_on_saved(
        tmp_path,
        "check",
        make_ipam_pool("metallb", east=RANGE),
        make_kkp_cluster("a", "east"),
        make_ipam_allocation("metallb", "a", "east", addresses=["10.1.0.0-10.1.0.3"]),
        make_network(),
        make_vitistack_request("web", "10.3.0.11"),
        VM,
    )
    assert outcome.code == 0, outcome.out


def test_plan_completes_and_creates_ipamallocations_of_clusters(tmp_path: Path) -> None:
    objects = [
        make_ipam_pool("metallb", east={**RANGE, "poolCidr": "10.1.0.0/29"}),
        make_kkp_cluster("a", "east"),
        make_kkp_cluster("b", "east"),
        make_kkp_cluster("c", "east"),
        make_ipam_allocation("metallb", "a", "east", addresses=["10.1.0.0-10.1.0.1"]),
    ]
    table = run_on_saved(tmp_path, "plan", *objects).out
    assert "10.1.0.2-10.1.0.3" in table
    assert "10.1.0.4-10.1.0.7" in table
    assert 'there is no enough free IPs available for IPAM pool "metallb"' in table
    listed = yaml.safe_load(run_on_saved(tmp_path, "plan -o json", *objects).out)["items"]
    addresses = {
        item["metadata"]["namespace"]: item["spec"]["addresses"]
        for item in listed
        if item["kind"] == "IPAMAllocation"
    }
    assert addresses == {
        "cluster-a": ["10.1.0.0-10.1.0.1", "10.1.0.2-10.1.0.3"],
        "cluster-b": ["10.1.0.4-10.1.0.7"],
    }


def test_a_network_is_listed_and_mapped_with_its_holders(tmp_path: Path) -> None:
    objects = [
        make_network(),
        make_vitistack_request("a", "10.3.0.11"),
        make_vitistack_request("b"),
        make_vitistack_request("out", "10.3.0.99"),
    ]
    [pool] = list_pools(tmp_path, "map net", *objects)
    assert (pool["offers"], pool["total"], pool["allocated"]) == ("10.3.0.10-10.3.0.12", 3, 1)
    assert (pool["available"], pool["outOfRange"], pool["waiting"]) == (2, 1, 1)
    assert [(start, state) for start, _, state, _ in list_extents(pool)] == [
        ("10.3.0.10", "free"),
        ("10.3.0.11", "allocated"),
        ("10.3.0.12", "free"),
        ("10.3.0.99", "stray"),
    ]


def test_check_reports_each_kind_of_problem_of_vitistack(tmp_path: Path) -> None:
    broken = make_network("broken", "10.3.0.9", "10.3.0.2")
    late = make_vitistack_request("late", "10.3.0.12")
    late["status"]["expiresAt"] = CREATED
    orphan = make_vitistack_request("orphan", "10.3.0.21", network="other")
    orphan["spec"]["networkConfigurationName"] = "gone"
    findings_by_name = list_findings(
        tmp_path,
        *(make_network(), make_network("other", "10.3.0.12", "10.3.0.30"), broken, VM),
        *(
            make_vitistack_request("a", "10.3.0.11"),
            make_vitistack_request("b", "10.3.0.11"),
            late,
            orphan,
        ),
        make_vitistack_request("out", "10.3.0.99"),
        make_vitistack_request("lost", network="nowhere"),
    )
    assert findings_by_name == {
        ("InvalidPool", "broken"),
        ("PoolsOverlap", "net"),
        ("PoolsOverlap", "other"),
        ("Overlap", "b"),
        ("OutOfRange", "out"),
        ("UnknownPool", "lost"),
        ("Unclaimed", "orphan"),
        ("Expired", "late"),
    }


def make_machine(name: str, *interfaces: str, address: str = "", **spec: str) -> Body:
    """Return the NetworkConfiguration of a machine in network `net`.

    Args:
        interfaces: the names of its interfaces.
        address: the address that its status shows for the first interface; empty for none.
        spec: further fields of its spec.
    """
    listed = [{"name": interface} for interface in interfaces]
    status = {"networkInterfaces": [{"name": interfaces[0], "ipv4Addresses": [address]}]}
    spec_fields = {
        "name": name,
        "networkInterfaces": listed,
        "networkNamespaceName": "net",
        **spec,
    }
    more = {"status": status} if address else {}
    return make_vitistack_object("NetworkConfiguration", name, spec_fields, **more)


def test_plan_creates_an_ipallocation_for_each_interface_of_a_machine(tmp_path: Path) -> None:
    network, request = make_network(), make_vitistack_request("had", "10.3.0.10")
    network["spec"]["ipAllocation"]["provider"] = "butler-ipam"
    request["spec"] |= {"networkConfigurationName": "had", "interfaceName": "eth0"}
    objects = [
        network,
        request,
        make_machine("had", "eth0", provider="other"),
        make_machine("lost", "eth0", networkNamespaceName="nowhere"),
        make_machine("vm", "eth0", "eth1"),
        make_machine("was", "eth0", address="10.3.0.11"),
    ]

    listed = yaml.safe_load(run_on_saved(tmp_path, "plan -o json", *objects).out)["items"]
    created = {
        item["metadata"]["name"]: (item["status"]["phase"], item["status"].get("address"))
        for item in listed
        if item["kind"] == "IPAllocation"
    }
    assert created == {
        "had": ("Allocated", "10.3.0.10"),
        "vm-eth0": ("Allocated", "10.3.0.12"),
        "vm-eth1": ("Error", None),
        "was-eth0": ("Allocated", "10.3.0.11"),
    }
    table = run_on_saved(tmp_path, "plan", *objects).out
    assert 'NetworkNamespace "nowhere" not found' in table
    assert "no available IP addresses in pool" in table


def test_plan_allocates_addresses_to_the_requests_of_a_network(tmp_path: Path) -> None:
    objects = [
        make_network(),
        make_vitistack_request("a", "10.3.0.10"),
        make_vitistack_request("b", requested="10.3.0.10"),
        make_vitistack_request("c"),
        make_vitistack_request("d", requested="10.3.0.12"),
        make_vitistack_request("e"),
        make_vitistack_request("lost", network="nowhere"),
    ]
    listed = yaml.safe_load(run_on_saved(tmp_path, "plan -o json", *objects).out)["items"]
    status_fields = {
        item["metadata"]["name"]: (item["status"]["phase"], item["status"].get("address"))
        for item in listed
        if item["kind"] == "IPAllocation"
    }
    assert status_fields == {
        "a": ("Allocated", "10.3.0.10"),
        "b": ("Error", None),
        "c": ("Allocated", "10.3.0.11"),
        "d": ("Allocated", "10.3.0.12"),
        "e": ("Error", None),
        "lost": ("Error", None),
    }
    assert "is already allocated to IPAllocation a" in run_on_saved(tmp_path, "plan", *objects).out


def make_stored(body: Body, version: str = "5") -> Body:
    """Return an object as an API server stores it: with uid and resourceVersion."""
    meta = body["metadata"]
    uid = f"uid-{body['kind']}-{meta.get('namespace', '')}-{meta['name']}"
    return {**body, "metadata": {**meta, "uid": uid, "resourceVersion": version}}


def add_promise(
    pool: Body, journals: AnnotatedJournal, request: Body, first: str, last: str
) -> Body:
    """Return a pool whose journal promises a range to a request at its current version.

    Args:
        pool: the pool; the range is in its datacenter `east` if it has datacenters.
        journals: how pools of this kind store their journal.
        request: the stored request.
        first: the first address.
        last: the last address.
    """
    pool, meta = make_stored(pool), request["metadata"]
    space = "east" if journals.has_spaces else ""
    promised = (PromisedRange(AddressRange.parse(first, last), space),)
    key = Key(meta["namespace"], meta["name"])
    promise = Promise(
        journals.kind,
        key,
        uid=meta["uid"],
        resourceVersion=meta["resourceVersion"],
        ranges=promised,
    )
    metadata = ObjectMeta(name=pool["metadata"]["name"], uid=pool["metadata"]["uid"])
    annotations = journals.patch(MetadataOnly(metadata), journals.with_revision(1, [promise]))[
        "metadata"
    ]
    return {**pool, "metadata": {**pool["metadata"], **annotations}}


def test_plan_gives_a_promised_address_of_a_network_to_its_request(tmp_path: Path) -> None:
    young = make_stored(make_vitistack_request("b"))
    pool = add_promise(
        make_network(), networks.JOURNALS, request=young, first="10.3.0.10", last="10.3.0.10"
    )
    objects = [pool, make_stored(make_vitistack_request("a")), young, VM]
    listed = yaml.safe_load(run_on_saved(tmp_path, "plan -o json", *objects).out)["items"]
    address = {
        item["metadata"]["name"]: item["status"]["address"]
        for item in listed
        if item["kind"] == "IPAllocation"
    }
    assert address == {"a": "10.3.0.11", "b": "10.3.0.10"}


def test_plan_gives_a_promised_range_of_an_ipampool_to_its_cluster(tmp_path: Path) -> None:
    empty = make_stored(make_ipam_allocation("metallb", "b", "east"))
    pool = add_promise(
        make_ipam_pool("metallb", east=RANGE),
        kkps.JOURNALS,
        request=empty,
        first="10.1.0.0",
        last="10.1.0.3",
    )
    objects = [pool, empty, make_kkp_cluster("a", "east"), make_kkp_cluster("b", "east")]
    listed = yaml.safe_load(run_on_saved(tmp_path, "plan -o json", *objects).out)["items"]
    addresses = {
        item["metadata"]["namespace"]: item["spec"]["addresses"]
        for item in listed
        if item["kind"] == "IPAMAllocation"
    }
    assert addresses == {"cluster-a": ["10.1.0.4-10.1.0.7"], "cluster-b": ["10.1.0.0-10.1.0.3"]}


def test_svg_of_a_pool_with_two_datacenters_needs_the_flag_datacenter(tmp_path: Path) -> None:
    pool = make_ipam_pool("metallb", east=RANGE, west={**RANGE, "poolCidr": "10.4.0.0/28"})
    refused = run_on_saved(tmp_path, "map metallb --svg -", pool)
    assert "IPAMPool/metallb in east of 10.1.0.0/28" in refused.errors[0]
    assert "--datacenter" in refused.errors[0]
    drawn = run_on_saved(tmp_path, "map metallb --datacenter west --svg -", pool)
    assert drawn.code == 0, drawn.err
    assert "10.4.0.0/28" in drawn.out
    missing = run_on_saved(tmp_path, "map --datacenter north", pool)
    assert missing.errors == ["none of these pools has a datacenter north"]


def test_an_address_of_a_family_that_a_network_lacks_is_shown_as_stray(tmp_path: Path) -> None:
    [pool] = list_pools(tmp_path, "map", make_network(), make_vitistack_request("web", "fd00::5"))
    assert ("fd00::5", "fd00::5", "stray", ["ipallocations.vitistack.io dc/web"]) in list_extents(
        pool
    )
    assert ("OutOfRange", "web") in list_findings(
        tmp_path, make_network(), make_vitistack_request("web", "fd00::5"), VM
    )
