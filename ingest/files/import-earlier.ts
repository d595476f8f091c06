/**
 * What earlier imports recorded of the runs of this one. A run of which another part was imported before is read together with it, and
 * the events of the smaller reading that the fuller one does not have are rejected: the tables show what an import of all parts at
 * once would have brought.
 */
import { type Refusal, TroupeError } from '../../errors.ts';
import { decodeDraft } from '../events/decode.ts';
import type { Draft } from '../events/events.ts';
import { canonicalJson, hashId, sha256 } from '../events/json.ts';
import { parseOwn, writtenJson } from '../events/spelling.ts';
import { FORMATS } from '../formats/catalogue.ts';
import { type Conversion, type Format, restates } from '../formats/kit/format.ts';
import { joinParts, type Part } from '../formats/kit/join-parts.ts';
import type { ArtifactStore, Originals } from '../log/log.ts';
import type { Member } from './import-gather.ts';

export type Earlier = { readonly originals: Originals; readonly artifacts: ArtifactStore };

/** Ids that another session holds, each with the episode of that session. */
export type IdsElsewhere = ReadonlyMap<string, string>;

/** A run as it is read now: its own lines, or with those of earlier imports, which stand in no file of this one. */
export type Reading = { readonly part: Part<Member>; readonly converted: Conversion };

/**
 * Reads a run of lines beside what is stored of it. `native` is the record that they are alone, where it is not their list; `copied` names
 * the lines that another run has.
 */
export async function readRun(
  format: Format,
  part: Part<Member>,
  ordinal: (canonical: string) => number,
  { copied, ...earlier }: Earlier & { readonly copied: IdsElsewhere },
  native: unknown = part.lines,
): Promise<Reading> {
  const joins = format.joins!;
  const path = part.members.find((member) => member !== undefined)?.place.file;
  const convert = ({ lines: value }: Part<Member>): Conversion =>
    format.convert({ value, canonical: canonicalJson(value), ordinal: 0, copied, path });
  const canonical = canonicalJson(native);
  const alone = (): Reading => ({
    part,
    converted: format.convert({ value: native, canonical, ordinal: ordinal(canonical), copied, path }),
  });
  const found = await earlier.originals.records(joins.episodes(part.lines), `/import/${format.name}`);
  const names = [...new Set([...found.values()].flat())];
  if (names.length === 0 || (names.length === 1 && names[0] === sha256(writtenJson(native)))) return alone();
  const stored = await Promise.all(
    names.map(async (name): Promise<Part<Member>> => {
      return { lines: await storedLines(format, earlier, name), members: [] };
    }),
  );
  const { runs } = joinParts([part, ...stored], joins);
  const whole = runs.find(({ sources }) => sources.includes(part));
  const others = whole?.sources.filter((one) => one !== part) ?? [];
  if (!whole || others.length === 0) return alone();
  const before = others.map((one) => convert(one));
  return { part: whole, converted: await inPlaceOf(format, before, convert(whole), earlier) };
}

/** The lines of a stored original. */
export async function storedLines({ joins }: Format, earlier: Earlier, name: string): Promise<readonly unknown[]> {
  const value = await storedIn(earlier, name);
  return joins?.linesOf?.(value) ?? (Array.isArray(value) ? value : [value]);
}

/** A stored original; nothing where its body was removed since. */
async function storedIn({ artifacts }: Earlier, name: string): Promise<unknown> {
  try {
    return parseOwn(Buffer.from(await artifacts.get(name)).toString());
  } catch (error) {
    if (error instanceof TroupeError && error.code === 'not_found') return [];
    throw error;
  }
}

/**
 * The refusal of a record whose run is recorded in another form; null where it is in none. `here` names the source by which this import
 * began each episode.
 */
export async function recordedElsewhere(
  format: Format,
  { drafts }: Conversion,
  here: ReadonlyMap<string, string>,
  { originals }: Earlier,
): Promise<Refusal | null> {
  const own = `/import/${format.name}`;
  const forms = otherForms(format);
  if (forms.length === 0) return null;
  const episodes = drafts.flatMap(({ name, data }) =>
    name === 'episode.started' ? [(data as { readonly episode_id: string }).episode_id] : [],
  );
  const before = await originals.begun(episodes);
  for (const episode of episodes) {
    const sources = [...(before.get(episode) ?? []), ...(here.has(episode) ? [here.get(episode)!] : [])];
    // A form that meets itself is the same run again, or a part of it.
    const other = sources.includes(own) ? undefined : sources.find((source) => forms.includes(source));
    if (other === undefined) continue;
    return {
      code: 'id_conflict',
      field: '',
      expected: 'a run that is not recorded in another form, or its calls would count twice',
      got: `${episode}, recorded from ${other.slice('/import/'.length)}`,
    };
  }
  return null;
}

/** The sources of the formats that have runs of this one in another form. */
const otherForms = ({ name, restatesRunsOf = [] }: Format): readonly string[] =>
  [...restatesRunsOf, ...FORMATS.flatMap((one) => (one.restatesRunsOf?.includes(name) ? [one.name] : []))].map(
    (form) => `/import/${form}`,
  );

