"""`butler-ipam map`: a picture of a pool's address space."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from reconcilers.addressmap.extents import Picture
from reconcilers.addressmap.objects import Objects
from reconcilers.addressmap.page import document, page, pool_document
from reconcilers.addressmap.poolpictures import PoolPicture, pool_pictures
from reconcilers.addressmap.svg import svg as picture_as_svg
from reconcilers.addressmap.tenants import numbered
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.cli import names as completed
from reconcilers.cli.cluster import drawing
from reconcilers.cli.cluster.objects import (
    followed,
    read_all,
    report_unreadable,
    scope,
    scope_options,
    watch_option,
)
from reconcilers.cli.cluster.poolnames import full_name, namespace_in, select_pools
from reconcilers.cli.flags import option
from reconcilers.cli.output import Form, output_option, report, show, tables
from reconcilers.cli.problems import Problem, say
from reconcilers.cli.progress import counted, progress
from reconcilers.spaces.offers import PoolName


@click.command(name="map")
@click.argument("names", metavar="[POOL]...", nargs=-1, shell_complete=completed.pools)
@scope_options
@output_option()
@watch_option()
@option(
    "--family",
    type=click.Choice(["4", "6"]),
    help="Draw what is of IPv4, or of IPv6, only: one block of a pool of both.",
)
@option(
    "--svg",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="Write the picture of one pool, of one family, as SVG; - for standard output.",
)
@option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="Write one self-contained page with all of them; - for standard output.",
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

    POOL is NAME or NAMESPACE/NAME, and may have KIND/ before it: NetworkPool/lab. A name selects
    all pools that have it, of whatever kind; without a name all pools are shown. The list under
    each picture has every range of the pool in order, free ones included.
    """
    if svg and html:
        raise click.UsageError("--svg and --html make two different pictures: give one of them")

    where = scope(values)
    read_from = replace(where, namespace=where.namespace or namespace_in(names))

    def as_text(all_objects: Objects) -> str:
        with progress("drawing"):
            pools = _selected(all_objects.within(where.namespace), names, family)
            texts = (drawing.drawn(pool.picture, output) for pool in counted(pools))
            return tables(*texts) or f"no addresses of IPv{family} were found\n"

    if watch:
        if svg or html:
            raise click.UsageError(
                "--watch shows pictures in the terminal: `butler-ipam ui` pages"
            )
        followed(read_from, output, as_text)
        return
    all_objects = read_all(read_from)
    report_unreadable(all_objects, NETWORK_POOL, where.namespace)
    objects = all_objects.within(where.namespace)
    with progress("drawing"):
        pools = _selected(objects, names, family)
        picture = _svg(objects, pools) if svg else ""
        if html:
            documents = map(pool_document, counted(pools))
            picture = page(document(objects, datetime.now(UTC), documents))
    if where_to := svg or html:
        _write(where_to, picture)
    else:
        show(
            output,
            lambda: _documents(pools),
            ((pool.full_kind, pool.name.key.name) for pool in pools),
            partial(as_text, objects),
        )


def _selected(objects: Objects, names: Sequence[str], family: str | None) -> list[PoolPicture]:
    """Return the pools that names select, of a family if one is given.

    Raises:
        Problem: there is no pool, or a name selects none that can be read.
    """
    unreadable = [PoolName(NETWORK_POOL.kind, key) for key in objects.unreadable_of(NETWORK_POOL)]
    unreadable += [
        PoolName(trouble.subject, trouble.key)
        for trouble in objects.integrations.troubles
        if trouble.kind == "Unreadable"
    ]
    pools = select_pools(pool_pictures(objects), names, unreadable)
    if not pools:
        raise Problem("there is no pool to draw")
    return [pool for pool in pools if not family or _is_of_family(pool, family)]


def _is_of_family(pool: PoolPicture, family: str) -> bool:
    cidr = pool.picture.cidr
    return cidr is not None and str(cidr.family) == family


def _svg(objects: Objects, pools: Sequence[PoolPicture]) -> str:
    if len(pools) != 1:
        known = ", ".join(f"{full_name(pool.name)} of {pool.pool.spec.cidr}" for pool in pools)
        raise Problem(
            f"--svg draws one pool of one family, and these are {len(pools)}: {known or 'none'};"
            " name one of them, choose its --family, or use --html"
        )
    picture = pools[0].picture
    if picture.fault:
        raise Problem(f"{picture.name} cannot be drawn: {picture.fault}")
    return picture_as_svg(picture, numbered(objects))


def _documents(pools: Sequence[PoolPicture]) -> dict[str, Any]:
    """Return what programs read of pools."""
    others = [pool.view.document(ranges=True) for pool in pools if pool.view]
    items = [_item(pool.picture) for pool in pools if pool.view is None]
    return report("PoolMapList", items=items, **({"others": others} if others else {}))


def _write(where: Path, text: str) -> None:
    if str(where) == "-":
        click.echo(text, nl=False)
        return
    try:
        where.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Problem(f"{where} cannot be written: {error.strerror}") from error
    say("note", f"written to {where}")


def _item(one: Picture) -> dict[str, Any]:
    return {
        "namespace": one.pool.metadata.namespace,
        "name": one.pool.metadata.name,
        "cidr": one.pool.spec.cidr,
        "fault": one.fault,
        "addresses": {state.value: count for state, count in one.addresses().items()},
        "extents": [extent.document() for extent in one.extents],
    }
