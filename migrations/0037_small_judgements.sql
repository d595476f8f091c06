--! judgements are found by episode and method, and held apart by a hash
-- The key of a judgement is three names, up to 160 bytes, and stood again in its index, in pages that random ids fill to three fifths: 350
-- bytes a row, more than the row. An index of episode and method holds both once for all steps; a hash of the three keeps them apart.
do $$
declare t text;
begin
  foreach t in array array['verdicts', 'rewards', 'credits'] loop
    execute format($sql$
      alter table facts.%1$I drop constraint %2$I,
        -- U+FFFE escapes what PostgreSQL cannot hold and is followed by hexadecimal digits there, so three texts are joined in one way only.
        add constraint %3$I exclude using hash ((episode_id || E'\uFFFE|' || step_id || E'\uFFFE|' || method_key) with =)
      $sql$, t, t || '_pkey', t || '_once');
    execute format('create index %I on facts.%I (episode_id, method_key)', t || '_of_episode', t);
  end loop;
end $$;
