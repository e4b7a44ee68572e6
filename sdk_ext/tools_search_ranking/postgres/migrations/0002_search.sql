-- One search in one snapshot: a STABLE function uses the snapshot of the calling statement.
--
--     score = (bm25 + 3 * share of the name that the query covers) * (0.65 + 0.35 * share of the query that it covers)
--
-- as in the in-memory ranking. For each term the `most_postings` tools with the highest impact are read, until about
-- `most_read` have been read in total. The `most_scored` most likely of the found tools are scored exactly.

create type hit as (
    place int, -- 1 for the best
    tool int,
    name bytea,
    score float8,
    members int, -- bits
    definition text, -- if requested
    total int, -- total number of matches
    revision bigint -- of the catalog
);

create function trigrams(word text) returns text[] immutable parallel safe language sql as $$
    select array_agg(distinct substr('^' || word || '$', place, 3)) from generate_series(1, length(word)) place
$$;

-- Whether two words differ by one typo: an extra, missing or wrong letter, or two swapped letters.
create function is_one_slip(word text, other text) returns boolean immutable parallel safe language plpgsql as $$
declare
    shorter text := case when length(word) <= length(other) then word else other end;
    longer text := case when length(word) <= length(other) then other else word end;
    same int := 0;
begin
    if word = other or length(longer) > length(shorter) + 1 then
        return false;
    end if;
    while same < length(shorter) and substr(shorter, same + 1, 1) = substr(longer, same + 1, 1) loop
        same := same + 1;
    end loop;
    if length(longer) > length(shorter) then
        return substr(longer, same + 2) = substr(shorter, same + 1);
    end if;
    return substr(word, same + 2) = substr(other, same + 2)
        or (substr(word, same + 3) = substr(other, same + 3)
            and substr(word, same + 1, 2) = reverse(substr(other, same + 1, 2)));
end
$$;

-- The number of tools with a term in the visible audiences; `visible` is null if all are visible. Unnesting the arrays
-- side by side in a select list takes half the time of `from unnest(...)`. Returning a table lets the planner merge the
-- function into the calling statement.
create function tools_having(counted term, visible boolean[]) returns table (tools int)
stable parallel safe language sql as $$
    select case when visible is null then counted.tools else (
        select coalesce(sum(own.tools) filter (where visible[own.audience]), 0)::int
        from (select unnest(counted.audiences) as audience, unnest(counted.counts) as tools) own
    ) end
    limit 1 -- makes the planner compute it once for each term
$$;

-- The known stems of which a word may be a typo or another form, best first: at most two.
create function nearest(of_generation int, word text, word_slips int[], visible boolean[])
returns table (id int, tools int, likeness float8) stable language sql as $$
    with begun as (
        select term.id, term.key, has.tools
        from term, tools_having(term, visible) has
        where term.generation = of_generation and term.start = left(word, 4) and has.tools > 0
        order by abs(length(term.key) - length(word)), term.key limit 40
    ), slipped as (
        select term.id, term.key, has.tools
        from term, tools_having(term, visible) has
        where term.generation = of_generation and term.slips && word_slips and has.tools > 0
        order by abs(length(term.key) - length(word)), term.key limit 40
    ), alike as (
        select near.id, near.key, near.tools, case
            when is_one_slip(word, near.key) then 1 - 1.0::float8 / greatest(length(word), length(near.key))
            when left(word, 4) = left(near.key, 4) then (
                select 2.0::float8 * count(*) filter (where part.words = 2) / sum(part.words)::float8
                from (select count(*) as words from unnest(trigrams(word) || trigrams(near.key)) own group by own) part
            )
        end as likeness
        from (select * from begun union select * from slipped) near
    )
    select alike.id, alike.tools, alike.likeness from alike
    where alike.likeness >= 0.55 or is_one_slip(word, alike.key)
    order by alike.likeness desc, alike.key limit 2
$$;

-- The visible audiences if `having_words` is to look them up in the index, each of which takes about as long as reading a
-- row. Null if it is to check rows instead: if few tools have all of the words, which a sample of the audiences shows, or
-- if there are few audiences and all of them are visible. Tools that are not visible do not influence this.
create function audiences_to_look_up(of_generation int, words int[], visible boolean[], seen int[])
returns int[] stable parallel safe language sql as $$
    select case
        when cardinality(seen) <= 64 then case when visible is not null then seen end
        when (
            select count(*) from (
                select from document
                where generation = of_generation and floor @> words and array[audience] && (
                    select array_agg(id) from unnest(seen) with ordinality audience (id, place)
                    where place % (cardinality(seen) / 16) = 0
                )
                limit 17
            ) own
        ) > 16 then seen
    end
