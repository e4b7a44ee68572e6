-- Read permissions. The owner of the schema writes. Each reader has a separate role, and sees only the catalogs that it
-- was granted, through `search` and, under row-level security, in the tables that it may select from.

create table reader (
    role name not null,
    catalog int not null references catalog on delete cascade,
    primary key (role, catalog)
);

-- Checks the role that logged in, which only a superuser can change within a session.
create function may_read(of_catalog int) returns boolean stable security definer language sql
set search_path = tools_search, pg_temp as $$
    select exists (select from reader where role = session_user and catalog = of_catalog)
        or pg_has_role(session_user, (select nspowner from pg_namespace where nspname = 'tools_search'), 'usage')
$$;

create function readable_generations() returns int[] stable security definer language sql
set search_path = tools_search, pg_temp as $$
    select coalesce(array_agg(id), '{}') from generation where may_read(catalog)
$$;

create function allow(of_role name, of_catalog text) returns void language plpgsql
set search_path = tools_search, pg_temp as $$
begin
    insert into reader select of_role, id from catalog where name = of_catalog on conflict do nothing;
    execute format('grant usage on schema tools_search to %I', of_role);
    execute format('grant select on migration, catalog, generation, audience, tool to %I', of_role);
    execute format('grant execute on function search, may_read, readable_generations to %I', of_role);
end
$$;

-- Parameters contain words of queries, which must not appear in statement logs. Only a superuser can set this; see
-- README.md.
do $$ begin
    if (select rolsuper from pg_roles where rolname = current_user) then
        execute format('alter database %I set log_parameter_max_length = 0', current_database());
        execute format('alter database %I set log_parameter_max_length_on_error = 0', current_database());
        execute format('alter database %I set auto_explain.log_parameter_max_length = 0', current_database());
    end if;
end $$;

-- `explain` shows the planner's estimates, which would otherwise be based on the rows of all tenants.
do $$ declare
    stored record;
begin
    for stored in
        select relname, attname from pg_attribute join pg_class on pg_class.oid = attrelid
        where relnamespace = 'tools_search'::regnamespace and attnum > 0 and not attisdropped
            and relname in ('catalog', 'generation', 'audience', 'tool')
    loop
        execute format('alter table %I alter column %I set statistics 0', stored.relname, stored.attname);
    end loop;
end $$;

revoke all on all tables in schema tools_search from public;
revoke all on all functions in schema tools_search from public;

alter table reader enable row level security; -- without a policy, so only the owner can access it
alter table catalog enable row level security;
alter table generation enable row level security;
alter table audience enable row level security;
alter table tool enable row level security;
alter table document enable row level security;
alter table term enable row level security;
alter table posting enable row level security;

create policy readers on catalog for select using (may_read(id));
create policy readers on generation for select using (may_read(catalog));
create policy readers on audience for select using (generation = any (array(select unnest(readable_generations()))));
create policy readers on tool for select using (generation = any (array(select unnest(readable_generations()))));
create policy readers on document for select using (generation = any (array(select unnest(readable_generations()))));
create policy readers on term for select using (generation = any (array(select unnest(readable_generations()))));
create policy readers on posting for select using (generation = any (array(select unnest(readable_generations()))));
