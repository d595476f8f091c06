/** What releasing and rolling back do. */
import { TroupeError } from '../../../errors.ts';
import { firstOf, query } from '../../../store/db/query.ts';
import { hostedModel, hostedWeights } from '../../../store/loop/play/weights.ts';
import {
  inForce,
  inReleaseTurn,
  ROLLBACK,
  recordAfterHosted,
  recordRelease,
  releaseId,
  releasesOf,
} from '../../../store/loop/release/releases.ts';
import { hostedBy } from '../../gateway/hosted.ts';
import { columns, type FilteredPage, filteredList } from '../filtered-list.ts';
import type { ChangeContext, ReadContext } from '../operation.ts';

export async function release(
  { db, log, now, by, catchUp, settings, env }: ChangeContext,
  { policies, reason = null }: { readonly policies: Readonly<Record<string, string>>; readonly reason?: string | null },
) {
  await catchUp();
  const hosted = hostedBy(settings, env);
  for (const [policy, id] of Object.entries(policies)) {
    const model = hostedModel(id);
    if (model !== null) {
      if (hosted[policy] === model) continue;
      const found = hosted[policy] === undefined ? 'none has a fallback' : `it is ${hosted[policy]}`;
      throw new TroupeError('not_found', `${model} is not what a route of ${policy} falls back to: ${found}.`);
    }
    const stored = query
      .selectFrom('facts.checkpoints')
      .select('uri')
      .where('checkpoint_id', '=', id)
      .where('uri', 'is not', null);
    if ((await firstOf(db, stored)) === undefined)
      throw new TroupeError(
        'not_found',
        `There is no checkpoint ${id} for ${policy}; \`troupe checkpoints\` lists them.`,
        {
          hint: /[\\/]/.test(id)
            ? `Of a folder, troupe checkpoints add ${id} --policy ${policy} records the checkpoint and names its id.`
            : `One that was trained by hand is recorded by troupe checkpoints add FOLDER --policy ${policy}.`,
        },
      );
  }
  const time = now().toISOString();
  const release_id = releaseId(policies, time);
  await inReleaseTurn(db, async () => {
    await catchUp();
    await recordAfterHosted({ db, log }, hosted, { release_id, policies, reason, by, source: SOURCE, time }, 'usage');
  });
  await catchUp();
  return { release_id, policies };
}

/** Source of the events of both. */
const SOURCE = '/operations';

export async function rollback(
  { db, log, now, catchUp, settings, env }: ChangeContext,
  { release: asked, reason }: { readonly release?: string; readonly reason?: string },
) {
  await catchUp();
  const hosted = hostedBy(settings, env);
  const done = await inReleaseTurn(db, async () => {
    await catchUp();
    const all = await releasesOf(db);
    const target = asked === undefined ? inForce(all).at(-2) : all.find((one) => one.release_id === asked);
    const own = Object.keys(all.at(-1)?.policies ?? {}).find((policy) => hosted[policy] !== undefined);
    const hint =
      asked !== undefined || own === undefined
        ? undefined
        : `troupe release ${own}=${hostedWeights(hosted[own]!).checkpoint_id} gives ${own} to the model that its route falls back to.`;
    if (target === undefined)
      throw new TroupeError(
        'not_found',
        asked === undefined
          ? `There is no release to go back to: ${all.length === 0 ? 'nothing was released' : 'the first one is in force'}.`
          : `There is no release ${asked}; \`troupe releases\` lists them.`,
        hint === undefined ? {} : { hint },
      );
    const { release_id: back_to, policies, teams } = target;
    const time = now().toISOString();
    const release_id = releaseId(policies, time);
    await recordRelease(log, {
      ...{ release_id, policies, teams, time, source: SOURCE },
      ...{ reason: reason ?? `back to release ${back_to}`, by: ROLLBACK },
    });
    const warnings = Object.keys(all.at(-1)!.policies)
      .filter((policy) => policies[policy] === undefined)
      .map((policy) => `${policy} had no release then: its processes keep their checkpoint until the next release.`);
    return { release_id, back_to, policies, teams, warnings };
  });
  await catchUp();
  return done;
}

const releases = query
  .selectFrom('facts.releases')
  .select(['release_id', 'policies', 'teams', 'reason', 'author as by', 'metrics', 'released_at']);

type ListedRelease = {
  readonly release_id: string;
  readonly policies: Readonly<Record<string, string>>;
  readonly teams: Readonly<Record<string, string>> | null;
  readonly reason: string | null;
  readonly by: string | null;
  readonly metrics: unknown;
  readonly released_at: string | null;
};

export const list = ({ db }: ReadContext, asked: FilteredPage) =>
  filteredList<ListedRelease>(
    db,
    releases,
    {
      rows: 'facts.releases',
      fields: {
        ...columns('text', 'release_id', 'reason'),
        by: { scope: 'episode', kind: 'text', sql: 'author' },
        ...columns('time', 'released_at'),
      },
      id: 'release_id',
    },
    asked,
  );
