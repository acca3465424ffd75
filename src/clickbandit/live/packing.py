"""A learner's snapshot as bytes: a header as JSON, with the shapes of the state's arrays, and these behind it."""

import json
import struct
from typing import Any

import numpy as np

_HEAD = struct.Struct("<I")
"""How long the header is."""


def pack(header: dict[str, Any], state: Any = None) -> bytes:
    """A header, and a state if there is one."""
    arrays = []
    if state is not None:
        fields: dict[str, Any] = {}
        for name, value in state._asdict().items():
            if isinstance(value, np.ndarray):
                fields[name] = [value.dtype.str, value.shape]
                arrays.append(value.tobytes())
            else:
                fields[name] = value
        header = {**header, "state": fields}
    written = json.dumps(header, default=lambda value: value.tolist(), ensure_ascii=False).encode()
    return b"".join([_HEAD.pack(len(written)), written, *arrays])


def unpack(packed: bytes) -> tuple[dict[str, Any], list[Any]]:
    """The header, and the values of the state by their order, for fields may have had other names when it was written.

    Damaged bytes raise a ValueError, TypeError, KeyError, AttributeError or struct.error.
    """
    (length,) = _HEAD.unpack_from(packed)
    at = _HEAD.size + length
    header = json.loads(packed[_HEAD.size : at])
    values: list[Any] = []
    for value in header.get("state", {}).values():
        if isinstance(value, list):
            dtype, shape = np.dtype(value[0]), value[1]
            n = int(np.prod(shape, dtype=np.int64))
            values.append(np.frombuffer(packed, dtype, n, at).reshape(shape).copy())
            at += values[-1].nbytes
        else:
            values.append(value)
    return header, values
