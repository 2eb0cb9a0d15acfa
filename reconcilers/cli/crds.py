"""`butler-ipam crds`: the CustomResourceDefinitions, made of the models of the controllers."""

import click

from reconcilers.api import crd
from reconcilers.cli.documents import as_yaml
from reconcilers.cli.problems import Problem


@click.command()
@click.argument("kinds", nargs=-1, metavar="[KIND]...")
def crds(kinds: tuple[str, ...]) -> None:
    """Print the CustomResourceDefinitions, ready for `kubectl apply -f -`.

    KIND is a kind, its plural or its short name; all kinds if none is named.
    """
    try:
        chosen = crd.by_name(kinds)
    except KeyError as unknown:
        known = ", ".join(f"{kind.plural} ({kind.short})" for kind in crd.KINDS)
        raise Problem(f"there is no kind {unknown.args[0]!r}; these are: {known}") from unknown
    click.echo(as_yaml(chosen), nl=False)
