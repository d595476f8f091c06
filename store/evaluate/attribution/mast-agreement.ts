/** Which failure modes of MAST annotators found, and how far two of them agree. The transaction's search_path names the schema. */
import type { Session } from '../../db/pool.ts';
import { facts, rowsOf, sql } from '../../db/query.ts';
import { cohenKappa, MAST_MODES, type MastCode, mastCode, mastDistribution } from '../methods/mast.ts';
import { runMethod } from '../methods/run.ts';

/** By annotator, the modes found in each episode that it annotated; an empty set where it found none. */
export type ModesByAnnotator = ReadonlyMap<string, ReadonlyMap<string, ReadonlySet<MastCode>>>;

/** Modes stand in the value (a list of codes), the label or the name; a label of a refusal is no annotation. */
export async function readModes(tx: Session): Promise<ModesByAnnotator> {
  const rows = await rowsOf(
    tx,
    facts
      .selectFrom('feedback as f')
      .select([
        sql<string>`coalesce(f.annotator, f.author, '(nobody)')`.as('annotator'),
        sql<string>`coalesce(f.episode_id, f.resolved_episode_id)`.as('episode_id'),
        'f.name',
        'f.label',
        'f.value_json',
      ])
      .where('f.kind', 'in', ['label', 'failure'])
      .where(sql`lower(f.taxonomy ->> 'name')`, '=', 'mast')
      .where(sql`coalesce(f.label, '')`, '<>', 'refused')
      .where(sql`coalesce(f.episode_id, f.resolved_episode_id)`, 'is not', null)
      .orderBy('f.key')
      .orderBy('f.version'),
  );
  const found = new Map<string, Map<string, Set<MastCode>>>();
  for (const { annotator, episode_id, name, label, value_json } of rows) {
    const named = [name, label, ...(Array.isArray(value_json) ? value_json : [])];
    const codes = named
      .flatMap((one) => (typeof one === 'string' ? [mastCode(one)] : []))
      .filter((one) => one !== null);
    const own = found.get(annotator) ?? new Map<string, Set<MastCode>>();
    own.set(episode_id, new Set([...(own.get(episode_id) ?? []), ...codes]));
    found.set(annotator, own);
  }
  return found;
}

export type Agreement = {
  readonly a: string;
  readonly b: string;
  /** Episodes that both annotated. */
  readonly episodes: number;
  /** Over all pairs of episode and mode: found or not. */
  readonly kappa: number;
  readonly by_mode: Readonly<Record<string, number>>;
};

export function agreements(found: ModesByAnnotator): Agreement[] {
  const names = [...found.keys()].sort();
  const codes = Object.keys(MAST_MODES) as MastCode[];
  return names.flatMap((a, i) =>
    names.slice(i + 1).flatMap((b): Agreement[] => {
      const [left, right] = [found.get(a)!, found.get(b)!];
      const both = [...left.keys()].filter((id) => right.has(id)).sort();
      if (both.length === 0) return [];
      const ratings = (of: typeof left, code: MastCode) => both.map((id) => (of.get(id)!.has(code) ? 'yes' : 'no'));
      const kappa = (among: readonly MastCode[]) =>
        runMethod(cohenKappa, {
          a: among.flatMap((code) => ratings(left, code)),
          b: among.flatMap((code) => ratings(right, code)),
        });
      const by_mode = Object.fromEntries(codes.map((code) => [code, kappa([code])]));
      return [{ a, b, episodes: both.length, kappa: kappa(codes), by_mode }];
    }),
  );
}

/** How often each annotator found each mode, and the share of each category. */
export const distributions = (found: ModesByAnnotator) =>
  [...found.keys()].sort().map((annotator) => ({
    annotator,
    episodes: found.get(annotator)!.size,
    ...runMethod(mastDistribution, { traces: [...found.get(annotator)!.values()].map((codes) => [...codes]) }),
  }));
