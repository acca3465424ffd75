"""The command line: every command is a few lines over the library."""

import sys

from clickbandit.cli import (  # noqa: F401  (each brings its commands)
    audit,
    best,
    cite,
    compare,
    demo,
    export,
    judgments,
    listing,
    logs,
    report,
    reproduce,
    serve,
    simulate,
    value,
)
from clickbandit.cli._shared import app
from clickbandit.errors import InputError
from clickbandit.extras import explained


def main() -> None:
    """Run a command; wrong input ends it with one sentence and exit code 2."""
    try:
        with explained():
            app(prog_name="clickbandit")
    except InputError as error:
        print(f"clickbandit: {error}", file=sys.stderr)
        sys.exit(2)
