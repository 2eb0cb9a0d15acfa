"""`butler-ipam apiserver`: the embedded Kubernetes API server alone, until Ctrl-C."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import click

from controller import logs
from reconcilers.cli.flags import option
from reconcilers.cli.interrupts import Interrupted
from reconcilers.cli.local.servers import (
    check_kubeconfig,
    choose_kubeconfig_path,
    collect_garbage_less_often,
    convert_start_problems,
    require_envtest,
    run_servers,
    write_kubeconfig,
)
from reconcilers.cli.problems import CommandProblem
from reconcilers.cli.sharedflags import listen_option, server_options

if TYPE_CHECKING:
    from envtest.server.call import User

_KUBECONFIG = "admin.kubeconfig"


@click.command()
@listen_option("127.0.0.1:6443", "Serve the API over HTTPS at this address")
@server_options("an administrator's kubeconfig", _KUBECONFIG)
@option(
    "--token-auth-file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Accept the bearer tokens of this file, too; each line is"
    ' token,user,uid,"group1,group2".',
)
def apiserver(
    listen: str, data: Path | None, kubeconfig: Path | None, token_auth_file: Path | None
) -> None:
    """Serve the embedded Kubernetes API alone.

    It is made for tests and first steps. It has a certificate authority of its own, and no
    controllers: as with a bare kube-apiserver, namespaces that are deleted stay Terminating, and
    nothing is garbage-collected.
    """
    collect_garbage_less_often()
    logs.configure_logs("console", "warning")
    path = choose_kubeconfig_path(kubeconfig, data, _KUBECONFIG)
    # Checked before the server starts: a path that must not be overwritten ends the command.
    check_kubeconfig(path)
    # TokenFileError becomes one sentence, as the errors of a server that does not start.
    with convert_start_problems():
        tokens = _read_tokens(token_auth_file)
    try:
        run_servers(partial(_serve, listen, data, tokens, path))
    except Interrupted:
        click.echo("stopped")


def _read_tokens(path: Path | None) -> "Mapping[str, User]":
    """Return the users of a token file, by token; empty if `path` is None.

    Raises:
        CommandProblem: the file cannot be read.
        TokenFileError: a line of the file is wrong.
    """
    if path is None:
        return {}
    require_envtest()
    from envtest import parse_token_file

    try:
        return parse_token_file(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise CommandProblem(f"--token-auth-file {path} cannot be read: {error}") from error


async def _serve(listen: str, data: Path | None, tokens: "Mapping[str, User]", path: Path) -> None:
    """Serve the API until cancelled; write the kubeconfig to `path` and print how to use it."""
    require_envtest()
    from envtest import serve

    async with serve(listen=listen, data=data, tokens=tokens) as server:
        write_kubeconfig(path, server.get_kubeconfig())
        storage = f"kept in {data}" if data else "forgotten at the end (--data keeps them)"
        click.echo(f"embedded Kubernetes API server on {server.url}; objects are {storage}\n")
        click.echo(f"  export KUBECONFIG={path}")
        click.echo("  kubectl get namespaces\n")
        click.echo("Ctrl-C ends it.")
        await anyio.sleep_forever()
