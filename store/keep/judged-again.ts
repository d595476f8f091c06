/** Which judgings must be computed again when episodes go or come back, so that the tables equal those of a rebuild. */
import type { JudgedMethod } from '../db/corrections.ts';
import type { Session } from '../db/pool.ts';
import { anyOf, facts, rowsOf } from '../db/query.ts';
import { compareEverything, versionsOf } from '../evaluate/judging/judge.ts';
import { judgingsAbout } from '../evaluate/judging/judgings-about.ts';
import { GROUP } from '../evaluate/judging/lock.ts';

const recorded = (tx: Session) =>
  rowsOf(tx, facts.selectFrom('judgings').select(['judge_id', 'methods', 'episodes']).orderBy('version'));

/**
 * Whole groups that go change nothing about others, except for methods that compare everything with everything: then all judgings of
 * these methods, and those that judged the same episodes, in their order. The transaction's search_path names the schema.
 */
export async function judgingsWithout(tx: Session, episodes: readonly string[]): Promise<string[]> {
  const rows = await recorded(tx);
  const gone = new Set(episodes);
  const compared = await Promise.all(rows.map(async (row) => ({ ...row, names: await comparing(row) })));
  const touched = new Set(
    compared.filter(({ episodes }) => episodes.some((id) => gone.has(id))).flatMap(({ names }) => names),
  );
  if (touched.size === 0) return [];
  const same = compared.filter(({ names }) => names.some((name) => touched.has(name)));
  return judgingsAbout(tx, [...new Set(same.flatMap((one) => one.episodes))]);
}

/**
 * Those that judged the episodes that came back or others of their groups, which is enough for these alone, unless one of them compared
 * everything.
 */
export async function judgingsWith(
  tx: Session,
  episodes: readonly string[],
): Promise<{ readonly judgings: readonly string[]; readonly only: ReadonlySet<string> | null }> {
  const rows = await recorded(tx);
  const back = new Set(await groupsOf(tx, episodes));
  const about = rows.filter((one) => one.episodes.some((id) => back.has(id))).map((row) => row.judge_id);
  if ((await judgingsWithout(tx, episodes)).length === 0) return { judgings: about, only: back };
  return { judgings: await judgingsAround(tx, episodes), only: null };
}

/** Those that compared these episodes with any others, in their order. */
export async function judgingsAround(tx: Session, episodes: readonly string[]): Promise<string[]> {
  const again = new Set([...(await judgingsAbout(tx, episodes)), ...(await judgingsWithout(tx, episodes))]);
  return (await recorded(tx)).map((row) => row.judge_id).filter((id) => again.has(id));
}

/** The episodes of the groups of these. */
async function groupsOf(tx: Session, episodes: readonly string[]): Promise<string[]> {
  const theirs = facts.selectFrom('episodes as e').select(GROUP.as('grp')).where('e.episode_id', '=', anyOf(episodes));
  const rows = await rowsOf(tx, facts.selectFrom('episodes as e').select('e.episode_id').where(GROUP, 'in', theirs));
  return rows.map((row) => row.episode_id);
}

/** Its methods that compare everything, as far as this release has them. */
async function comparing({ methods }: { readonly methods: readonly JudgedMethod[] }): Promise<string[]> {
  const versions = await versionsOf(methods);
  const found: string[] = [];
  for (const { name, version, params } of methods)
    if (versions.get(name) === version && (await compareEverything([{ method: name, params }]))) found.push(name);
  return found;
}
