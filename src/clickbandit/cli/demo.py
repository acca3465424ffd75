"""The command that shows it all at work."""

from typing import Annotated

import typer

from clickbandit.cli._shared import app


@app.command()
def demo(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for any.")] = 8000,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    policy: Annotated[str, typer.Option(help="Policy with settings, as name:key=value.")] = "click-ts",
    versus: Annotated[
        str | None, typer.Option(metavar="POLICY", help="Another policy, before the same people.")
    ] = None,
) -> None:
    """Watch it learn: the live service and its page, with simulated people and a store that is removed at the end.

    clickbandit demo --versus batchrank
    """
    from clickbandit.live.demo import run_demo
    from clickbandit.live.http import log

    log.set_up()
    run_demo(policy=policy, versus=versus, port=port, browser=browser)