$$;

-- The visible tools with all of the words: by looking up some of the audiences in `to_look_up` at a time, so that not
-- every tool with frequent words is found for a statement with a limit; or, if that is null, by checking rows.
create function having_words(of_generation int, words int[], visible boolean[], to_look_up int[])
returns setof document stable parallel safe language sql as $$
    select * from document
    where to_look_up is null and generation = of_generation and floor @> words and (visible is null or visible[audience])
    union all
    select own.* from (
        select array_agg(id) as ids from unnest(to_look_up) with ordinality audience (id, place)
        group by (place - 1) / 64 order by min(place)
    ) part, lateral (
        select * from document
        where generation = of_generation and floor @> words and array[audience] && part.ids
        offset 0 -- makes the planner use the index for both conditions
    ) own
$$;

-- The parameters from `keys` to `slips` describe the terms of the query, in order: see `request.py`.
create function search(
    of_catalog text,
    seen_by text[], -- the caller's groups; null to see every tool
    keys text[],
    weights float8[],
    covering boolean[], -- whether it is a word of the query itself, which covers part of it
    naming float8[], -- the share of a name that the term covers
    lacking boolean[], -- whether the word counts as an uncovered part of the query if no tool has it
    standing text[], -- the query's word that a relative stands for; the relative counts three times if no tool has it
    slips int[], -- hashes of the words that may be corrected, concatenated
    slip_counts int[], -- number of hashes for each word
    joined_written text[], -- two adjacent words of the query joined to one, as written
    joined_stem text[],
    floor_keys text[], -- the terms of the query by the draft's definition
    exact_names bytea[], -- names to match exactly: the query, or else the trimmed query
    of_embedder text, -- the model that made these vectors of the query's sentences; null to rank by words alone
    vectors text[],
    meaning_weight float8,
    least_cosine bigint, -- for tools that share no word with the query
    first_place int, -- first place with a definition
    last_place int, -- last place with a definition, and of the answer
    most_postings int default 2000,
    most_read int default 12000,
    most_scored int default 250,
    most_ranked int default 100,
    most_floor int default 10000,
    most_compared int default 20000
) returns setof hit stable language plpgsql
security definer -- readers may not select from some of these tables
set search_path = tools_search, pg_temp
set plan_cache_mode = force_generic_plan
set synchronize_seqscans = off
set jit = off
as $$
#variable_conflict use_column
declare
    g int;
    of_revision bigint;
    visible boolean[]; -- by audience; null if all are visible
    seen int[]; -- the visible audiences
    to_look_up int[]; -- those of them to look up by `having_words`; null to check rows
    seen_blocks int[]; -- blocks with visible tools; null if all are visible
    all_tools float8;
    average float8;
    rarest float8;
    asked int[];
    asked_idf float8[];
    asked_weight float8[];
    asked_covers float8[];
    asked_names float8[];
    asked_tools int[];
    total_idf float8;
    is_cut boolean;
    own_stems int[]; -- stems of the query's own words, the rarest first
    own_postings int;
    candidates int[];
    exact_tool int;
    exact_name bytea;
    wanted int[]; -- the terms that the matching floor requires
    having_all int; -- number of tools with all of them
    most_known int := greatest(least(last_place, most_ranked), 1); -- number of best tools to score exactly
    ranked hit[];
    last_score float8;
    all_found int; -- total number of matches
    by_meaning boolean; -- whether meaning counts
    fused hit[];
