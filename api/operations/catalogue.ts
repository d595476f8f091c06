/** Every operation, by noun. A noun's file loads when one of its operations is used. */
import { methodOf, nounOf } from './names.ts';
import type { CallOptions, Method, Operation } from './operation.ts';

export const NOUNS = {
  import: () => import('./import.ts'),
  key: () => import('./key.ts'),
  deadletters: () => import('./deadletters.ts'),
  schedule: () => import('./schedule.ts'),
  receiver: () => import('./receiver.ts'),
  episodes: () => import('./episodes.ts'),
  sql: () => import('./sql.ts'),
  explain: () => import('./explain.ts'),
  views: () => import('./views.ts'),
  blame: () => import('./blame.ts'),
  reward: () => import('./reward.ts'),
  passes: () => import('./passes.ts'),
  log: () => import('./log.ts'),
  teams: () => import('./teams.ts'),
  lineage: () => import('./lineage.ts'),
  compare: () => import('./compare.ts'),
  checksum: () => import('./checksum.ts'),
  reconcile: () => import('./reconcile.ts'),
  filter: () => import('./filter.ts'),
  rebuild: () => import('./rebuild.ts'),
  judge: () => import('./judge.ts'),
  unjudged: () => import('./unjudged.ts'),
  method: () => import('./method.ts'),
  jobs: () => import('./jobs.ts'),
  policies: () => import('./policies.ts'),
  release: () => import('./release.ts'),
  checkpoints: () => import('./checkpoints.ts'),
  export: () => import('./export.ts'),
  erase: () => import('./erase.ts'),
  dataset: () => import('./dataset.ts'),
  rollback: () => import('./rollback.ts'),
  releases: () => import('./releases.ts'),
  gate: () => import('./gate.ts'),
  plan: () => import('./plan.ts'),
  pool: () => import('./pool.ts'),
  project: () => import('./project.ts'),
  recipe: () => import('./recipe.ts'),
  rollout: () => import('./rollout.ts'),
  model: () => import('./model.ts'),
  train: () => import('./train.ts'),
  sample: () => import('./sample.ts'),
  logprobs: () => import('./logprobs.ts'),
  values: () => import('./values.ts'),
  prune: () => import('./prune.ts'),
  backup: () => import('./backup.ts'),
  restore: () => import('./restore.ts'),
  upgrade: () => import('./upgrade.ts'),
  reset: () => import('./reset.ts'),
} as const;

type Modules = { readonly [N in keyof typeof NOUNS]: Awaited<ReturnType<(typeof NOUNS)[N]>> };
/** The operations as methods: `schedule.pause({…})`, and `rebuild({…})` of one without a verb. */
export type Methods = {
  readonly [N in keyof Modules]: N extends keyof Modules[N]
    ? Method<Modules[N][N]>
    : { readonly [V in keyof Modules[N]]: Method<Modules[N][V]> };
};

/** Of one noun, by name. */
export const operationsOf = async (noun: string): Promise<readonly Operation[]> =>
  Object.values(await NOUNS[noun as keyof typeof NOUNS]()).sort((a, b) => (a.name < b.name ? -1 : 1));

export const allOperations = async (): Promise<readonly Operation[]> =>
  (await Promise.all(Object.keys(NOUNS).map(operationsOf))).flat();

/** Methods for these operations, each by one function. */
export function methodsBy(
  operations: readonly Pick<Operation, 'name'>[],
  call: (name: string, input: unknown, options: CallOptions) => Promise<unknown>,
): Methods {
  const methods: Record<string, unknown> = {};
  for (const { name } of operations) {
    const [noun, verb] = [nounOf({ name }), methodOf({ name })];
    const method = (input: unknown = {}, options: CallOptions = {}) => call(name, input, options);
    methods[noun] = verb === '' ? method : { ...(methods[noun] as object | undefined), [verb]: method };
  }
  return methods as unknown as Methods;
}
