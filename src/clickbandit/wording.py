"""Numbers of things as they stand in sentences."""


def counted(number: int, one: str, more: str = "") -> str:
    """A number of things, in words.

    >>> counted(1, "query", "queries"), counted(2000, "run")
    ('1 query', '2,000 runs')
    """
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def some_are(number: int, total: int, one: str) -> str:
    """How many of all things are something, in words.

    >>> some_are(3, 2000, "run"), some_are(1, 4, "run"), some_are(0, 1, "run")
    ('3 of 2,000 runs are', '1 of 4 runs is', '0 of 1 run is')
    """
    return f"{number:,} of {counted(total, one)} {'is' if 1 in (number, total) else 'are'}"
