--! API keys: what a key is recognised by, never the key
create table troupe.api_keys (
  lookup     text collate "C" primary key,
  name       text not null,
  sha256     bytea not null check (octet_length(sha256) = 32),
  scopes     text[] not null check (cardinality(scopes) > 0),
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz,
  revoked_at timestamptz
);
comment on table troupe.api_keys is 'API keys by the part that finds them, with the SHA-256 of the whole. A row is never removed: while there is one, every route needs a key.';
