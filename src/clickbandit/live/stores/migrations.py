"""Tables that an earlier version made, brought up to date in place: the steps, in words that both databases know.

Every step only adds what may be empty, so that workers of the version before can go on while others are replaced.
"""

from clickbandit.errors import InputError

VERSION = 3
"""Of the tables."""
STEPS: dict[int, tuple[str, ...]] = {
    2: (
        "alter table meta add column probed bigint",
        "alter table queries add column prior {blob}",
        'alter table impressions add column "user" text',
        "alter table impressions add column share double precision",
        "alter table impressions add column context {blob}",
        "alter table impressions add column features {blob}",
        "alter table impressions add column reward double precision",
        "alter table events add column reward double precision",
        "alter table log add column checksum bigint",
        "alter table snapshots add column checksum bigint",
        'create index of_user on impressions ("user") where "user" is not null',
    ),
}
"""By the version that they start from."""


def steps(store: str, version: int | None, blob: str) -> list[str]:
    """The statements that bring tables of a version up to date, none if they are; `blob` is the type of bytes."""
    if version is None:
        raise InputError(
            f"{store} must hold the tables of a ranker or none, found other tables: name another"
        )
    if version > VERSION:
        raise InputError(
            f"{store} was written by a later version of clickbandit: this one knows tables of version {VERSION}, found "
            f"{version}: install the later one, or start from the backup that its upgrade left"
        )
    if version < min(STEPS):
        raise InputError(
            f"{store} must hold tables of version {min(STEPS)} or later, found {version}: name another"
        )
    return [step.format(blob=blob) for found in range(version, VERSION) for step in STEPS[found]]
