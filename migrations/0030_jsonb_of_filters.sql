--! the JSON that filters name is jsonb, tags with an index
-- A view would hold the type of its column, so every view on these tables is made again, with its owner, rights and comments, those of
-- other people included. What is no view and depends on one stops the migration by its name.
create temp table views_again on commit drop as
  with recursive reading (oid) as (
    select unnest(array['facts.episodes', 'facts.tasks', 'facts.teams']::regclass[])::oid
    union
    select r.ev_class from reading
    join pg_depend d on d.refclassid = 'pg_class'::regclass and d.refobjid = reading.oid and d.classid = 'pg_rewrite'::regclass
    join pg_rewrite r on r.oid = d.objid
  )
  select c.oid, format('%I.%I', n.nspname, c.relname) as name, pg_get_viewdef(c.oid) as text, pg_get_userbyid(c.relowner) as owner,
         c.relacl, c.reloptions, obj_description(c.oid, 'pg_class') as about
  from reading join pg_class c using (oid) join pg_namespace n on n.oid = c.relnamespace where c.relkind = 'v'
  -- Views of our own that read no table of these keep their place in the list of views.
  union
  select c.oid, format('traj.%I', c.relname), pg_get_viewdef(c.oid), pg_get_userbyid(c.relowner), c.relacl, c.reloptions, obj_description(c.oid, 'pg_class')
  from pg_class c where c.relnamespace = 'traj'::regnamespace and c.relkind = 'v';
create temp table columns_again on commit drop as
  select v.oid, v.name, a.attname, a.attacl, col_description(v.oid, a.attnum) as about
  from views_again v join pg_attribute a on a.attrelid = v.oid and a.attnum > 0;

do $$
declare
  one record;
  made integer;
  waits text;
begin
  execute (select 'drop view ' || string_agg(name, ', ') from views_again);

  alter table facts.episodes
    alter column tags type jsonb using tags::jsonb, alter column flags type jsonb using flags::jsonb, alter column policies type jsonb using policies::jsonb;
  alter table facts.tasks alter column tags type jsonb using tags::jsonb;
  alter table facts.teams alter column tags type jsonb using tags::jsonb;

  -- In the order in which they were made; one that reads a later one waits for it.
  loop
    made := 0;
    waits := null;
    for one in select v.* from views_again v where to_regclass(v.name) is null order by v.oid loop
      begin
        execute format('create view %s %s as %s', one.name,
          (select 'with (' || string_agg(o, ', ') || ')' from unnest(one.reloptions) o), one.text);
      exception
        when undefined_table then
          waits := one.name;
          continue;
        when undefined_function then
          raise exception 'The view % reads tags, flags or policies as json, which are jsonb from now on: %', one.name, sqlerrm
            using hint = 'Drop the view, start again, and make it anew with the functions for jsonb.';
      end;
      made := made + 1;
      execute format('alter view %s owner to %I', one.name, one.owner);
      if one.about is not null then execute format('comment on view %s is %L', one.name, one.about); end if;
    end loop;
    exit when waits is null;
    if made = 0 then raise exception 'The view % cannot be made again.', waits; end if;
  end loop;
  for one in select * from columns_again where about is not null loop
    execute format('comment on column %s.%I is %L', one.name, one.attname, one.about);
  end loop;
  for one in
    select v.name, null::name as attname, g.* from views_again v cross join lateral aclexplode(v.relacl) g
    union all
    select c.name, c.attname, g.* from columns_again c cross join lateral aclexplode(c.attacl) g
  loop
    execute format('grant %s %s on %s to %s %s', one.privilege_type, coalesce('(' || quote_ident(one.attname) || ')', ''), one.name,
      case one.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(one.grantee)) end,
      case when one.is_grantable then 'with grant option' else '' end);
  end loop;
end $$;

create index episodes_tags on facts.episodes using gin (tags) where tags is not null;
create index tasks_tags on facts.tasks using gin (tags) where tags is not null;
-- Feedback that waits is found by its key, which is made of the id that it names.
drop index facts.feedback_target_id_idx;
