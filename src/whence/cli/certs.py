"""whence certs: a small authority and certificates for members."""

from pathlib import Path
from typing import Annotated

import typer

from whence.cli.output import print_json, print_message
from whence.core.links.process_names import NAME_FORM, is_name
from whence.errors import UsageError
from whence.limits import MERGED_PEER_ID_MAX
from whence.net.certs import AUTHORITY_DAYS, MEMBER_DAYS, check_no_member, make_authority, make_member

certs = typer.Typer(help="Make a small authority and certificates that bind each member's name to a key.")

Directory = Annotated[Path, typer.Option("--dir", help="Where the files are, or will be.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@certs.command()
def ca(
    directory: Directory = Path("certs"),
    cluster: Annotated[str, typer.Option(help="Goes into the authority's name.")] = "whence",
    days: Annotated[int, typer.Option(min=1, help="How many days it is valid.")] = AUTHORITY_DAYS,
    json: Json = False,
) -> None:
    """Make an authority, once. Its key signs members: keep it where no member runs."""
    path = make_authority(directory, cluster, days)
    if json:
        print_json(0, authority=str(path))
    else:
        print_message(f"made {path}; give it to every member, and its key to none")


@certs.command()
def member(
    names: Annotated[list[str], typer.Argument(help="The members' names, or pids of those that have none.")],
    directory: Directory = Path("certs"),
    days: Annotated[int, typer.Option(min=1, help="How many days they are valid.")] = MEMBER_DAYS,
    replace: Annotated[bool, typer.Option("--replace", help="Make new ones where there are some already.")] = False,
    json: Json = False,
) -> None:
    """Make certificates and keys for members: member-NAME.pem and member-NAME.key.

    Each lets exactly that name in. Nothing is made if one of these names has a certificate already, unless --replace.
    Example: whence certs member billing-1 billing-2
    """
    for name in names:
        if not is_name(name) and not (name.isdecimal() and int(name) <= MERGED_PEER_ID_MAX):
            raise UsageError(f"{name!r} is neither a name ({NAME_FORM}) nor a pid from 0 to {MERGED_PEER_ID_MAX}")
        if not replace:
            check_no_member(directory, int(name) if name.isdecimal() else name)
    made = [make_member(directory, int(name) if name.isdecimal() else name, days, replace=replace) for name in names]
    if json:
        print_json(0, members={name: [str(path) for path in paths] for name, paths in zip(names, made, strict=True)})
    else:
        for certificate, key in made:
            print_message(f"made {certificate} and {key}")
