"""`butler-ipam map`: a picture of a pool's address space."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from reconcilers.addressmap.extents import Picture, drawn, picture
from reconcilers.addressmap.objects import Objects
from reconcilers.addressmap.page import document, page, pool_documents
from reconcilers.addressmap.svg import svg as picture_as_svg
from reconcilers.addressmap.tenants import numbered
from reconcilers.cli import names as completed
from reconcilers.cli.cluster import drawing
from reconcilers.cli.cluster.objects import (
    followed,
    pool_named,
    read_shown,
    scope,
    scope_options,
    watch_option,
)
from reconcilers.cli.flags import option
from reconcilers.cli.output import Form, output_option, report, show, tables
from reconcilers.cli.problems import Problem, say
from reconcilers.cli.progress import counted, progress
from reconcilers.integrations.core.views import PoolView


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

    POOL is a name, or namespace/name; all pools if none is named. The list under each picture has
    every range of the pool in order, free ones included.
    """
    if svg and html:
        raise click.UsageError("--svg and --html make two different pictures: give one of them")
    columns = drawing.WIDE if output == "wide" else drawing.COLUMNS

    where = scope(values)

    def as_text(all_objects: Objects) -> str:
        objects = all_objects.within(where.namespace)
        others = objects.integrations.pools_named(names)
        with progress("drawing"):
            pictures = [*_pictures(objects, names, others), *_drawn(objects, others)]
            texts = (drawing.drawn(one, columns) for one in counted(_of(family, pictures)))
            return tables(*texts) or f"no addresses of IPv{family} were found\n"

    where = scope(values)
    if watch:
        if svg or html:
            raise click.UsageError(
                "--watch shows pictures in the terminal: `butler-ipam ui` pages"
            )
        followed(where, output, as_text)
        return
    objects = read_shown(where)
    others = objects.integrations.pools_named(names)
    with progress("drawing"):
        pictures = _of(family, _pictures(objects, names, others))
        every = [*pictures, *_of(family, _drawn(objects, others))]
        text = _svg(objects, every) if svg else ""
        if html:
            text = _page(objects, {one.name for one in every}, family)
    if where_to := svg or html:
        _write(where_to, text)
    else:
        named = dict.fromkeys(("networkpool", one.pool.metadata.name) for one in pictures)
        listed = {"others": [one.document(ranges=True) for one in others]} if others else {}
        show(
            output,
            lambda: report("PoolMapList", items=map(_item, pictures), **listed),
            named,
            partial(as_text, objects),
        )


def _pictures(
    objects: Objects, wanted: Sequence[str], others: Sequence[PoolView]
) -> list[Picture]:
    """Return the pictures of NetworkPools; a name may be that of a pool of another kind."""
    known = {text for one in others for text in (one.key.name, str(one.key))}
    keys = [pool_named(objects, name).metadata.key for name in wanted if name not in known]
    if wanted and not keys:
        return []
    pictures = [picture(pool, of_it) for pool, of_it in counted([*objects.by_pool()])]
    if not pictures and not others:
        raise Problem("there is no NetworkPool to draw")
    return [one for one in pictures if not keys or one.pool.metadata.key in keys]


def _of(family: str | None, pictures: Sequence[Picture]) -> list[Picture]:
    """Return the pictures of a family; all of them if none is named."""
    return [one for one in pictures if not family or (one.cidr and str(one.cidr.family) == family)]


def _drawn(objects: Objects, others: Sequence[PoolView]) -> list[Picture]:
    """Return the pictures of those pools of other kinds."""
    return [drawn(one) for one in objects.integrations.drawings if one.view in others]


def _svg(objects: Objects, pictures: Sequence[Picture]) -> str:
    if len(pictures) != 1:
        raise Problem("--svg draws one pool of one family: name both (--family), or use --html")
    if pictures[0].fault:
        raise Problem(f"{pictures[0].name} cannot be drawn: {pictures[0].fault}")
    return picture_as_svg(pictures[0], numbered(objects))


def _page(objects: Objects, shown: Collection[str], family: str | None) -> str:
    pools = (
        one
        for one in pool_documents(objects)
        if one["name"] in shown and family in {None, str(one["family"])}
    )
    return page(document(objects, datetime.now(UTC), pools))


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
