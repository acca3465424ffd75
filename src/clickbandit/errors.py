"""The one error that means: the input is wrong, and this sentence says how to put it right."""


class InputError(ValueError):
    """Something given by the user cannot be used. The message is one sentence: expected, found, what to do."""
