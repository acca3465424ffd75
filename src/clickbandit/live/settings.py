"""The settings of a ranker and of a service, each stated and described once.

A field is a keyword argument of `Ranker` and `AsyncRanker`, an option of `clickbandit serve`, an environment variable
(`CLICKBANDIT_` and its name in capitals) and a key in a TOML file (`serve --config`), with one name everywhere.
"""

import inspect
import math
import tomllib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from clickbandit.defaults import STRENGTH, TIGHTEST_AT
from clickbandit.errors import InputError
from clickbandit.live.requests import check_horizon, check_positions, parse_duration
from clickbandit.live.rewards import Rewards, parse_rewards
from clickbandit.registry import suggestion

if TYPE_CHECKING:
    from clickbandit.live.stores.contract import Store
    from clickbandit.policies.base import Policy

TIME = "TIME"
"""The kind of a setting that is seconds, or text with a unit."""
_EXPECTED = {int: "a whole number such as 1000 or 1e6", float: "a number", str: "text", bool: "true or false"}
_METAVARS = {int: "N", float: "NUMBER", str: "", bool: "", TIME: TIME}
_FORMER = {"most_queries": "max_queries"}
"""Keyword arguments that had another name."""

P = ParamSpec("P")
S = TypeVar("S")


def about(text: str, kind: Any = None, *, metavar: str | None = None) -> dict[str, Any]:
    """The description of a field, and its kind unless that is the kind of its default."""
    return {"text": text, "kind": kind, "metavar": metavar}


