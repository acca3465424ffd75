"""Yandex's log for personalized search (Kaggle 2013)."""

from collections.abc import Sequence

from clickbandit.logs.formats._yandex import TAB, YandexFormat, has_domains
from clickbandit.logs.scan import LineLayout

_PARSE = f"""
    SELECT n, session || {TAB} || page AS session, replace(kind, 'T', 'Q') AS kind, target, target AS query,
           regexp_replace(results, ',[^\\t]*', '', 'g') AS items, size,
           CASE WHEN kind = 'M' THEN NULL
                WHEN fields < 5 THEN 'fewer than 5 fields'
                WHEN kind NOT IN ('Q', 'T', 'C') THEN 'the third field is none of Q, T and C'
                WHEN kind = 'C' AND fields > 5 THEN 'a C line with more than 5 fields'
                WHEN kind <> 'C' AND fields < 6 THEN 'a Q line without terms'
                WHEN session = '' OR page = '' OR target = '' THEN 'an empty field'
                WHEN kind <> 'C' AND size > 0 AND NOT regexp_full_match(results, '([^,\\t]+,[^,\\t]+\\t)+')
                    THEN 'a result that is not URL,Domain' END AS problem
    FROM (SELECT n, f[1] AS session, f[4] AS page, f[5] AS target, len(f) - 1 AS fields,
                 CASE WHEN f[2] = 'M' AND len(f) = 5 THEN 'M' ELSE f[3] END AS kind,
                 substr(line, 7 + length(f[1]) + length(f[2]) + length(f[3]) + length(f[4]) + length(f[5])
                              + length(f[6])) AS results,
                 CASE WHEN len(f) = 8 AND f[7] = '' THEN 0 ELSE len(f) - 7 END AS size
          FROM (SELECT n, line, string_split(line, {TAB}) AS f FROM block))
"""


class YandexPersonalizedFormat(YandexFormat):
    """`SessionID M Day UserID`, `SessionID Time Q SERPID QueryID Terms URL,Domain..` (or `T` for `Q`) and
    `SessionID Time C SERPID URLID`, separated by tabs.

    A click belongs to the list of its session and SERPID.
    """

    layout = LineLayout(query=4, page=3, items=6, target=4)

    def is_line(self, fields: Sequence[str]) -> bool:
        if len(fields) == 4:
            return fields[1] == "M"
        if len(fields) == 5 and fields[2] == "C":
            return True
        return len(fields) > 6 and fields[2] in ("Q", "T") and has_domains(fields)

    def parse(self, query_key: str) -> str:
        return _PARSE
