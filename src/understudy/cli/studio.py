"""The command that opens the studio, a local web page for everything that the commands do.

The one rule: it answers this machine alone, and sees one folder alone.
"""

import click

from understudy.cli.options import FOLDER


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Where to answer.  [default: any free port]")
@click.option("--no-browser", is_flag=True, help="Print the address and open no browser.")
@click.option(
    "--folder",
    metavar="DIR",
    type=FOLDER,
    default=".",
    show_default=True,
    help="The folder whose tables can be opened; projects are kept in DIR/studio.",
)
def studio(port: int, no_browser: bool, folder: str) -> None:
    """Opens a local web page for the whole way from a table to a signed report.

    The page is served on 127.0.0.1 to this machine alone, by an address that holds a secret: do not pass it on. Nothing
    leaves the machine, and no network is needed. Ctrl-C ends it; a fit that is running goes on and is found again.

    \b
    Example:
      understudy studio
      understudy studio --folder exports --port 8765 --no-browser
    """
    from understudy.studio.server import run

    def ready(address: str) -> None:
        click.echo(f"The studio answers at {address}")
        click.echo("Only this machine can open it. Press Ctrl-C to end it.")
        if not no_browser:
            import webbrowser

            webbrowser.open(address)

    going_on = run(folder, port, ready=ready)
    click.echo("The studio has ended.")
    for place in going_on:
        click.echo(f"A fit goes on in {place}; start the studio again to find it.")
