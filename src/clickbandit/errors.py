"""The one error that means: the input is wrong, and this sentence says how to put it right."""


def shortened(text: str, length: int) -> str:
    """A text as it may stand in a message: no longer than this."""
    return text if len(text) <= length else f"{text[: length - 3]}..."


class InputError(ValueError):
    """Something given by the user cannot be used. The message is one sentence: expected, found, what to do."""
