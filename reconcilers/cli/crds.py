"""`butler-ipam crds`: the CustomResourceDefinitions, made of the models of the controllers."""

from pathlib import Path
from typing import Any

import click

from reconcilers.api import crd
from reconcilers.cli.documents import as_yaml
from reconcilers.cli.options import option
from reconcilers.cli.problems import Problem


@click.command()
@click.argument("kinds", nargs=-1, metavar="[KIND]...")
@option(
    *("-d", "--directory"),
    type=click.Path(file_okay=False, path_type=Path),
    help="Write one file for each kind into this folder, instead of to standard output.",
)
def crds(kinds: tuple[str, ...], directory: Path | None) -> None:
    """Print the CustomResourceDefinitions, ready for `kubectl apply -f -`.

    KIND is a kind, its plural or its short name; all kinds if none is named.
    """
    try:
        chosen = crd.by_name(kinds)
    except KeyError as unknown:
        known = ", ".join(f"{kind.plural} ({kind.short})" for kind in crd.KINDS)
        raise Problem(f"there is no kind {unknown.args[0]!r}; these are: {known}") from unknown
    if directory is None:
        click.echo(as_yaml(chosen), nl=False)
        return
    try:
        _write(chosen, directory)
    except OSError as error:
        raise Problem(f"{error.filename}: this cannot be written: {error.strerror}") from error


def file_name(definition: dict[str, Any]) -> str:
    """Return the file that a definition is shipped in, named as others name theirs."""
    spec = definition["spec"]
    return f"{spec['group']}_{spec['names']['plural']}.yaml"


def _write(definitions: list[dict[str, Any]], directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for definition in definitions:
        path = directory / file_name(definition)
        path.write_text(as_yaml([definition]), encoding="utf-8")
        click.echo(path)
