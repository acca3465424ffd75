"""What the demo's panel on the page gets and sends."""

from typing import Annotated, Literal

from msgspec import Meta, Struct


class DemoSettings(Struct, forbid_unknown_fields=True):
    """How people come and click."""

    model: Annotated[
        Literal["CM", "PBM"],
        Meta(
            description="CM: they click the first item that attracts. PBM: each that attracts where they look."
        ),
    ] = "CM"
    speed: Annotated[float, Meta(ge=0, le=1000, description="People a second.")] = 250.0
    delay: Annotated[float, Meta(ge=0, le=30, description="Seconds until a click arrives, on average.")] = 0.3
    lost: Annotated[float, Meta(ge=0, le=1, description="Share of clicks that never arrive.")] = 0.0
    repeated: Annotated[float, Meta(ge=0, le=1, description="Share of clicks that arrive twice.")] = 0.0


class ArmState(Struct):
    """One policy's impressions and clicks."""

    policy: str
    suffix: Annotated[str, Meta(description="After the names of its queries.")]
    impressions: int
    clicks: int
    seconds: Annotated[list[tuple[int, int]], Meta(description="Impressions and clicks in the last seconds.")]


class DemoList(Struct):
    """The list of a query that one policy thinks best."""

    query: str
    state: str
    items: list[str]
    learned: int


class DemoRow(Struct):
    """A query: the best list, which only the simulation knows, and each policy's."""

    query: str
    best: list[str]
    lists: list[DemoList]


class DemoState(Struct):
    """All that the demo shows."""

    settings: DemoSettings
    window: Annotated[float, Meta(description="Seconds after which an impression settles.")]
    arms: list[ArmState]
    best: ArmState
    queries: list[DemoRow]
