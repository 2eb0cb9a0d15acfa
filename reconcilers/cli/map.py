"""`butler-ipam map`: a picture of a pool's address space."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import click

from reconcilers.addressmap.objects import Objects
from reconcilers.addressmap.page import build_page
from reconcilers.addressmap.pagedata import build_page_state, build_pool_documents
from reconcilers.addressmap.svg import draw_svg as picture_as_svg
from reconcilers.addressmap.tenants import assign_look_numbers
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.cli import names as completed
from reconcilers.cli.cluster import drawing
from reconcilers.cli.cluster.follow import follow
from reconcilers.cli.cluster.objects import (
    build_scope,
    read_all,
    report_unreadable,
)
from reconcilers.cli.cluster.poolnames import (
    draw_selected_pools,
    find_common_namespace,
    format_full_name,
)
from reconcilers.cli.flags import option
from reconcilers.cli.forms import Form
from reconcilers.cli.output import build_report, join_tables, show
from reconcilers.cli.problems import CommandProblem, print_problem
from reconcilers.cli.progress import count_progress, show_progress_during
from reconcilers.cli.sharedflags import output_option, scope_options, watch_option
from reconcilers.pictures.documents import build_map_document
from reconcilers.pictures.poolpicture import PoolFamily, PoolPicture

NO_POOL = "there is no pool to draw"


@click.command(name="map")
@click.argument("names", metavar="[POOL]...", nargs=-1, shell_complete=completed.complete_pools)
@scope_options
@output_option(
    "Print in this format: wide draws twice as many addresses in a row, json and yaml are for"
    " programs, name prints KIND/NAME for pipes."
)
@watch_option()
@option(
    "--family",
    type=click.Choice(["4", "6"]),
    help="Draw only the IPv4 addresses (4), or only the IPv6 addresses (6), of pools that have"
    " both; both if absent.",
)
@option(
    "--datacenter",
    default="",
    metavar="NAME",
    help="Draw only the ranges of this datacenter of KKP's IPAMPools; of all datacenters if"
    " absent.",
)
@option(
    "--svg",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="Write the picture of one pool and one family as SVG to this file; - is standard output.",
)
@option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="Write one self-contained page with all pools to this file; - is standard output.",
)
def draw(
    names: tuple[str, ...],
    output: Form,
    watch: bool,
    family: str | None,
    svg: Path | None,
    html: Path | None,
    **values: Any,
) -> None:
    """Show a picture of the pools' address space: who holds what, and the gaps.

    POOL is NAME or NAMESPACE/NAME, and may have KIND/ before it: NetworkPool/lab. A name that
    several pools have is rejected with their full names. Without a name, all pools are shown. The
    list under each picture has every range of the pool in order, free ones included.
    """
    if svg and html:
        raise click.UsageError("--svg and --html cannot be combined: choose one of them")

    where = build_scope(values)
    # If all names are of one namespace, only that namespace is read: a user who may read one
    # namespace alone needs no -n beside NAMESPACE/NAME.
    read_from = replace(where, namespace=where.namespace or find_common_namespace(names))

    def as_text(all_objects: Objects) -> str:
        """Return the pictures of the selected pools, one below the other."""
        with show_progress_during("drawing"):
            pools = _select_pools(
                all_objects.select_namespace(where.namespace), names, values["datacenter"]
            )
            texts = (
                drawing.draw_family(pool, block, output)
                for pool in count_progress(pools)
                for block in _select_families(pool, family)
            )
            return join_tables(*texts) or f"no addresses of IPv{family} were found\n"

    if watch:
        if svg or html:
            raise click.UsageError(
                "--watch draws in the terminal: remove --svg and --html, or use `butler-ipam ui`"
            )
        follow(read_from, output, as_text)
        return
    all_objects = read_all(read_from)
    report_unreadable(all_objects, NETWORK_POOL, where.namespace)
    objects = all_objects.select_namespace(where.namespace)
    with show_progress_during("drawing"):
        pools = _select_pools(objects, names, values["datacenter"])
        if family:
            # A pool without addresses of the family is left out.
            blocks = [(pool, _select_families(pool, family)) for pool in pools]
            pools = [replace(pool, families=selected) for pool, selected in blocks if selected]
        picture = _draw_svg(objects, pools) if svg else ""
        if html:
            documents = chain.from_iterable(map(build_pool_documents, count_progress(pools)))
            picture = build_page(build_page_state(objects, datetime.now(UTC), documents))
    if picture_path := svg or html:
        _write_picture(picture_path, picture)
    else:
        show(
            output,
            lambda: build_report("PoolMapList", items=map(build_map_document, pools)),
            object_names=((pool.full_kind, pool.name.key.name) for pool in pools),
            as_text=partial(as_text, objects),
        )


def _select_pools(objects: Objects, names: Sequence[str], datacenter: str) -> list[PoolPicture]:
    """Return the pools that the arguments select; an IPAMPool has a picture for each datacenter.

    Args:
        objects: the objects of the cluster or of the files.
        names: the names of pools, as the user wrote them; empty for all pools.
        datacenter: a datacenter of IPAMPools; empty for all pools.

    Raises:
        CommandProblem: there is no pool, a name selects none or several, or no pool has the
            datacenter.
    """
    pools = draw_selected_pools(objects, names)
    if not pools:
        raise CommandProblem(NO_POOL)
    parts = [pool for pool in pools if datacenter in {"", pool.part}]
    if not parts:
        raise CommandProblem(f"none of these pools has a datacenter {datacenter}")
    return parts


def _select_families(pool: PoolPicture, family: str | None) -> list[PoolFamily]:
    """Return the families of a pool.

    Args:
        family: "4" or "6" to select this family; None for all.
    """
    return [block for block in pool.families if family is None or str(block.family) == family]


def _draw_svg(objects: Objects, pools: Sequence[PoolPicture]) -> str:
    """Return the picture of a pool with one family as SVG.

    Raises:
        CommandProblem: `pools` have no family or several families, or the family has a fault.
    """
    blocks = [(pool, block) for pool in pools for block in pool.families]
    # An SVG file has one picture.
    if len(blocks) != 1:
        known_blocks = ", ".join(
            format_full_name(pool.name)
            + (f" in {pool.part}" if pool.part else "")
            + f" of {block.label}"
            for pool, block in blocks
        )
        options = (
            "--family or --datacenter" if any(pool.part for pool, _ in blocks) else "--family"
        )
        raise CommandProblem(
            f"--svg draws one pool of one family, and these are {len(blocks)}:"
            f" {known_blocks or 'none'}; name one of them, choose its {options}, or use --html"
        )
    [(pool, block)] = blocks
    if block.fault:
        raise CommandProblem(f"{pool.title} cannot be drawn: {block.fault}")
    return picture_as_svg(pool.title, block, assign_look_numbers(objects))


def _write_picture(where: Path, page: str) -> None:
    """Write a picture or a page to a file, or to standard output if `where` is `-`."""
    if str(where) == "-":
        click.echo(page, nl=False)
        return
    try:
        where.write_text(page, encoding="utf-8")
    except OSError as error:
        raise CommandProblem(f"{where} cannot be written: {error.strerror}") from error
    print_problem("note", f"written to {where}")
