"""`python -m clickbandit` is `clickbandit`."""

import sys

from clickbandit.stopping import CODE, watch


def main() -> None:
    """Run a command as a process of its own, which Ctrl-C ends soon, also while the command is still imported."""
    watch.start()
    try:
        from clickbandit.cli import main as command

        command()
    except KeyboardInterrupt:
        watch.say()
        sys.exit(CODE)
    finally:
        watch.finish()


if __name__ == "__main__":
    main()
