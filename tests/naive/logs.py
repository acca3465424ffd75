"""Counting and fitting session by session, in plain Python: what the compressed and compiled code must equal."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

Session = tuple[str, tuple[str, ...], tuple[int, ...]]
"""A query, its list, and a click or none for each position."""
Value = dict[object, float]


def relevance_sessions(lines: Iterable[str]) -> tuple[list[Session], int, int]:
    """The lists of a `yandex-relpred` log with their clicks; how many clicks were dropped, and how many repeated."""
    lists: list[tuple[str, list[str], list[int]]] = []
    of_session: dict[str, list[int]] = defaultdict(list)
    dropped = repeated = 0
    for line in lines:
        session, _, kind, *rest = line.split("\t")
        if kind == "Q":
            of_session[session].append(len(lists))
            lists.append((rest[0], rest[2:], [0] * len(rest[2:])))
            continue
        for number in reversed(of_session[session]):
            _, items, clicks = lists[number]
            if rest[0] in items:
                repeated += clicks[items.index(rest[0])]
                clicks[items.index(rest[0])] = 1
                break
        else:
            dropped += 1
    return [(query, tuple(items), tuple(clicks)) for query, items, clicks in lists], dropped, repeated


def grouped(sessions: Iterable[Session]) -> Counter[tuple[str, tuple[str, ...], int]]:
    """How often each list was clicked in which way, the clicks as bits."""
    return Counter((q, items, sum(c << k for k, c in enumerate(clicks))) for q, items, clicks in sessions)


# --- shares that can be counted -----------------------------------------------------------------------------


def _last(clicks: Sequence[int]) -> int:
    """The position of the last click, or beyond the list if there is none."""
    return max((k for k, c in enumerate(clicks) if c), default=len(clicks))


def _share(pairs: Iterable[tuple[object, float, float]]) -> Value:
    num: Value = defaultdict(float)
    den: Value = defaultdict(float)
    for key, n, d in pairs:
        num[key] += n
        den[key] += d
    return {key: (1 + num[key]) / (2 + den[key]) for key in num}


def counted(name: str, sessions: Sequence[Session]) -> dict[str, Value]:
    """The parameters of the CM, DCM and SDBN, each by its key."""
    places = [((q, d), k, clicks[k], clicks) for q, items, clicks in sessions for k, d in enumerate(items)]
    if name == "CM":
        return {"attraction": _share((pair, c, 1) for pair, k, c, clicks in places if not any(clicks[:k]))}
    values = {"attraction": _share((pair, c, 1) for pair, k, c, clicks in places if k <= _last(clicks))}
    for pair, _, _, _ in places:
        values["attraction"].setdefault(pair, 0.5)
    if name == "DCM":
        values["termination"] = _share((k, k == _last(clicks), 1) for _, k, c, clicks in places if c)
    else:
        values["satisfaction"] = _share((pair, k == _last(clicks), 1) for pair, k, c, clicks in places if c)
    return values


# --- EM -----------------------------------------------------------------------------------------------------

Expected = Iterable[tuple[str, object, float, float]]
"""A parameter, its key, and what a session adds to its numerator and denominator."""
Get = Callable[[str, object], float]


def _examination(session: Session, get: Get, key: Callable[[int, int], object]) -> Expected:
    query, items, clicks = session
    previous = -1
    for k, d in enumerate(items):
        a, e = get("attraction", (query, d)), get("examination", key(k, previous))
        c = clicks[k]
        yield "attraction", (query, d), c + (1 - c) * (1 - e) * a / (1 - e * a), 1
        yield "examination", key(k, previous), c + (1 - c) * (1 - a) * e / (1 - e * a), 1
        previous = k if c else previous


def pbm(session: Session, get: Get) -> Expected:
    return _examination(session, get, lambda k, previous: k)


def ubm(session: Session, get: Get) -> Expected:
    return _examination(session, get, lambda k, previous: (k, previous))


def dbn(session: Session, get: Get) -> Expected:
    """By brute force: every place where the user may have stopped after the last click."""
    query, items, clicks = session
    gamma = get("continuation", None)
    worlds: list[tuple[float, int, bool]] = []  # the probability, the last position examined, satisfied there
    first = _last(clicks) if any(clicks) else -1
    reach = 1.0
    for stop in range(max(first, 0), len(items)):
        pair = (query, items[stop])
        if stop > first:
            reach *= 1 - get("attraction", pair)
            leave = 1.0 if stop == len(items) - 1 else 1 - gamma
            worlds.append((reach * leave, stop, False))
            reach *= gamma
        else:
            s = get("satisfaction", pair)
            worlds.append((s, stop, True))
            worlds.append(((1 - s) * (1.0 if stop == len(items) - 1 else 1 - gamma), stop, False))
            reach = (1 - s) * gamma
    total = sum(world[0] for world in worlds)
    for probability, stop, satisfied in worlds:
        weight = probability / total
        for k, d in enumerate(items):
            pair, c = (query, d), clicks[k]
            yield "attraction", pair, weight * (c if k <= stop else get("attraction", pair)), weight
            if c:
                yield "satisfaction", pair, weight * (satisfied and k == stop), weight
            if k < stop:
                yield "continuation", None, weight, weight
            elif k == stop and not satisfied:  # at the end of the list nobody sees whether the user went on
                on = gamma if stop == len(items) - 1 else 0.0
                yield "continuation", None, weight * on, weight


def _ccm_worlds(
    session: Session, get: Get, taus: tuple[float, float, float], last: int
) -> list[tuple[float, int, int | None]]:
    """Where the user may have stopped below the last click, and whether that was relevant, each with its weight."""
    query, items, _ = session
    tau1, tau2, tau3 = taus
    end = len(items) - 1
    worlds: list[tuple[float, int, int | None]] = []
    starts: list[tuple[float, int | None]] = [(1.0, None)]
    if last >= 0:
        a = get("attraction", (query, items[last]))
        starts = []
        for relevant, chance, tau in ((1, a, tau3), (0, 1 - a, tau2)):
            worlds.append((chance * (1.0 if last == end else 1 - tau), last, relevant))
            starts.append((chance * tau, relevant))
    for reach, relevant in starts:
        for stop in range(last + 1, len(items)):
            reach *= 1 - get("attraction", (query, items[stop]))
            worlds.append((reach * (1.0 if stop == end else 1 - tau1), stop, relevant))
            reach *= tau1
    return worlds


def ccm(session: Session, get: Get) -> Expected:
    """By brute force: whether each clicked item was relevant, and where the user may have stopped."""
    query, items, clicks = session
    tau1, tau2, tau3 = (
        get(name, None)
        for name in ("continue_no_click", "continue_click_irrelevant", "continue_click_relevant")
    )
    last = _last(clicks) if any(clicks) else -1
    end = len(items) - 1
    for k, d in enumerate(items[: last + 1]):
        a = get("attraction", (query, d))
        yield "attraction", (query, d), clicks[k], 1
        if k < last and not clicks[k]:
            yield "continue_no_click", None, 1, 1
        elif k < last:
            relevant = a * tau3 / (a * tau3 + (1 - a) * tau2)
            yield "attraction", (query, d), relevant, 1
            yield "continue_click_relevant", None, relevant, relevant
            yield "continue_click_irrelevant", None, 1 - relevant, 1 - relevant
    worlds = _ccm_worlds(session, get, (tau1, tau2, tau3), last)
    total = sum(world[0] for world in worlds)
    names = {1: ("continue_click_relevant", tau3), 0: ("continue_click_irrelevant", tau2)}
    for probability, stop, relevant in worlds:
        weight = probability / total
        if relevant is not None:
            name, tau = names[relevant]
            yield "attraction", (query, items[last]), weight * relevant, weight
            yield name, None, weight * (1 if stop > last else tau if last == end else 0), weight
        for k in range(last + 1, len(items)):
            pair = (query, items[k])
            yield "attraction", pair, 0 if k <= stop else weight * get("attraction", pair), weight
            if k < stop:
                yield "continue_no_click", None, weight, weight
            elif k == stop:
                yield "continue_no_click", None, weight * (tau1 if stop == end else 0), weight


STEPS = {"PBM": pbm, "UBM": ubm, "DBN": dbn, "CCM": ccm}


def maximised(name: str, sessions: Sequence[Session], iterations: int) -> dict[str, Value]:
    """EM from 0.5, each parameter by its key."""
    values: dict[str, Value] = {}

    def get(part: str, key: object) -> float:
        return values.get(part, {}).get(key, 0.5)

    for _ in range(iterations):
        num: dict[str, Value] = defaultdict(lambda: defaultdict(float))
        den: dict[str, Value] = defaultdict(lambda: defaultdict(float))
        for session in sessions:
            for part, key, n, d in STEPS[name](session, get):
                num[part][key] += n
                den[part][key] += d
        values = {
            part: {key: min((1 + num[part][key]) / (2 + den[part][key]), 1 - 1e-6) for key in num[part]}
            for part in num
        }
    return values


def mean_log_likelihood(sessions: Sequence[Session], log_likelihood: Callable[[Session], float]) -> float:
    """The mean over sessions of the mean over positions."""
    return math.fsum(log_likelihood(session) / len(session[1]) for session in sessions) / len(sessions)