begin
    select catalog.generation, catalog.revision, generation.embedder = of_embedder into g, of_revision, by_meaning
    from catalog left join generation on generation.id = catalog.generation
    where catalog.name = of_catalog and may_read(catalog.id);
    if g is null then
        raise exception 'there is no catalog of this name that % may search', session_user using errcode = 'TS404';
    end if;

    -- Lock the partitions, so that an import that replaces them cannot drop them during the following statements.
    perform from tool, document, term, posting
    where tool.generation = g and document.generation = g and term.generation = g and posting.generation = g limit 0;
    if to_regclass('posting_' || g) is null then
        raise exception 'the catalog was replaced' using errcode = 'serialization_failure';
    end if;

    -- The audiences that the caller sees, and their statistics.
    with marked as (
        select *, seen_by is null or groups = '{}' or id in (
            select own.id from audience own, unnest(own.groups) said where own.generation = g
                and said in (select unnest(seen_by))
        ) as is_seen
        from audience where generation = g
    )
    select array_agg(is_seen order by id), array_agg(id order by id) filter (where is_seen),
        coalesce(sum(tools) filter (where is_seen), 0), coalesce(sum(length) filter (where is_seen), 0)
    into visible, seen, all_tools, average
    from marked;
    if all_tools = 0 then
        return;
    end if;
    by_meaning := by_meaning and cardinality(vectors) > 0 and all_tools <= most_compared;
    if by_meaning then -- which is added to the scores of as many tools as possible
        most_scored := 4 * most_scored;
        most_ranked := most_scored;
    end if;
    average := coalesce(nullif(average / all_tools, 0), 1);
    if seen_by is null or not (false = any (visible)) then
        visible := null;
    else
        select array_agg(distinct block order by block) into seen_blocks
        from (select unnest(blocks) as block from audience where generation = g and visible[id]) own;
    end if;
    rarest := ln(1 + (all_tools + 0.5) / 0.5);

    -- The terms in visible tools, and for unknown words the nearest known ones.
    with found as materialized (
        select term.id, term.key, has.tools from term, tools_having(term, visible) has
        where term.generation = g and term.key = any (keys || standing || joined_written || joined_stem)
            and has.tools > 0
    ), said as (
        select row_number() over () as place, said.*, sum(said.slip_count) over (rows unbounded preceding) as slips_end
        from unnest(keys, weights, covering, naming, lacking, standing, slip_counts)
            said (key, weight, covers, names, lacks, stands_for, slip_count)
    ), looked_up as (
        select said.place, said.key, said.covers, said.names, said.lacks, said.slip_count, said.slips_end, found.id,
            coalesce(found.tools, 0) as tools,
            said.weight * case
                when said.stands_for is null or said.stands_for in (select found.key from found) then 1 else 3
            end as weight
        from said left join found on found.key = said.key
    ), corrected as (
        select close.id, close.tools, 0.8 * close.likeness * word.weight as weight, 0.8 * close.likeness as covers,
            0.8 * close.likeness as names
        from (select * from looked_up where tools = 0 and slip_count > 0 order by place limit 12) word,
            lateral nearest(g, word.key, slips[word.slips_end - word.slip_count + 1:word.slips_end], visible) close
    ), known as (
        select id, tools, weight, covers::int::float8 as covers, names from looked_up where tools > 0
        union all
        select id, tools, weight, covers, names from corrected
    ), joined as (
        select distinct part.id, part.tools
        from unnest(joined_written, joined_stem) pair (written, stem)
            join found whole on whole.key = pair.written
            join found part on part.key = pair.stem
        where pair.stem <> all (keys) and part.id not in (select id from corrected)
    ), united as (
        select id, sum(weight) as weight, sum(covers) as covers, sum(names) as names,
            ln(1 + (all_tools - max(tools) + 0.5) / (max(tools) + 0.5)) as idf, max(tools) as tools
        from (select * from known union all select id, tools, 0.5, 0, 0 from joined) every_term
        group by id
    )
    select array_agg(id order by weight * idf desc, id), array_agg(idf order by weight * idf desc, id),
        array_agg(weight order by weight * idf desc, id), array_agg(covers order by weight * idf desc, id),
        array_agg(names order by weight * idf desc, id),
        array_agg(tools order by weight * idf desc, id),
        coalesce(bool_or(tools > most_postings) or sum(tools) > most_read, false),
        (select sum(case when tools = 0 then rarest else ln(1 + (all_tools - tools + 0.5) / (tools + 0.5)) end)
            from looked_up where covers and (tools > 0 or lacks)),
        array_agg(id order by tools, id) filter (where covers >= 1), sum(tools) filter (where covers >= 1)
    into asked, asked_idf, asked_weight, asked_covers, asked_names, asked_tools, is_cut, total_idf, own_stems, own_postings
    from united;
    total_idf := coalesce(nullif(total_idf, 0), 1);

    -- Candidates for the best tools, by their postings. Read the terms that can add most to a score first, and for each
    -- the postings with the highest impact, until there are enough. For callers who see a part, read level by level only
    -- terms of which not all is read.
    with asked_term as (
        select *, sum(least(tools, most_postings)) over (rows unbounded preceding) - least(tools, most_postings) as before
        from unnest(asked, asked_idf, asked_weight, asked_covers, asked_names, asked_tools)
            asked_term (id, idf, weight, covers, names, tools)
    ), found as (
        select own.tool, sum(asked_term.weight * asked_term.idf * (own.impact >> 3)) * 2.5 / 1024 as bm25,
            sum(asked_term.names / nullif(own.impact & 7, 0)) as name_share,
            sum(asked_term.covers * asked_term.idf) as covered
        from asked_term, lateral (
            select (part.posting & 2147483647)::int as tool, (part.posting >> 31) & 8191 as impact
            from (
                select unnest(postings) as posting
                from (
                    (
                        select postings from posting
                        where visible is null and generation = g and term = asked_term.id
                        order by level desc, block desc
                    )
                    union all
                    select own.postings
                    from generate_series(
                        case when asked_term.tools > most_postings then (
                            select max(level) from posting where generation = g and term = asked_term.id
                        ) else 0 end, 0, -1
                    ) of_level, lateral (
                        select postings from posting
                        where generation = g and term = asked_term.id and block = any (seen_blocks)
                            and level between of_level
                                and case when asked_term.tools > most_postings then of_level else 32767 end
                        order by level desc, block desc
                    ) own
                    where visible is not null
                ) by_level
            ) part
            where visible is null or visible[(part.posting >> 44)::int]
            limit most_postings
        ) own
        where asked_term.before < most_read
        group by own.tool
    )
    select array_agg(tool) into candidates from (
        select tool from found
        order by (bm25 + 3 * least(coalesce(name_share, 0), 1)) * (0.65 + 0.35 * least(covered / total_idf, 1)) desc, tool
        limit most_scored
    ) best;

    -- If there were too many postings to read all of them, add tools with all words of the query: from the visible
    -- postings of the two rarest words if there are few of all, or else from the index on `floor`, which covers all tools.
    if is_cut and cardinality(own_stems) > 1 then
        if visible is null or own_postings > 4 * most_read then
            to_look_up := audiences_to_look_up(g, own_stems, visible, seen);
            candidates := candidates || array(
                select tool from having_words(g, own_stems, visible, to_look_up)
                limit most_scored
            );
        else
            candidates := candidates || array(
                select rare.tool from (
                    select (posting & 2147483647)::int as tool from (
                        select unnest(postings) as posting
                        from posting where generation = g and term = any (own_stems[:2]) and block = any (seen_blocks)
                    ) own
                    where visible[(posting >> 44)::int]
                    group by 1 having count(*) = 2
                    order by 1
                ) rare, lateral (
                    select from document
                    where generation = g and document.tool = rare.tool and terms @> own_stems
                    limit 1 -- makes the planner use the index
                ) having_others
                limit most_scored
            );
        end if;
    end if;

    -- The tool whose name is the query, and the number of tools with all terms of the query.
    select tool.id, tool.name into exact_tool, exact_name
    from unnest(exact_names) with ordinality asked (name, place)
    join tool on generation = g and sha256(tool.name) = sha256(asked.name)
    where visible is null or visible[audience] order by place limit 1;
    select array_agg(term.id) into wanted from term where term.generation = g and term.key = any (floor_keys);
    if cardinality(wanted) = cardinality(floor_keys) then
        to_look_up := audiences_to_look_up(g, wanted, visible, seen);
        select count(*) into having_all from (
            select from having_words(g, wanted, visible, to_look_up)
            limit most_floor + most_ranked + 1
        ) matching;
    end if;

    -- Exact scores, and the best tools. The covered share of a name depends on the counts of all words in it, so it is
    -- computed only for tools that can be in the answer, or for all ranked tools if an exact name or the floor adds some.
    if having_all > 0 or exact_tool is not null or by_meaning then
        most_known := most_ranked;
    end if;
    with scored as materialized (
        select tool, sum(
                asked_term.weight * asked_term.idf * 7 * (used >> 7) / ((used >> 7) + 6 * (0.3 + 0.7 * length / average))
            ) / 2.8 as bm25,
            coalesce(sum(asked_term.names * asked_term.idf) filter (where used & 1 > 0), 0) as named_idf,
            0.65 + 0.35 * least(sum(asked_term.covers * asked_term.idf) / total_idf, 1) as share,
            bit_or(used & 63) as members
        from (
            select tool, length, unnest(terms) as term, unnest(uses) as used
            from document where generation = g and tool = any (candidates)
        ) own join unnest(asked, asked_idf, asked_weight, asked_covers, asked_names)
            asked_term (id, idf, weight, covers, names) on asked_term.id = own.term
        group by tool
    ), known as materialized (
        select scored.*, name, terms, uses from scored join document on generation = g and document.tool = scored.tool
        where (bm25 + case when named_idf > 0 then 3 else 0 end) * share >= coalesce((
            select 0.999 * bm25 * share from scored order by 1 desc offset most_known - 1 limit 1 -- includes all ties
        ), 0)
    ), name_stem as ( -- with its tools: the planner would compare the words of all names with each other in a join
        select id, array_agg(tool) as tools from (
            select tool, unnest(terms) as id, unnest(uses) as used from known where named_idf > 0
        ) own where used & 64 > 0 group by id
    ), name_idf as (
        select tool, sum(idf) as idf from (
            select unnest(stem.tools) as tool, ln(1 + (all_tools - has.tools + 0.5) / (has.tools + 0.5)) as idf
            from name_stem stem, lateral (
                select own.tools from term, tools_having(term, visible) own
                where term.generation = g and term.id = stem.id limit 1 -- makes the planner use the index
            ) has
        ) own group by tool
    ), total as (
        select tool, name, members, (bm25 + 3 * least(named_idf / coalesce(name_idf.idf, 1), 1)) * share as score
        from known left join name_idf using (tool)
    ), best as (
        select tool, name, members, round(score / max(score) over () * 1e9) / 1e9 as score
        from total order by score desc, name limit most_known
    )
    select coalesce(array_agg(row(0, tool, name, score, members, null, 0, of_revision)::hit order by score desc, name), '{}'),
        coalesce(min(score), 1), (select least(count(*), most_ranked) from scored)
    into ranked, last_score, all_found
    from best;

    if exact_tool is not null then
        ranked := row(0, exact_tool, exact_name, 1, 1 | coalesce(
            (select hit.members from unnest(ranked) hit where hit.tool = exact_tool),
            (
                select bit_or(own.members) from document, unnest(floor, floor_members) own (term, members)
                where generation = g and tool = exact_tool and own.term = any (wanted)
            ),
            0
        ), null, 0, of_revision)::hit || array(
            select hit from unnest(ranked) hit where hit.tool <> exact_tool order by hit.score desc, hit.name
        );
        all_found := cardinality(ranked);
    end if;

    -- The matching floor: tools with all terms of the query follow the ranked ones, with the last score. They are
    -- counted for every page, but read only for pages that contain them.
    if having_all > 0 then
        select all_found + least(having_all - count(*), most_floor) into all_found from document
        where generation = g and tool in (select hit.tool from unnest(ranked) hit) and floor @> wanted;
        if all_found > cardinality(ranked) and (last_place > cardinality(ranked) or by_meaning) then
            ranked := ranked || array(
                select row(0, tool, name, last_score, (
                    select bit_or(own.members) from unnest(floor, floor_members) own (term, members)
                    where own.term = any (wanted)
                ), null, 0, of_revision)::hit
                from (
                    select tool, name, floor, floor_members from having_words(g, wanted, visible, to_look_up)
                    where tool not in (select hit.tool from unnest(ranked) hit)
                    limit most_floor
                ) added
                order by name
            );
        end if;
    end if;

    if by_meaning then
        fused := array(
            select own from by_words_and_meaning(
                g, ranked, vectors, meaning_weight, least_cosine, seen, all_tools, exact_tool, last_place
            ) own order by own.place
        );
        if cardinality(fused) > 0 then
            ranked := fused;
            all_found := fused[1].total;
        end if;
    end if;

    return query
        select hit.place::int, hit.tool, hit.name, hit.score, hit.members,
            case when hit.place between first_place and last_place then (
                select tool.definition from tool where tool.generation = g and tool.id = hit.tool
            ) end,
            all_found, of_revision
        from unnest(ranked) with ordinality hit (was, tool, name, score, members, definition, total, revision, place)
        where hit.place <= last_place
        order by hit.place;
end
$$;
