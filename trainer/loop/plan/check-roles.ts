/** How far the training of a plan that is checked would move each role: optimizer steps, learning rate, and groups with a signal. */
import { countText } from '../../../errors.ts';
import type { Db } from '../../../store/db/pool.ts';
import { firstOf, query, rowsOf, type SqlBool, sql } from '../../../store/db/query.ts';
import { DEFAULTS, rlLearningRate } from '../../learn/defaults.ts';
import type { ModelConfig } from '../../model/weights.ts';
import type { RoleCheck, RolloutCheck } from './check-found.ts';
import type { PlanPolicy } from './plan-schema.ts';
import { ofRole } from './training-asked.ts';

type LocalTrain = Exclude<PlanPolicy['train'], { engine: 'command' }>;

export type RolesRequest = {
  readonly name: string;
  readonly policy: PlanPolicy & { readonly train: LocalTrain };
  readonly config: ModelConfig;
  /** Those of the rows of now. */
  readonly roles: readonly string[];
  /** Groups of each role in the dataset of now, with those that carry a signal; null where the run plays its own. */
  readonly groups: ReadonlyMap<string, { readonly all: number; readonly useful: number }> | null;
  readonly rollout: RolloutCheck | null;
  readonly rounds: number;
};

/** Shares of the optimizer steps that differ by more than this factor are warned of: {router: 60, checker: 400} trained a worse model. */
const MOST_APART = 3;

/** What each role would get in the whole run; numbers that nothing tells are null. */
export async function rolesCheck(db: Db, asked: RolesRequest, notes: string[]): Promise<Record<string, RoleCheck>> {
  const { name, policy, config, rollout, rounds } = asked;
  const { train } = policy;
  const trainings = rounds * (rollout?.iterations ?? 1);
  const method = policy.recipe.credit;
  const signals = train.method === 'rl' ? await recordedSignal(db, creditName(method)) : new Map<string, number>();
  const roles = policy.recipe.roles ?? [...new Set([...asked.roles, ...signals.keys()])].sort();
  const found = Object.fromEntries(
    roles.map((role): [string, RoleCheck] => {
      const signal = train.method === 'rl' ? (signals.get(role) ?? null) : null;
      const each = stepsOf(asked, role, signal);
      const steps = each === null ? null : each * trainings;
      const rate = rateOf(train, role, config);
      return [role, { steps, learning_rate: rate, moved: steps === null ? null : steps * rate, signal }];
    }),
  );
  noteShares(name, found, notes);
  if (train.method === 'rl') {
    const each = Object.values(found).map(({ steps }) => steps);
    if (trainings === 1 && each.length > 0 && each.every((steps) => steps !== null && steps <= 1))
      notes.push(
        `${name} is trained by one optimizer step of each role: one iteration of one step shows no gain. Set rollout.iterations, such as 20, or a smaller groups.`,
      );
    for (const [role, { signal }] of Object.entries(found))
      if (signal !== null && signal < 0.1)
        notes.push(
          `Of the groups of ${role || 'no role'} that were judged before ${percent(signal)} had a signal: the others, all right or all wrong, teach ${name} nothing. Take tasks that are solved now and then, or more samples.`,
        );
  }
  const before = await lastTraining(db, name, train.method);
  for (const [role, { steps, learning_rate, moved, signal }] of Object.entries(found)) {
    if (steps === null) continue;
    const was = before?.byRole.get(role) ?? null;
    notes.push(
      `${name}, ${role || 'no role'}: ${countText(steps, 'optimizer step')} at a learning rate of ${learning_rate}, ${short(moved!)} together${
        signal === null ? '' : `, if ${percent(signal)} of its groups have a signal as before`
      }. ${
        was === null
          ? `No training of ${name} by ${train.method} has moved this role yet.`
          : `The last training that moved it, ${before!.run}, had ${was.steps} and ${short(was.moved)}.`
      }`,
    );
  }
  return found;
}

const short = (value: number): string => String(Number(value.toPrecision(2)));
const percent = (share: number): string => `${Math.round(100 * share)} %`;

const creditName = (credit: unknown): string | null =>
  typeof credit === 'string' ? credit : ((credit as { readonly method?: string } | null | undefined)?.method ?? null);

