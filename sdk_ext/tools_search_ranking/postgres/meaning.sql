-- Ranking by meaning, for catalogs that are imported with an embedder. This is no migration, because it needs the
-- extension `vector`, which only such catalogs need. `{extension}` stands for the schema that contains it.

-- Vectors in whole steps, which half-precision numbers represent exactly, as long as one. Their inner products are below
-- 2 to the power of 24, so any order of additions returns the same.
create table vector (
    generation int not null,
    tool int not null,
    audience int not null,
    of_group bigint, -- null if the tool has no group
    own {extension}.halfvec not null, -- of its name, title and description
    summary {extension}.halfvec -- of the first sentence of its description
) partition by list (generation);

alter table vector alter column own set storage main, alter column summary set storage main; -- in the row, if they fit
create unique index on vector (generation, tool);
create index on vector (generation, audience);

create table vector_group (
    generation int not null references generation on delete cascade,
    id bigint not null, -- a hash of its text
    own {extension}.halfvec not null,
    primary key (generation, id)
);

-- The cosine of two vectors, where 2 to the power of 20 stands for 1.
create function cosine(one {extension}.halfvec, other {extension}.halfvec) returns bigint
immutable parallel safe language sql as $$
    select (-(one operator({extension}.<#>) other))::bigint >> 2
$$;

-- The hits by words and meaning up to the last place, as `SemanticIndex` computes them: both kinds of scores become
-- standard scores over the visible tools, and are added. No hits if any visible tool has no vector.
create function by_words_and_meaning(
    of_generation int,
    by_words hit[],
    asked text[], -- a vector for each sentence of the query
    weight float8, -- of meaning
    least_cosine bigint, -- for tools that share no word with the query
    seen int[], -- the visible audiences
    all_tools float8, -- the number of visible tools
    exact_tool int, -- the tool whose name is the query, which is the first hit
    last_place int
) returns setof hit stable language sql as $$
    with query as materialized (
        select number, text::{extension}.halfvec as own from unnest(asked) with ordinality said (text, number)
    ), by_group as materialized (
        select vector_group.id, query.number, cosine(vector_group.own, query.own) as cosine
        from vector_group, query where vector_group.generation = of_generation
    ), compared as (
        select tool, max(greatest(own, summary) + (coalesce(by_group.cosine, own) >> 2)) as meant,
            max(greatest(own, summary)) as nearest
        from (
            select near.tool, near.of_group, query.number, cosine(near.own, query.own) as own,
                cosine(near.summary, query.own) as summary
            from unnest(seen) audience (id), lateral (
                select * from vector where generation = of_generation and vector.audience = audience.id
                offset 0 -- makes the planner use the index for each audience
            ) near, query
            offset 0 -- makes the planner compute each cosine once
        ) one left join by_group on by_group.id = one.of_group and by_group.number = one.number
        group by tool
    ), every_tool as materialized (
        select compared.tool, compared.meant, compared.nearest, own.tool is not null as is_found,
            coalesce(round(own.score * 1048576), 0)::bigint as said, coalesce(own.members, 0) as members
        from compared left join unnest(by_words) own on own.tool = compared.tool
    ), sums as (
        select count(*) as tools, sum(said) as said, sum(meant) as meant,
            sqrt(nullif((count(*) * sum(said * said) - sum(said) * sum(said))::float8, 0)) as said_spread,
            sqrt(nullif((count(*) * sum(meant * meant) - sum(meant) * sum(meant))::float8, 0)) as meant_spread
        from every_tool
    ), standard as (
        select every_tool.tool, every_tool.is_found, every_tool.members, every_tool.nearest,
            coalesce((every_tool.said * sums.tools - sums.said)::float8 / sums.said_spread, 0) as said,
            coalesce((every_tool.meant * sums.tools - sums.meant)::float8 / sums.meant_spread, 0) as meant
        from every_tool, sums where sums.tools = all_tools
    ), added as materialized (
        select tool, members, said + weight * meant as total,
            is_found or (meant >= 1 and nearest >= least_cosine) as is_found
        from standard
    ), extremes as (
        select min(total) as least, nullif(max(total) filter (where is_found) - min(total), 0) as spread,
            count(*) filter (where is_found) as all_found
        from added
    ), found as (
        select *, rank() over (order by tool = exact_tool desc nulls last, total desc) as place
        from added, extremes where is_found
    )
    select row_number() over (order by found.place, named.name)::int, found.tool, named.name,
        case when found.tool = exact_tool then 1 else coalesce((found.total - found.least) / found.spread, 1) end,
        found.members, null, found.all_found::int, null::bigint
    from found, lateral (
        select name from document where document.generation = of_generation and document.tool = found.tool
        limit 1 -- makes the planner use the index
    ) named
    where found.place <= last_place
    order by found.place, named.name
$$;

alter table vector enable row level security; -- without a policy, so only the owner can access it
alter table vector_group enable row level security;
revoke all on vector, vector_group from public;
revoke all on function cosine, by_words_and_meaning from public;
