-- Catalogs of tools, ready to be searched.
--
-- A catalog is served from one generation. An import writes another one, in partitions of its own, and the catalog is
-- pointed to it when it is complete: readers see all of the old one or all of the new one. Partitioned tables have unique
-- indexes and no primary keys, so that a partition can have its indexes before it is attached.

create table catalog (
    id int generated always as identity primary key,
    name text not null unique,
    generation int,
    revision bigint not null default 0 -- goes up with every change
);

create table generation (
    id int generated always as identity primary key,
    catalog int not null references catalog on delete cascade,
    analysis int not null, -- version of the program's reading of definitions
    facts json not null default '{}', -- what the server advertises; not jsonb, which has no U+0000
    last_tool int not null default 0,
    last_term int not null default 0,
    made timestamptz not null default now()
);

-- The tools that the same callers see. Statistics are kept for each audience, so that those of any caller are sums over
-- what that caller sees. Ids are 1, 2, 3, ... in each generation.
create table audience (
    generation int not null references generation on delete cascade,
    id int not null,
    groups text[] not null, -- sorted; empty: every caller sees these tools
    tools int not null,
    length bigint not null, -- sum of the lengths of their documents
    blocks int[] not null, -- those that one of them is in, and perhaps others
    primary key (generation, id)
);

-- Definitions as `tools/list` sends them. JSON in ASCII, as PostgreSQL has no text with U+0000 or half a surrogate pair;
-- names are UTF-8 for the same reason, which has the order of code points.
create table tool (
    generation int not null,
    id int not null,
    name bytea not null,
    audience int not null,
    digest bytea not null,
    definition text not null,
    answer text -- of a catalog server
) partition by list (generation);

create unique index on tool (generation, id);
create unique index on tool (generation, sha256(name)); -- names may be longer than a key of an index

-- What a search reads of a tool. Frequencies and lengths are in steps, of which a whole word of the name has eight.
create table document (
    generation int not null,
    tool int not null,
    name bytea not null,
    audience int not null,
    length int not null,
    named int[] not null, -- the stems in the name
    terms int[] not null, -- stems, and words as they are written; in order
    steps smallint[] not null, -- by place in `terms`: the weighted frequency
    members smallint[] not null, -- by place in `terms`: a bit for each member of the definition that has the term
    floor int[] not null, -- stems in name, title and description, and the terms of the draft's matching floor
    floor_members smallint[] not null -- by place in `floor`, as in `members`
) partition by list (generation);

create unique index on document (generation, tool);
create index on document using gin (floor);

create table term (
    generation int not null,
    id int not null,
    key text collate "C" not null, -- a stem, `=` and a word as it is written, `~` and a term of the matching floor
    tools int not null, -- how many tools have it
    audiences int[] not null, -- the audiences that they belong to
    counts int[] not null, -- by place in `audiences`: how many of them
    start text collate "C", -- its first letters, if a query may have meant it
    slips int[] -- hashes of the word, and of the word without each of its letters, if a query may have meant it
) partition by list (generation);

create unique index on term (generation, id);
create unique index on term (generation, key);
create index on term (generation, start) where start is not null;
create index on term using gin (slips);

-- Tools by term, the most telling ones first: a row for each level of impact and block of 4,096 ids. Importing the tools
-- of an audience one after the other keeps those of callers who see little in few blocks.
create table posting (
    generation int not null,
    term int not null,
    level smallint not null, -- the higher, the more it can add to a score
    block int not null,
    tools int[] not null,
    impacts smallint[] not null, -- by place in `tools`: saturation of its frequency in 1/1024, and the size of the name
    audiences int[] not null -- by place in `tools`
) partition by list (generation);

create unique index on posting (generation, term, level, block);