/** The same for lists of records that were gathered over files and converted: with the records that are stored of their episodes. */
export async function readBeside(
  format: Format,
  lists: readonly (readonly unknown[])[],
  converted: Conversion,
  earlier: Earlier,
): Promise<Conversion> {
  const { rereads } = format;
  if (!rereads) return converted;
  const own = new Map<string, Map<string, unknown>>();
  for (const { name, source, data } of converted.drafts) {
    const { role, episode_id: episode, sha256: body } = data as Readonly<Record<string, unknown>>;
    if (name !== 'artifact.attached' || role !== 'raw-record' || typeof episode !== 'string') continue;
    own.set(source, (own.get(source) ?? new Map()).set(episode, body));
  }
  const others: (readonly unknown[])[] = [];
  for (const [source, episodes] of own) {
    for (const [episode, names] of await earlier.originals.records([...episodes.keys()], source))
      for (const name of names) if (name !== episodes.get(episode)) others.push(rereads(await storedIn(earlier, name)));
  }
  if (others.length === 0) return converted;
  const read = (value: readonly (readonly unknown[])[]): Conversion =>
    format.convert({ value, canonical: canonicalJson(value), ordinal: 0 });
  const now = read([...lists, ...others]);
  const places = lists.reduce((sum, list) => sum + list.length, 0);
  const refusals = now.refusals.filter(({ at }) => at === undefined || at < places);
  const before = others.map((list) => read([list]));
  return inPlaceOf(format, before, { ...now, refusals }, earlier);
}

const taskIn = ({ name, data }: Draft): unknown =>
  name === 'task.defined' ? (data as { readonly task_id?: unknown }).task_id : undefined;

/**
 * A reading that takes the place of smaller ones: what only they had is rejected. A reading between two others may have rejected what this
 * one has again, as where a part was missing; since a rejection stands for ever, that is recorded anew under another id.
 */
async function inPlaceOf(
  format: Format,
  before: readonly Conversion[],
  now: Conversion,
  { originals }: Earlier,
): Promise<Conversion> {
  const stale = staleOf(format, before, now);
  const all = [...stale, ...now.drafts];
  const keys = [...new Set(all.flatMap(keyOf))];
  const rejected = await bySource(all, (source) => originals.rejected(keys, source));
  const living = ({ id, source }: Draft): string => {
    let current = id;
    for (let again = 1; rejected.get(source)!.has(current); again++) current = hashId('again', id, again);
    return current;
  };
  const again = stale.filter((draft) => living(draft) !== draft.id);
  const held = await bySource(again, (source) => originals.held(keys, source, again.map(living)));
  const rejections = stale.flatMap((draft) => {
    const id = living(draft);
    return id === draft.id || held.get(draft.source)!.has(id) ? rejection(format, draft, id) : [];
  });
  const drafts = now.drafts.map((draft) => {
    const id = living(draft);
    return id === draft.id ? draft : { ...draft, id };
  });
  return { ...now, drafts: [...drafts, ...rejections] };
}

/** What is found for each source of these drafts. */
const bySource = async <T>(
  drafts: readonly Draft[],
  find: (source: string) => Promise<T>,
): Promise<ReadonlyMap<string, T>> =>
  new Map(
    await Promise.all(
      [...new Set(drafts.map(({ source }) => source))].map(async (source) => [source, await find(source)] as const),
    ),
  );

/** The keys that the event of a draft may have: those of its episode and of its task. */
function keyOf({ data }: Draft): string[] {
  const { episode_id: episode, task_id: task } = data as Readonly<Record<string, unknown>>;
  return [...(typeof episode === 'string' ? [`e/${episode}`] : []), ...(typeof task === 'string' ? [`t/${task}`] : [])];
}

/** What smaller readings recorded of these episodes and the fuller one does not. */
function staleOf(format: Format, before: readonly Conversion[], now: Conversion): Draft[] {
  const kept = new Set(now.drafts.map(({ id }) => id));
  // A task that only the smaller reading names may be that of another run.
  const tasks = new Set(now.drafts.map(taskIn));
  const isStale = (draft: Draft): boolean =>
    !kept.has(draft.id) &&
    (!restates(format, draft.name) || (draft.name === 'task.defined' && tasks.has(taskIn(draft))));
  return [
    ...new Map(before.flatMap(({ drafts }) => drafts.filter(isStale).map((draft) => [draft.id, draft]))).values(),
  ];
}

function rejection(format: Format, draft: Draft, id: string): Draft[] {
  const { event } = decodeDraft(draft);
  if (!event) return [];
  const { key, source } = event;
  return [
    {
      name: 'record.amended',
      source,
      id: hashId(format.name, 'record.amended', key, source, id),
      time: null,
      data: { key, target: { source, id }, op: 'reject', reason: 'A later import holds more of this run.' },
    } as unknown as Draft,
  ];
}
