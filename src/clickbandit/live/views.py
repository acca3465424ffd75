"""Rows as people see them."""

from datetime import UTC, datetime

from clickbandit.intervals import difference_of_means, mean_of_sums
from clickbandit.live.store import QueryRow, Totals
from clickbandit.live.types import Arm, Holdout, QuerySummary


def summary(row: QueryRow) -> QuerySummary:
    return QuerySummary(
        query=row.name,
        policy=row.policy,
        positions=row.positions,
        horizon=row.horizon,
        items=row.items,
        frozen=row.frozen is not None,
        created_at=_time(row.created),
        updated_at=_time(max(row.updated, row.created)),
        impressions=row.impressions,
        learned=row.learned,
        settled=row.settled,
        voided=row.voided,
        clicks=row.clicks,
        late=row.late,
        past_horizon=row.learned > row.horizon,
    )


def holdout(row: QueryRow | Totals) -> Holdout | None:
    """Clicks per impression with the policy and without, once there is something to compare."""
    if row.held_out < 2 or row.treated < 2:
        return None
    treated = (row.treated, row.treated_clicks, row.treated_squares)
    held_out = (row.held_out, row.held_out_clicks, row.held_out_squares)
    return Holdout(
        treated=Arm(row.treated, row.treated_clicks, mean_of_sums(*treated)),
        held_out=Arm(row.held_out, row.held_out_clicks, mean_of_sums(*held_out)),
        difference=difference_of_means(treated, held_out),
    )


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
