import { expect, it } from 'vitest';
import { requireJob } from '../../trainer/loop/jobs/checked-job.ts';

const PLAYED = {
  name: 'p',
  rollout: { runner: 'team', tasks: 'tasks.jsonl', samples: 2 },
  policies: { solver: { recipe: {}, train: { method: 'sft', steps: 1, batch: 1, learning_rate: 0.1 } } },
  gate: { kind: 'manual' },
};
const RECIPE = { name: 'good', where: { field: 'reward', op: '>=', value: 1 }, unit: 'step' };

it('A job that its kind can read is accepted', async () => {
  await requireJob({ kind: 'judge', spec: { methods: [{ method: 'majority_filter' }] } });
  await requireJob({ kind: 'freeze', spec: { recipe: RECIPE } });
  await requireJob({ kind: 'evaluate', spec: { sets: { all: {} } } });
  await requireJob({ kind: 'reward', spec: { use: 'matches', where: 'tags.rollout is null' } });
});

it.each([
  ['dream', {}, /no job of kind "dream"; the kinds are judge, freeze/],
  ['constructor', {}, /no job of kind/],
  ['freeze', { recipe: { ...RECIPE, unit: 'page' } }, /unit/],
  ['judge', { methods: [{ method: 'no_such_method' }] }, /no_such_method/],
  ['judge', {}, /spec does not fit/],
  ['plan', { plan: { name: 'p' } }, /should have gate/],
  ['plan', { plan: { name: 'p', gate: { kind: 'manual' } } }, /policies/],
  ['plan', { plan: PLAYED }, /rollout.tasks should be the tasks as a list/],
  ['reward', { use: 'matches', wher: 'x' }, /spec does not fit/],
  ['reward', { use: 'matches', where: 'tags.rollot' }, /tags.rollot/],
  ['sft', { base: 'model', dataset: 'data' }, /spec does not fit/],
])('A job of kind %s with %j is refused', async (kind, spec, why) => {
  await expect(requireJob({ kind, spec })).rejects.toThrow(why);
});
