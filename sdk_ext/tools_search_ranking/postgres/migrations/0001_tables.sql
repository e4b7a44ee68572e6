-- Catalogs of tools, ready to be searched.
--
-- A catalog is served from one generation. An import writes a new generation to separate partitions, and switches the
-- catalog to it when it is complete, so readers see either the old tools or the new ones. Partitioned tables have
-- unique indexes instead of primary keys, so that a partition's indexes can be built before it is attached.

create table catalog (
    id int generated always as identity primary key,
    name text not null unique,
    generation int,
    revision bigint not null default 0 -- increases with every change
);

create table generation (
    id int generated always as identity primary key,
    catalog int not null references catalog on delete cascade,
    analysis int not null, -- version of the program's analysis of definitions
    embedder text, -- the model that made the vectors of these tools; null if they have none
    facts json not null default '{}', -- the server's advertised settings; not jsonb, which cannot contain U+0000
    last_tool int not null default 0,
    last_term int not null default 0,
    made timestamptz not null default now()
);

-- Sets of tools that the same callers see. Statistics are stored for each audience, so those for any caller are sums
-- over the audiences that the caller sees. Ids are 1, 2, 3, ... in each generation.
create table audience (
    generation int not null references generation on delete cascade,
    id int not null,
    groups text[] not null, -- sorted; empty if every caller sees these tools
    tools int not null,
    length bigint not null, -- sum of the lengths of their documents
    blocks int[] not null, -- blocks that contain any of its tools, and possibly others
    primary key (generation, id)
);

-- Definitions in the form of `tools/list`. They are JSON in ASCII, because PostgreSQL text cannot contain U+0000 or
-- lone surrogates. For the same reason names are UTF-8 bytes, which sort by code point.
create table tool (
    generation int not null,
    id int not null,
    name bytea not null,
    audience int not null,
    digest bytea not null,
    definition text not null,
    answer text -- a catalog server's fixed answer to calls
) partition by list (generation);

create unique index on tool (generation, id);
create unique index on tool (generation, sha256(name)); -- names may exceed the maximum size of index keys

-- The data of a tool that searches read. Frequencies and lengths are in steps; a whole word of the name counts eight.
create table document (
    generation int not null,
    tool int not null,
    name bytea not null,
    audience int not null,
    length int not null,
    terms int[] not null, -- stems, and words as written; sorted
    -- By position in `terms`, from the lowest bit: a bit for each of the 6 members of the definition that may have the
    -- term; whether it is a stem in the name; the weighted frequency in steps, which is at most 124.
    uses smallint[] not null,
    floor int[] not null, -- terms of the draft's matching floor, then stems in name, title and description
    floor_members smallint[] not null -- by position in `floor`, as in `uses`; only the matching floor's own terms
) partition by list (generation);

create unique index on document (generation, tool);

-- For a caller who sees a hundredth of the tools, an index on words alone would give a hundred rows for each visible one.
create index on document using gin (floor, (array[audience]));

create table term (
    generation int not null,
    id int not null,
    key text collate "C" not null, -- a stem, `=` and a word as written, or `~` and a term of the matching floor
    tools int not null, -- number of tools with the term
    audiences int[] not null, -- the audiences of these tools
    counts int[] not null, -- by position in `audiences`: number of these tools
    start text collate "C", -- its first letters, if misspelled words can be corrected to it
    slips int[] -- hashes of the word, and of it without each of its letters, if misspelled words can be corrected to it
) partition by list (generation);

create unique index on term (generation, id);
create unique index on term (generation, key);
create index on term (generation, start) where start is not null;
create index on term using gin (slips);

-- Tools by term, highest impact first: one row for each impact level and block of 4,096 ids. Importing the tools of
-- each audience consecutively keeps the tools of callers who see few of them in few blocks. One array takes less space
-- than three, each of which needs 20 to 24 bytes in a row.
create table posting (
    generation int not null,
    term int not null,
    level smallint not null, -- the higher, the more it can add to a score
    block int not null,
    -- By tool, from the lowest bit: 31 bits of its id; 13 of its impact, which is the saturation of the frequency in
    -- 1/1024 and the size of the name; 19 of its audience.
    postings bigint[] not null
) partition by list (generation);

create unique index on posting (generation, term, level, block);