@dataclass(frozen=True, kw_only=True)
class RankerSettings:
    """How a ranker learns. They hold for queries that have no settings of their own (see `Ranker.reset`)."""

    policy: "Policy | str" = field(
        default="click-ts",
        metadata=about(
            "Policy with settings, as name:key=value,key=value, or your own as file.py:Class.",
            metavar="POLICY",
        ),
    )
    positions: int = field(default=5, metadata=about("How many items a list shows."))
    horizon: int = field(
        default=1_000_000,
        metadata=about("Impressions of a query that set a policy's constants; learning continues past it."),
    )
    prior: str = field(
        default="none",
        metadata=about(
            "What queries start from: given-order, scores (of the request), a fitted queries file, or none.",
            metavar="WHAT",
        ),
    )
    prior_strength: float = field(
        default=STRENGTH, metadata=about("How many examinations of an item the prior is worth.")
    )
    max_loss: float = field(
        default=0.0,
        metadata=about(
            "Share of the given order's clicks that a query may lose, such as 0.02; 0 for no budget.",
            metavar="SHARE",
        ),
    )
    window: str | float = field(
        default="30m",
        metadata=about("After how long an impression settles, such as 90s, 30m, 12h, 2d.", TIME),
    )
    rewards: str | None = field(
        default=None,
        metadata=about(
            "What events are worth, such as click=1,purchase=10; clicks alone if not given.",
            str,
            metavar="LIST",
        ),
    )
    max_reward: float | None = field(
        default=None,
        metadata=about(
            "The most that an item can earn in an impression; one event of each kind if not given.", float
        ),
    )
    conversion_window: str | float | None = field(
        default=None,
        metadata=about(
            "How long after its list an event other than a click counts, such as 3d; the window if not given.",
            TIME,
        ),
    )
    holdout: float = field(
        default=0.0,
        metadata=about(
            "Share of impressions that are shown in the given order, to compare with.", metavar="SHARE"
        ),
    )
    holdout_by: str = field(
        default="impression",
        metadata=about(
            "What is held out and compared: impression; or user, so that a user named in requests sees one side only.",
            metavar="UNIT",
        ),
    )
    tightest_at: int = field(
        default=TIGHTEST_AT,
        metadata=about(
            "Impressions (or users) at which the comparison is tightest: the size of a planned test."
        ),
    )
    retention: str | float = field(
        default="7d", metadata=about("How long settled impressions and their events are kept.", TIME)
    )
    archive: str | None = field(
        default=None,
        metadata=about(
            "Folder where settled impressions are kept as Parquet before they are forgotten.",
            str,
            metavar="FOLDER",
        ),
    )
    patience: str | float = field(
        default="2s",
        metadata=about("How long a list may wait for the store before the given order is served.", TIME),
    )
    grace: int = field(
        default=10, metadata=about("Requests in a row that leave an item out before it counts as removed.")
    )
    propensity_draws: int = field(
        default=0,
        metadata=about(
            "Lists drawn to estimate propensities that a policy cannot state; 0 to leave them out."
        ),
    )
    seed: int = field(default=0, metadata=about("Another seed shows other lists."))
    learners: int = field(default=10_000, metadata=about("Queries that are kept in memory."))
    memory: int = field(
        default=512,
        metadata=about(
            "MiB for the states of these queries; a query that would take an eighth of it is not learned."
        ),
    )
    max_queries: int = field(default=1_000_000, metadata=about("How many queries there may be."))
    clock: Callable[[], float] | None = None
    """Gives the seconds since 1970; the machine's if None. Only a keyword argument."""

    def __post_init__(self) -> None:
        check_positions(self.positions)
        check_horizon(self.horizon)
        if not 0 <= self.holdout <= 1:
            raise InputError(f"holdout must be a share from 0 to 1, found {self.holdout!r}")
        if not 0 < self.prior_strength < math.inf:
            raise InputError(f"prior_strength must be a number above 0, found {self.prior_strength!r}")
        if not 0 <= self.max_loss < 1:
            raise InputError(f"max_loss must be a share from 0 to below 1, found {self.max_loss!r}")
        if self.prior not in ("given-order", "scores", "none") and not Path(self.prior).is_file():
            raise InputError(
                f"prior must be given-order, scores, none or a queries file, and there is no file {self.prior!r}"
            )
        if self.holdout_by not in ("impression", "user"):
            raise InputError(f"holdout_by must be impression or user, found {self.holdout_by!r}")
        for name in ("grace", "learners", "memory", "max_queries", "tightest_at"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, found {getattr(self, name)!r}")
        if self.propensity_draws < 0:
            raise InputError(f"propensity_draws must be 0 or more, found {self.propensity_draws!r}")
        for name in ("window", "retention", "patience"):
            parse_duration(getattr(self, name), name)
        self.check_retention(self.window_ms)
        self._check_rewards()

    def _check_rewards(self) -> None:
        worth, conversion = self.worth, self.conversion_ms
        if conversion is None:
            return
        if worth is None or worth.click == worth.most:
            raise InputError("conversion_window is for events other than clicks: give rewards for some")
        if conversion < self.window_ms:
            raise InputError(
                f"conversion_window must be at least the window, {self.window}, found {self.conversion_window}"
            )
        self.check_retention(conversion)

    @cached_property
    def worth(self) -> Rewards | None:
        """What events are worth, if rewards are set."""
        return parse_rewards(self.rewards, self.max_reward)

    @cached_property
    def conversion_ms(self) -> int | None:
        if self.conversion_window is None:
            return None
        return parse_duration(self.conversion_window, "conversion_window")

    @cached_property
    def window_ms(self) -> int:
        return parse_duration(self.window, "window")

    @cached_property
    def retention_ms(self) -> int:
        return parse_duration(self.retention, "retention")

    @cached_property
    def patience_ms(self) -> int:
        return parse_duration(self.patience, "patience")

    def check_retention(self, window_ms: int) -> None:
        """Refuse a window, a query's own too, that is longer than anything is kept."""
        if window_ms > self.retention_ms:
            raise InputError(
                "retention must be at least as long as the window, or clicks would have nowhere to go"
            )

    def for_ranker(self) -> dict[str, Any]:
        """The keyword arguments of a ranker."""
        return {entry.name: getattr(self, entry.name) for entry in fields(RankerSettings)}


@dataclass(frozen=True, kw_only=True)
class ServiceSettings(RankerSettings):
    """How a ranker is served over HTTP."""

    prior: str = field(default="given-order", metadata=RankerSettings.__dataclass_fields__["prior"].metadata)
    store: str = field(
        default="sqlite:///clickbandit.db",
        metadata=about(
            "Where everything is kept: sqlite:///FILE, or postgresql://... for many workers.", metavar="URL"
        ),
    )
    host: str = field(default="127.0.0.1", metadata=about("Address to listen on."))
    port: int = field(default=8000, metadata=about("Port to listen on; 0 for any."))
    workers: int = field(default=1, metadata=about("Processes; more than one only with PostgreSQL."))
    rate: float | None = field(
        default=None,
        metadata=about(
            "Requests a second that each worker allows each API key; no limit if not given.", float
        ),
    )
    api_keys_file: str | None = field(
        default=None,
        metadata=about(
            "API keys, one per line as KEY or NAME:KEY, in addition to those in CLICKBANDIT_API_KEYS.",
            str,
            metavar="FILE",
        ),
    )
    drain: str | float = field(
        default=0,
        metadata=about("How long to keep serving after SIGTERM, while /readyz answers 503.", TIME),
    )
    insecure: bool = field(default=False, metadata=about("Serve other machines without API keys."))
    log_requests: bool = field(default=True, metadata=about("Log a line for each request."))
    log_queries: bool = field(
        default=False, metadata=about("Also log the queries and impressions named in addresses.")
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.port <= 65535:
            raise InputError(f"port must be from 0 to 65535, found {self.port}")
        if self.workers < 1:
            raise InputError(f"workers must be at least 1, found {self.workers}")
        if self.rate is not None and not 0 < self.rate < math.inf:
            raise InputError(f"rate must be more than 0 requests a second, found {self.rate}")
        parse_duration(self.drain, "drain")
        if self.workers > 1 and self.store.startswith("sqlite:"):
            raise InputError(
                f"a SQLite store serves one worker, found {self.workers} workers: leave workers out, or name a store "
                "postgresql://... for many"
            )

    @cached_property
    def drain_ms(self) -> int:
        return parse_duration(self.drain, "drain")


class Option(NamedTuple):
    """A setting as `clickbandit serve` takes it."""

    name: str
    default: Any
    text: str
    kind: Any
    """int, float, str, bool or TIME."""
    metavar: str
    """What stands for its value."""


def options() -> list[Option]:
    """The settings that `clickbandit serve` takes, those of the service first."""
    found = []
    known, inherited = fields(ServiceSettings), len(fields(RankerSettings))
    for entry in (*known[inherited:], *known[:inherited]):
        if entry.metadata:
            kind = entry.metadata["kind"] or type(entry.default)
            metavar = entry.metadata["metavar"] or _METAVARS[kind]
            found.append(Option(entry.name, entry.default, entry.metadata["text"], kind, metavar))
    return found


def variable(name: str) -> str:
    """The environment variable of a setting.

    >>> variable("max_queries")
    'CLICKBANDIT_MAX_QUERIES'
    """
    return f"CLICKBANDIT_{name.upper()}"


def read_settings(given: Mapping[str, object], file: Path | None = None) -> ServiceSettings:
    """Settings as text or values, before them those of a file; None is not given, and the rest are defaults."""
    known = {option.name: option for option in options()}
    values = _read_file(file, known) if file is not None else {}
    values |= {name: value for name, value in given.items() if value is not None}
    return ServiceSettings(**{name: _convert(known[name], value) for name, value in values.items()})


def _read_file(file: Path, known: Mapping[str, object]) -> dict[str, object]:
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the settings in {file} cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"the settings in {file} must be TOML, as in positions = 3: {error}") from None
    for name in values:
        if name not in known:
            raise InputError(f"{file}: there is no setting {name!r}: {suggestion(name, known)}")
    return values


def _convert(option: Option, value: Any) -> Any:
    """A value of a setting's kind, from text or from what TOML has."""
    kind = option.kind
    try:
        if kind is TIME:
            return value
        if kind is bool:
            return {"true": True, "false": False}[str(value).lower()]
        if isinstance(value, bool) or not isinstance(value, str if kind is str else (str, int, float)):
            raise ValueError
        if kind is int and not isinstance(value, int):
            if float(value) != int(float(value)):
                raise ValueError
            return int(float(value))
        return kind(value)
    except (KeyError, ValueError, OverflowError):
        raise InputError(f"{option.name} must be {_EXPECTED[kind]}, found {value!r}") from None


def by_keywords(
    kind: Callable[P, RankerSettings],
) -> "Callable[[Callable[[S, str | Store, RankerSettings], None]], Callable[Concatenate[S, str | Store, P], None]]":
    """Make a constructor that takes settings take them as keyword arguments."""

    def change(
        init: "Callable[[S, str | Store, RankerSettings], None]",
    ) -> "Callable[Concatenate[S, str | Store, P], None]":
        @wraps(init)
        def constructor(self: S, store: "str | Store", *args: P.args, **given: P.kwargs) -> None:
            for old, new in _FORMER.items():
                if old in given:
                    warnings.warn(f"{old} is now called {new}", DeprecationWarning, stacklevel=2)
                    given[new] = given.pop(old)
            init(self, store, kind(*args, **given))

        own = list(inspect.signature(init).parameters.values())[:2]
        settings = inspect.signature(kind).parameters.values()
        constructor.__signature__ = inspect.Signature([*own, *settings])  # type: ignore[attr-defined]
        return constructor  # type: ignore[return-value]  # the store may be named too

    return change
