"""Yandex's log for relevance prediction (WSCD 2012)."""

import re
from collections.abc import Sequence

from clickbandit.logs.formats._yandex import TAB, YandexFormat, has_domains
from clickbandit.logs.formats.base import SESSION, Writer
from clickbandit.logs.scan import LineLayout

_PARSE = f"""
    SELECT n, session, kind, target, query, items, size,
           CASE WHEN fields < 4 THEN 'fewer than 4 fields'
                WHEN kind NOT IN ('Q', 'C') THEN 'the third field is neither Q nor C'
                WHEN kind = 'C' AND fields > 4 THEN 'a C line with more than 4 fields'
                WHEN kind = 'Q' AND fields < 5 THEN 'a Q line without a region'
                WHEN session = '' OR (contains(line, {TAB} || {TAB}) AND NOT (kind = 'Q' AND size = 0))
                    THEN 'an empty field' END AS problem
    FROM (SELECT n, line, f[1] AS session, f[3] AS kind, f[4] AS target, {{query}} AS query,
                 substr(line, 6 + length(f[1]) + length(f[2]) + length(f[3]) + length(f[4])
                              + length(f[5])) AS items, len(f) - 1 AS fields,
                 CASE WHEN len(f) = 7 AND f[6] = '' THEN 0 ELSE len(f) - 6 END AS size
          FROM (SELECT n, line, string_split(line, {TAB}) AS f FROM block))
"""
_QUERY = {"query": "f[4]", "query+region": "f[4] || '_' || f[5]"}


def _session(query: str, items: Sequence[str], clicks: Sequence[int]) -> str:
    lines = ["\t".join([SESSION, "0", "Q", query, "0", *items])]
    clicked = [item for item, click in zip(items, clicks, strict=True) if click]
    lines += [f"{SESSION}\t{time}\tC\t{item}" for time, item in enumerate(clicked, start=1)]
    return "\n".join(lines) + "\n"


class YandexRelpredFormat(YandexFormat):
    """`SessionID Time Q QueryID RegionID URL..` and `SessionID Time C URLID`, separated by tabs.

    A click belongs to the latest list above it in its session that shows the item.
    """

    query_keys = tuple(_QUERY)
    layout = LineLayout(query=3, page=-1, items=5, target=3)
    writer = Writer("", _session, re.compile(r"[\t\r\n\0]"))

    def is_line(self, fields: Sequence[str]) -> bool:
        if len(fields) == 4:
            return fields[1] != "M" and fields[2] == "C"
        return len(fields) > 4 and fields[2] == "Q" and not has_domains(fields)

    def parse(self, query_key: str) -> str:
        return _PARSE.format(query=_QUERY[query_key])
