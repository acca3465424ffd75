-- The tables of version 2 in PostgreSQL.
create table meta (version bigint not null);
insert into meta values (2);

create table queries (
    id bigint generated always as identity primary key, name text not null collate "C" unique, policy text not null,
    positions bigint not null, horizon bigint not null, "window" bigint, created bigint not null, frozen text,
    updated bigint not null default 0, number bigint not null default 0, snapshot bigint not null default 0, generation bigint not null default 0, items bigint not null default 0, impressions bigint not null default 0, learned bigint not null default 0, settled bigint not null default 0, voided bigint not null default 0, clicks bigint not null default 0, late bigint not null default 0, treated bigint not null default 0, treated_clicks bigint not null default 0, treated_squares bigint not null default 0, held_out bigint not null default 0, held_out_clicks bigint not null default 0, held_out_squares bigint not null default 0, progress bigint not null default 0, idle bigint not null default 0
) with (fillfactor = 50);

create table impressions (
    number bigint generated always as identity primary key, id text not null collate "C" unique, query bigint not null,
    at bigint not null, expires bigint not null, source bigint not null, compared boolean not null,
    items text not null, body bytea not null, propensities bytea, learning bytea, outcome bigint not null,
    clicks bigint not null
) with (fillfactor = 70);
create index due on impressions (expires, number) where outcome = 0;

create table events (
    number bigint generated always as identity primary key, key text not null collate "C" unique,
    impression text not null, item text not null, at bigint not null, late boolean not null, timestamp text
);

create table log (
    query bigint not null, number bigint not null, records bytea not null, at bigint not null,
    primary key (query, number)
);

create table snapshots (
    query bigint not null, number bigint not null, state bytea not null, at bigint not null,
    base boolean not null default false, primary key (query, number)
);
create index to_prune on snapshots (at) where not base;

create table histories (query bigint primary key, history bytea not null);
