/** What operations on policies do. */
import { query, rowsOf } from '../../../store/db/query.ts';
import { reasonOf, watchOf } from '../../../store/loop/comparison/watching.ts';
import { hostedModel } from '../../../store/loop/play/weights.ts';
import { ROLLBACK, releasesOf } from '../../../store/loop/release/releases.ts';
import { hostedBy } from '../../gateway/hosted.ts';
import { pageOf } from '../lists.ts';
import type { ReadContext } from '../operation.ts';

export async function list({ db, catchUp, now, settings, env }: ReadContext, page: Parameters<typeof pageOf>[2]) {
  await catchUp();
  const released = (await releasesOf(db)).at(-1);
  const saved = await rowsOf(
    db,
    query
      .selectFrom('facts.checkpoints')
      .select(['policy', 'checkpoint_id'])
      .where('policy', 'is not', null)
      .where('kept', 'is not', false)
      .orderBy('version'),
  );
  const newest = new Map(saved.map(({ policy, checkpoint_id }) => [policy!, checkpoint_id]));
  const names = new Set([...Object.keys(released?.policies ?? {}), ...newest.keys()]);
  const policies = [...names].map((policy) => ({
    policy,
    released: released?.policies[policy] ?? null,
    newest: newest.get(policy) ?? null,
  }));
  const hosted = hostedBy(settings, env);
  const warnings = Object.entries(released?.policies ?? {}).flatMap(([policy, id]) => {
    const model = hostedModel(id);
    if (model === null || hosted[policy] === model) return [];
    const now =
      hosted[policy] === undefined ? 'no route of it has a fallback' : `its route falls back to ${hosted[policy]}`;
    return [`${policy} should be answered by ${model}, but ${now} now.`];
  });
  return {
    ...pageOf(policies, 'policy', page),
    release_id: released?.release_id ?? null,
    teams: released?.teams ?? {},
    watch: released === undefined ? null : await watchOf(db, released.release_id, now()),
    rolled_back: released?.by === ROLLBACK ? await reasonOf(db, released.release_id) : null,
    warnings,
  };
}
