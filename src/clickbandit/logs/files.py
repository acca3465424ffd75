"""A log's files: finding them, unpacking them as they are read, and cutting them into blocks of whole lines."""

import codecs
import glob
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from clickbandit.compiling.kernel import IntArray, entry_point
from clickbandit.errors import InputError
from clickbandit.extras import pa

BLOCK = 32 << 20
"""How many unpacked bytes are read at a time: enough to keep all cores busy, and few enough for any machine."""

PARQUET = b"PAR1"
"""How a Parquet file begins."""
MAX_LINE = 1 << 24
"""Longer lines are not those of a log."""
Made = TypeVar("Made")
LINE_END, TAB = b"\n\t"
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True)
class Block:
    """Whole lines of a file, each ending in a tab in place of its line end."""

    lines: pa.Table
    """`n`, the line's number in its file from 1, and `line`."""
    bytes_read: int
    """How far into the file on disk the block ends."""
    undecodable: tuple[int, ...] = ()
    """The numbers of lines with bytes that are not UTF-8, which are replaced."""
    unended: bool = False
    """The last line had no line end."""
    truncated: bool = False
    """The file's compressed data ended early: this is all that could be read."""


class Piece(NamedTuple):
    """Some bytes of a file."""

    data: bytes
    bytes_read: int
    """How far into the file on disk they end."""
    truncated: bool = False
    """The file's compressed data ended early."""


def find(paths: str | PathLike[str] | Sequence[str | PathLike[str]]) -> list[Path]:
    """The files that paths and glob patterns name, in order and each once."""
    found: dict[Path, None] = {}
    for entry in [paths] if isinstance(paths, (str, PathLike)) else paths:
        path = Path(entry)
        if path.is_dir():
            raise InputError(f"expected a log file, found the folder {path}: name its files, as in {path}/*")
        matches = [path] if path.exists() else [Path(match) for match in sorted(glob.glob(str(path)))]
        if not matches:
            raise InputError(f"expected a log file, but there is none at {path}")
        found.update(dict.fromkeys(match for match in matches if match.is_file()))
    if not found:
        raise InputError("expected at least one log file, found none")
    return list(found)


def compression(path: Path) -> str:
    """How a file is packed, by its first bytes whatever its name: gzip, zstd or none."""
    try:
        with path.open("rb") as file:
            start = file.read(4)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    return "gzip" if start.startswith(_GZIP) else "zstd" if start == _ZSTD else "none"


def head(path: Path, size: int = 1 << 16) -> bytes:
    """The first unpacked bytes of a file."""
    return next((piece.data for piece in pieces(path, size)), b"")[:size]


def blocks(path: Path) -> Iterator[Block]:
    """A file's lines, unpacked, a block at a time; the next one is read while the last is counted."""
    return ahead(_blocks(path))


def ahead(made: Iterator[Made]) -> Iterator[Made]:
    """What an iterator makes, which makes the next while the last is used."""
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, made, None)
        while (one := coming.result()) is not None:
            coming = thread.submit(next, made, None)
            yield one


def _blocks(path: Path) -> Iterator[Block]:
    n, rest, at, truncated = 1, b"", 0, False
    for piece in pieces(path):
        at, truncated = piece.bytes_read, piece.truncated
        cut = piece.data.rfind(b"\n") + 1
        data = bytearray(rest)
        data += memoryview(piece.data)[:cut]  # the only copy: a block is large
        rest = piece.data[cut:] if cut else rest + piece.data
        if len(rest) > MAX_LINE:
            raise InputError(f"{path} is not a log: a line is longer than {MAX_LINE >> 20} MiB")
        if cut:
            yield (block := _block(data, n, at))
            n += block.lines.num_rows
    if rest or truncated:
        block = _block(bytearray(rest and rest + b"\n"), n, at)
        yield replace(block, unended=bool(rest), truncated=truncated)


def pieces(path: Path, size: int | None = None) -> Iterator[Piece]:
    """A file's bytes, unpacked, about `size` at a time, without the byte order mark."""
    at, mark = 0, codecs.BOM_UTF8
    with path.open("rb") as file:
        try:
            for data, at in _unpacked(file, compression(path), size or BLOCK):
                yield Piece(data.removeprefix(mark), at)
                mark = b""
        except EOFError:
            yield Piece(b"", at, truncated=True)


def _unpacked(file: BinaryIO, packing: str, size: int) -> Iterator[tuple[bytes, int]]:
    """About `size` unpacked bytes at a time, and how far into the file they end.

    If the packed data ends early, all that is there is given before an EOFError.
    """
    pieces, n_bytes, at, broken = [], 0, 0, None
    try:
        for piece in _PIECES[packing](file, size):
            pieces.append(piece)
            n_bytes += len(piece)
            at = file.tell()
            if n_bytes >= size:
                yield b"".join(pieces), at
                pieces, n_bytes = [], 0
    except EOFError as error:
        broken = error
    yield b"".join(pieces), at
    if broken:
        raise broken


def _plain(file: BinaryIO, size: int) -> Iterator[bytes]:
    return iter(lambda: file.read(size), b"")


def _gunzip(file: BinaryIO, _: int) -> Iterator[bytes]:
    """Unlike the gzip module, this gives all that is there before the data ends early."""
    member, packed = None, b""
    while packed := packed or file.read(1 << 16):
        member = member or zlib.decompressobj(wbits=31)
        try:
            yield member.decompress(packed)
        except zlib.error as error:
            raise EOFError from error
        packed = b""
        if member.eof:  # another member may follow, and zeros may pad the end
            packed, member = member.unused_data.lstrip(b"\0"), None
    if member is not None:
        raise EOFError


def _unzstd(file: BinaryIO, _: int) -> Iterator[bytes]:
    """In small pieces, since the piece in which the data ends early is lost."""
    stream = pa.CompressedInputStream(pa.PythonFile(file), "zstd")
    try:
        yield from iter(lambda: stream.read(1 << 13), b"")
    except OSError as error:
        raise EOFError from error


_PIECES: dict[str, Callable[[BinaryIO, int], Iterator[bytes]]] = {
    "none": _plain,
    "gzip": _gunzip,
    "zstd": _unzstd,
}


def _block(data: bytearray, first: int, at: int) -> Block:
    """The lines of a text, which becomes the block's own."""
    if b"\r" in data:  # sooner found than two bytes
        data = data.replace(b"\r\n", b"\n")
    undecodable: tuple[int, ...] = ()
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError:
            lines = data.split(b"\n")
            undecodable = tuple(first + i for i, line in enumerate(lines) if not is_utf8(line))
            data = bytearray(data.decode(errors="replace").encode())
    text = np.frombuffer(data, np.uint8)
    starts = np.zeros(np.count_nonzero(text == LINE_END) + 1, np.int64)
    _end_lines(text, starts)
    n_lines = len(starts) - 1
    lines = pa.LargeStringArray.from_buffers(n_lines, pa.py_buffer(starts), pa.py_buffer(text))
    numbers = pa.array(np.arange(first, first + n_lines))
    return Block(pa.table({"n": numbers, "line": lines}), at, undecodable)


def is_utf8(line: bytes | bytearray) -> bool:
    """Whether bytes are a text."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


@entry_point
def _end_lines(text: npt.NDArray[np.uint8], starts: IntArray) -> None:
    """Note where each line starts, and turn line ends into tabs: then SQL need not trim the last field."""
    line = 0
    for i in range(len(text)):
        if text[i] == LINE_END:
            text[i] = TAB
            line += 1
            starts[line] = i + 1
