"""The picture of a pool as SVG."""

from xml.etree import ElementTree

from reconcilers.addressmap.looks import assign_looks
from reconcilers.addressmap.svg import HEAD, LABEL, NAMES_WIDTH, ROW, WIDTH, draw_svg
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.networkpool.picture import make_picture
from tests.reconcilers import make

SVG = "{http://www.w3.org/2000/svg}"


def make_holder(name: str, first: int, last: int, tenant: str = "team/shop") -> IPAllocation:
    """Return an allocation that holds the addresses `first` to `last` of a pool."""
    ends = (make.address(first), make.address(last))
    return make.allocation(name, tenant=tenant, phase="Allocated", held_range=ends)


def draw_pool(bits: int, *allocations: IPAllocation) -> ElementTree.Element:
    """Return the picture of a pool of 2^`bits` addresses with these allocations."""
    pool = make_picture(make.pool(cidr=make.cidr(bits)), list(allocations))
    numbers = assign_looks(str(allocation.spec.tenantClusterRef.key) for allocation in allocations)
    return ElementTree.fromstring(draw_svg(pool.title, pool.families[0], numbers))


def list_texts(root: ElementTree.Element) -> list[str]:
    """Return the texts of a picture, in the order of its elements."""
    return [node.text or "" for node in root.iter(f"{SVG}text")]


def test_a_small_pool_has_rows_of_sixteen_addresses() -> None:
    root = draw_pool(bits=6)
    starts = list_texts(root)[1:5]
    assert starts == [make.address(at) for at in (0, 16, 32, 48)]


def test_a_large_pool_has_thirty_two_rows() -> None:
    tops = {node.get("y") for node in draw_pool(bits=16).iter(f"{SVG}rect")} - {None}
    assert {str(HEAD + row * ROW) for row in range(32)} <= tops
    assert str(HEAD + 32 * ROW) not in tops


def test_each_tenant_has_a_pattern_and_its_name_in_its_range_or_beside_the_map() -> None:
    root = draw_pool(
        16,
        make_holder("wide", 0, last=1023, tenant="team/red"),
        make_holder("narrow", 2048, last=2049, tenant="team/blue"),
    )
    patterns = {node.get("id") for node in root.iter(f"{SVG}pattern")}
    fills = {(node.get("fill") or "")[5:-1] for node in root.iter(f"{SVG}rect")}
    assert len(patterns) == 2
    assert patterns <= fills
    places = {node.text: float(node.get("x") or 0) for node in root.iter(f"{SVG}text")}
    [red] = [x for label, x in places.items() if label and label.endswith("/red")]
    [blue] = [x for label, x in places.items() if label and label.endswith("/blue")]
    assert LABEL <= red < LABEL + WIDTH
    assert LABEL + WIDTH <= blue < LABEL + WIDTH + NAMES_WIDTH


def test_names_that_do_not_fit_beside_a_row_are_cut() -> None:
    allocations = [
        make_holder(f"a{at}", 4 * at, last=4 * at, tenant=f"team/tenant-{at}") for at in range(60)
    ]
    texts = list_texts(draw_pool(16, *allocations))
    assert len([label for label in texts if label.endswith("…")]) == 1
