"""Who may ask, and how often: API keys, and a rate for each of them."""

import hmac
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path

from clickbandit.errors import InputError

VARIABLE = "CLICKBANDIT_API_KEYS"
_MIN_LENGTH = 16
SCOPES = ("read", "rank", "write", "admin")
"""What a key may do: look; ask for lists; report clicks, settle and void; and everything."""
_ENTRY = re.compile(
    r"(?:(?P<name>[\w.-]{1,50}):)?(?P<key>[A-Za-z0-9._~+/-]+=*)(?P<scopes>(?:\s+[a-z]+)*)", re.ASCII
)


class Keys:
    """The keys that open the service. Only their digests are kept, and their names are what logs and metrics show.

    >>> keys = Keys(["shop:correct-horse-battery"])
    >>> keys.owner(b"Bearer correct-horse-battery"), keys.owner(b"Bearer wrong")
    ('shop', None)
    >>> keys = Keys(["shop:correct-horse-battery rank write"])
    >>> keys.allows("shop", "write"), keys.allows("shop", "read")
    (True, False)
    """

    def __init__(self, entries: Iterable[str]) -> None:
        self._names: dict[bytes, str] = {}
        self._scopes: dict[str, frozenset[str]] = {}
        for number, entry in enumerate(entries, 1):
            found = _ENTRY.fullmatch(entry)
            if found is None or len(found["key"]) < _MIN_LENGTH:
                raise InputError(
                    f"API key {number} must be KEY or NAME:KEY, and then perhaps scopes, with a key of at least "
                    f"{_MIN_LENGTH} letters, digits or -._~+/: "
                    "python -c 'import secrets; print(secrets.token_urlsafe())' makes one"
                )
            name = found["name"] or f"key{number}"
            if name in self._names.values():
                raise InputError(f"API keys must have names of their own, found {name!r} twice")
            scopes = frozenset(found["scopes"].split())
            if not scopes <= set(SCOPES):
                raise InputError(
                    f"the scopes of a key are among {', '.join(SCOPES)}, found {', '.join(sorted(scopes))} of {name}"
                )
            self._scopes[name] = scopes or frozenset(SCOPES)
            self._names[_digest(found["key"].encode())] = name

    def __bool__(self) -> bool:
        return bool(self._names)

    def allows(self, owner: str, scope: str) -> bool:
        """Whether a key of this name may do this."""
        return not self._scopes[owner].isdisjoint((scope, "admin"))

    def owner(self, authorization: bytes) -> str | None:
        """The name of the key in an Authorization header.

        Digests are compared, each of them whole, so that the time it takes says nothing about a key.
        """
        scheme, _, given = authorization.partition(b" ")
        if scheme.lower() != b"bearer":
            return None
        digest, owner = _digest(given.strip()), None
        for known, name in self._names.items():
            if hmac.compare_digest(known, digest):
                owner = name
        return owner


def read_keys(file: Path | None, environment: Mapping[str, str]) -> Keys:
    """The keys of a file, one on a line, and those of the environment, with commas between."""
    entries = [entry.strip() for entry in environment.get(VARIABLE, "").split(",")]
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"the file of API keys {file} cannot be read: {error}") from None
        entries += [line.partition("#")[0].strip() for line in lines]
    keys = Keys(filter(None, entries))
    if file is not None and not keys:
        raise InputError(f"the file of API keys {file} must have a key on a line, found none")
    return keys


class KeysFile:
    """The keys of a file that may change while they are used."""

    def __init__(self, file: Path | None, environment: Mapping[str, str]) -> None:
        self._file = file
        self._environment = environment
        self._state = self._look()
        self.keys = read_keys(file, environment)

    def _look(self) -> tuple[int, ...] | None:
        if self._file is None:
            return None
        try:
            found = self._file.stat()
        except OSError:
            return ()
        return found.st_mtime_ns, found.st_size, found.st_ino

    def reload(self) -> Keys | None:
        """The keys, if the file has changed; an InputError if it cannot be used, and then the old ones hold."""
        state = self._look()
        if state == self._state:
            return None
        self._state = state
        self.keys = read_keys(self._file, self._environment)
        return self.keys


@lru_cache(1000)
def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the host.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class Rates:
    """A bucket of tokens for each owner: `rate` requests a second, after a pause as many at once."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._most = max(rate, 1.0)
        self._buckets: dict[str, tuple[float, float]] = {}

    def wait(self, owner: str, now: float) -> float:
        """Take a token: 0.0, or how many seconds until there is one."""
        tokens, then = self._buckets.get(owner, (self._most, now))
        tokens = min(self._most, tokens + (now - then) * self._rate)
        if tokens < 1:
            self._buckets[owner] = tokens, now
            return (1 - tokens) / self._rate
        self._buckets[owner] = tokens - 1, now
        return 0.0


def _digest(key: bytes) -> bytes:
    return sha256(key).digest()
