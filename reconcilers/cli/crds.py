"""`butler-ipam crds`: the CustomResourceDefinitions, made of the models of the controllers."""

from pathlib import Path
from typing import Any

import click

from reconcilers.api import crd
from reconcilers.cli.flags import option
from reconcilers.cli.output import build_list, render_json, render_yaml
from reconcilers.cli.problems import CommandProblem
from reconcilers.cli.sharedflags import output_option
from reconcilers.integrations.clusterapi.crds import KINDS as POOLS


@click.command()
@click.argument("kinds", nargs=-1, metavar="[KIND]...")
@option(
    *("-d", "--directory"),
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Write one file for each kind into this folder instead of to standard output.",
)
@output_option(
    "Print in this format; markdown is the reference of the API for people, and has all kinds.",
    ("yaml", "json", "name", "markdown"),
)
def crds(kinds: tuple[str, ...], directory: Path | None, output: str) -> None:
    """Print the CustomResourceDefinitions, ready for `kubectl apply -f -`.

    KIND is a kind, its plural or its short name. Without it, the four kinds of butler-ipam are
    printed: NetworkPool, IPAllocation, TenantCluster and ProviderConfig.
    """
    if output != "yaml" and directory is not None:
        raise click.UsageError("--directory always writes YAML: remove --output")
    if output == "markdown":
        from reconcilers.api.reference import render_reference

        if kinds:
            raise click.UsageError("the reference has all kinds: remove the names of kinds")
        click.echo(render_reference(POOLS), nl=False)
        return
    try:
        chosen = crd.build_crds_by_name(kinds, POOLS)
    except KeyError as unknown:
        known = ", ".join(f"{kind.plural} ({kind.short})" for kind in crd.KINDS)
        known += f", and for Cluster API {', '.join(kind.plural for kind in POOLS)}"
        raise CommandProblem(
            f"there is no kind {unknown.args[0]!r}; these are: {known}"
        ) from unknown
    if directory is None:
        kind = "customresourcedefinition.apiextensions.k8s.io"
        forms = {
            "yaml": lambda: render_yaml(chosen),
            "json": lambda: render_json(build_list(chosen)),
            "name": lambda: "".join(
                f"{kind}/{definition['metadata']['name']}\n" for definition in chosen
            ),
        }
        click.echo(forms[output](), nl=False)
        return
    for definition in chosen:
        path = directory / build_file_name(definition)
        try:
            directory.mkdir(parents=True, exist_ok=True)
            path.write_text(render_yaml([definition]), encoding="utf-8")
        except OSError as error:
            raise CommandProblem(f"{path}: this cannot be written: {error.strerror}") from error
        click.echo(path)


def build_file_name(definition: dict[str, Any]) -> str:
    """Return the file name of a definition, as controller-gen names it: GROUP_PLURAL.yaml."""
    spec = definition["spec"]
    return f"{spec['group']}_{spec['names']['plural']}.yaml"