/** Optimizer steps of a role in one training; null where nothing tells how many groups it has. */
function stepsOf({ policy: { train }, groups, rollout }: RolesRequest, role: string, signal: number | null) {
  if (train.method === 'sft') return typeof train.steps === 'number' ? train.steps : (train.steps[role] ?? 0);
  if (train.method !== 'rl') return train.steps;
  const { groups: perStep = DEFAULTS.groups } = ofRole({ groups: train.groups }, role);
  const useful = rollout === null ? groups?.get(role)?.useful : rollout.tasks_of_round * (signal ?? 1);
  if (useful === undefined) return null;
  const count = Math.round(useful);
  const rest = count % perStep;
  const whole = Math.floor(count / perStep);
  // As the training does: a remainder below a quarter is dropped, unless it is all there is.
  const steps = whole + (rest > 0 && (rest >= perStep / 4 || whole === 0) ? 1 : 0);
  return steps * (train.epochs ?? DEFAULTS.epochs);
}

const rateOf = ({ method, learning_rate }: LocalTrain, role: string, config: ModelConfig): number =>
  ofRole({ learning_rate }, role).learning_rate ?? (method === 'rl' ? rlLearningRate(config) : DEFAULTS.learning_rate);

function noteShares(name: string, roles: Readonly<Record<string, RoleCheck>>, notes: string[]): void {
  const known = Object.entries(roles).flatMap(([role, { steps }]) => (steps ? [{ role, steps }] : []));
  const [least, most] = [
    known.toSorted((a, b) => a.steps - b.steps)[0],
    known.toSorted((a, b) => b.steps - a.steps)[0],
  ];
  if (least === undefined || most === undefined || most.steps <= MOST_APART * least.steps) return;
  notes.push(
    `${name} has ${most.steps} optimizer steps of ${most.role} and ${least.steps} of ${least.role}, on the same weights: ${most.role} may undo what ${least.role} learnt. Keep them within a factor of ${MOST_APART}, or give ${least.role} a policy of its own.`,
  );
}

/** Episodes looked at for the share of groups with a signal: the newest. */
const LOOKED_AT = 2000;

/** By role, the share of the groups judged by a credit method in which it differs from 0. */
async function recordedSignal(db: Db, method: string | null): Promise<ReadonlyMap<string, number>> {
  if (method === null) return new Map();
  const newest = query
    .selectFrom('traj.episodes')
    .select(['episode_id', 'group_id'])
    .where('group_id', 'is not', null)
    .orderBy('last_at', 'desc')
    .limit(LOOKED_AT);
  const groups = query
    .selectFrom('traj.credits as c')
    .innerJoin(newest.as('e'), 'e.episode_id', 'c.episode_id')
    .innerJoin('traj.steps as s', (on) =>
      on.onRef('s.episode_id', '=', 'c.episode_id').onRef('s.step_id', '=', 'c.step_id'),
    )
    .select(sql<string>`coalesce(s.role, '')`.as('role'))
    .select(sql<boolean>`max(abs(c.value)) > 1e-3`.as('useful'))
    .where('c.method', '=', method)
    .where('c.value', 'is not', null)
    .groupBy([sql`1`, 'e.group_id']);
  const rows = await rowsOf(
    db,
    query
      .selectFrom(groups.as('g'))
      .select('g.role')
      .select(sql<number>`avg(g.useful::integer)::float8`.as('share'))
      .groupBy('g.role'),
  );
  return new Map(rows.map(({ role, share }) => [role, share]));
}

type Before = {
  readonly run: string;
  readonly byRole: ReadonlyMap<string, { readonly steps: number; readonly moved: number }>;
};

/** The last run whose training of this policy made a step, with the steps of each role over all of its trainings. */
async function lastTraining(db: Db, policy: string, kind: string): Promise<Before | null> {
  const trainings = query
    .selectFrom('facts.jobs')
    .where('kind', '=', kind)
    .where('outcome', '=', 'done')
    .where(sql<SqlBool>`spec ->> 'policy' = ${policy}`)
    .where(sql<SqlBool>`coalesce((result ->> 'steps')::integer, 0) > 0`);
  const last = await firstOf(
    db,
    trainings
      .select(['job_id', 'parent_job_id'])
      .orderBy('finished_at', (order) => order.desc().nullsLast())
      .limit(1),
  );
  if (last === undefined) return null;
  const run = last.parent_job_id ?? last.job_id;
  const jobs = await rowsOf(
    db,
    trainings.select(['spec', 'result']).where(sql<SqlBool>`coalesce(parent_job_id, job_id) = ${run}`),
  );
  const byRole = new Map<string, { steps: number; moved: number }>();
  for (const { result } of jobs)
    for (const [role, { steps, moved }] of Object.entries((result as MovedWeights).by_role ?? {})) {
      const so = byRole.get(role) ?? { steps: 0, moved: 0 };
      byRole.set(role, { steps: so.steps + steps, moved: so.moved + moved });
    }
  return { run, byRole };
}

/** Of the result of a training job. */
type MovedWeights = {
  readonly by_role?: Readonly<Record<string, { readonly steps: number; readonly moved: number }>>;
};
