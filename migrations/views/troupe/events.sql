create view troupe.events as
  select key, source, id, name, time,
         case when position(E'"\uFFFE@' in data::text) = 0 and position(E'"\uFFFE#' in data::text) = 0
                then replace(data::text, E'"\uFFFE."', '"' || substr(key, 3) || '"')::json
              else troupe.whole(key, data) end as data,
         case when length(digest) = 32 then encode(digest, 'hex') else convert_from(digest, 'UTF8') end collate "default" as digest,
         partition, position, recorded_at, log, type_version
  from troupe.stored_events;
