/** What operations on dead letters do. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TroupeError } from '../../../errors.ts';
import { query } from '../../../store/db/query.ts';
import { letterOf, replay as replayLetters } from '../../../store/log/dead-letters.ts';
import type { PageRequest } from '../lists.ts';
import type { ChangeContext, OutputOf, ReadContext } from '../operation.ts';
import { readList } from '../read-list.ts';

type CodeFilter = { readonly code?: string };

export function list({ db }: ReadContext, { code, ...page }: PageRequest & CodeFilter) {
  const letters = query
    .selectFrom('traj.dead_letters')
    .select(['dead_letter_id', 'endpoint', 'place', 'code', 'field', 'expected', 'got', 'bytes', 'attempts'])
    .select(['first_at', 'last_at', 'replayed_at'])
    .$if(code !== undefined, (all) => all.where('code', '=', code!));
  return readList<ListedLetter>(db, letters, { columns: { dead_letter_id: 'bigint' }, id: 'dead_letter_id' }, page);
}

type ListedLetter = Omit<OutputOf<typeof letterOf>, 'raw'> & { readonly bytes: number };

export async function show({ db }: ReadContext, { id }: { readonly id: number }) {
  const { raw, ...letter } = await letterOf(db, id);
  const text = raw.toString('utf8');
  const exact = Buffer.from(text).equals(raw);
  return { ...letter, bytes: raw.length, raw: exact ? text : null, raw_base64: exact ? null : raw.toString('base64') };
}

export async function replay(
  context: ChangeContext,
  { id = [], all, code }: CodeFilter & { readonly id?: readonly number[]; readonly all: boolean },
) {
  if (id.length === 0 && !all && code === undefined)
    throw new TroupeError('usage', 'Name the ids of letters, a code, or all of them.');
  const { db, log, now, catchUp } = context;
  const ids = id.length === 0 ? null : id;
  const done = await replayLetters(db, {
    log,
    now,
    ids,
    code: code ?? null,
    importRecord: (raw) => importAgain(context, raw),
  });
  await catchUp();
  return done;
}

/** Imports one refused record again, from a temporary file. The caller counts the attempt if it is refused again. */
async function importAgain(
  { log, artifacts, originals, redactor, episodes }: ChangeContext,
  raw: Uint8Array,
): Promise<string | null> {
  const { importFiles } = await import('../../../ingest/files/import.ts');
  const folder = await mkdtemp(join(tmpdir(), 'troupe-replay-'));
  try {
    const file = join(folder, 'record.json');
    await writeFile(file, raw);
    const book = { report: async () => {} };
    const { events, errors } = await importFiles([file], { log, book, artifacts, originals, redactor, episodes });
    const [first] = errors;
    if (first) return `${first.field || 'the record'} should be ${first.expected}`;
    return events.received > 0 ? null : 'nothing was read from it';
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
