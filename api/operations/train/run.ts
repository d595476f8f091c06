/** What each way of training by hand does: rows and their order, memory, and its steps. */
import { TroupeError } from '../../../errors.ts';
import {
  pairs,
  policyRows,
  supervisedRows,
  tokensOf,
  tokensOfPair,
  valuedRows,
} from '../../../trainer/learn/data/readers.ts';
import { rlLearningRate } from '../../../trainer/learn/defaults.ts';
import { courseOf, dpoOptions, rlOptions, sftOptions } from '../../../trainer/learn/numbers.ts';
import { initAdam } from '../../../trainer/learn/optimizer.ts';
import { preference, type ReferenceScore, referenceScores } from '../../../trainer/learn/preference.ts';
import { trainRewardHead } from '../../../trainer/learn/reward-head.ts';
import { policyPlan, rlPass, withReference } from '../../../trainer/learn/rl.ts';
import { sft as learn } from '../../../trainer/learn/sft.ts';
import { withSignal } from '../../../trainer/learn/signal.ts';
import type { TrainableModel } from '../../../trainer/learn/step.ts';
import { trainValueHead } from '../../../trainer/learn/value-head.ts';
import type { ChangeContext, InputOf } from '../operation.ts';
import type { dpoInput, rewardInput, rlInput, sftInput, valueInput } from './input.ts';
import { runTraining } from './run-training.ts';
import { orderOf, prepared, requireMemory, requireRowMemory, withReferenceModel } from './setup.ts';

export async function sft(context: ChangeContext, input: InputOf<typeof sftInput>) {
  const ready = await prepared(context, input, 'sft', supervisedRows);
  const { rows, heldOut } = ready;
  const problems = rows.map((row, i) => row.problem ?? String(i));
  const roles = rows.map(({ role = '' }) => role);
  const taken = orderOf(context, input, problems, roles);
  requireRowMemory(input, ready, taken, { tokens: tokensOf });
  const { loss, entropy } = input;
  const options = { ...sftOptions(taken, input), heldOut };
  return runTraining(context, input, ready, { ...taken.settings, loss, entropy }, taken.steps, {
    train: async ({ learner, progress }, watch) => ({
      progress: await learn(learner.model, rows, options, watch, progress),
    }),
  });
}

export async function dpo(context: ChangeContext, input: InputOf<typeof dpoInput>) {
  const ready = await prepared(context, input, 'dpo', pairs);
  const { rows, heldOut } = ready;
  const taken = orderOf(
    context,
    input,
    rows.map((row) => row.promptIds.join()),
  );
  requireRowMemory(input, ready, taken, { tokens: tokensOfPair, sharedPrompts: true });
  const { beta, label_smoothing, reference = null } = input;
  const settings = { ...taken.settings, beta, label_smoothing, reference };
  return runTraining(context, input, ready, settings, taken.steps, {
    reference: () =>
      withReferenceModel(context, input, ready, (model) => referenceScores(model, [...rows, ...heldOut])),
    train: async ({ learner, progress }, watch, reference) => {
      const scores = reference as readonly ReferenceScore[];
      const held = heldOut.length > 0 ? { heldOut: { rows: heldOut, reference: scores.slice(rows.length) } } : {};
      const options = { ...dpoOptions(taken, input), reference: scores, ...held };
      // Chosen and rejected form a pair here, and the loss itself reports how many are ranked right.
      const watched = { ...watch, accuracy: false };
      return { progress: await preference(learner.model, rows, options, watched, progress) };
    },
  });
}

export async function rl(context: ChangeContext, input: InputOf<typeof rlInput>) {
  if (input.eval !== undefined)
    throw new TroupeError('usage', 'A policy gradient has no held-out loss; evaluate its checkpoints by playing.', {
      field: 'eval',
    });
  const ready = await prepared(context, input, 'rl', (_, longest) => policyRows(longest));
  const { rows } = ready;
  const { groups, entropy, reference = null, learning_rate = rlLearningRate(ready.start.config) } = input;
  const roles = [...new Set(rows.map(({ role }) => role))].map((role) => ({ role, groups, learning_rate, entropy }));
  const optionsFor = (model: Pick<TrainableModel, 'config' | 'optimizer'>) => rlOptions({ ...input, roles }, model);
  const planned = optionsFor({ config: ready.start.config, optimizer: initAdam() });
  const { steps } = policyPlan(rows, planned);
  if (steps.length === 0)
    throw new TroupeError(
      'training_failed',
      'No group of the dataset has advantages that differ from 0: nothing to learn.',
      { hint: 'Judge it with a credit method, and name that as `credit` in the recipe.' },
    );
  requireMemory(input, ready, {
    tokensPerStep: Math.max(...steps.map((step) => step.rows.reduce((sum, row) => sum + tokensOf(row), 0))),
    longest: rows.reduce((most, row) => Math.max(most, tokensOf(row)), 0),
    smaller: { flag: '--groups', now: groups },
  });
  const { loss, kl = 0, epochs = 1, clip } = planned;
  const settings = {
    ...{ lr: learning_rate, loss, kl, entropy, epochs, groups, reference },
    ...{ clip_low: clip.clipLow ?? null, clip_high: clip.clipHigh ?? null },
  };
  const scored = kl > 0 ? await withReferenceModel(context, input, ready, (model) => withReference(model, rows)) : rows;
  return runTraining(context, input, ready, settings, steps.length, {
    train: async ({ learner: { model }, progress }, watch) => {
      const ended = await rlPass(model, scored, optionsFor(model), watch, progress);
      return { progress: ended.progress, roles: await withSignal(ended.roles, ready.data.dataset!.manifest) };
    },
  });
}

export async function value(context: ChangeContext, input: InputOf<typeof valueInput>) {
  const { loss, of } = input;
  const range = loss === 'cross-entropy' ? 'share' : 'any';
  const ready = await prepared(
    context,
    input,
    'value',
    (start, longest) => valuedRows(start, longest, { of, range }),
    'value',
  );
  const { rows, heldOut } = ready;
  const taken = orderOf(
    context,
    input,
    rows.map((row, i) => row.problem ?? String(i)),
  );
  requireRowMemory(input, ready, taken, { tokens: tokensOf });
  const course = { ...courseOf('value', taken, input), loss, heldOut };
  return runTraining(context, input, ready, { ...taken.settings, loss, of: of ?? null }, taken.steps, {
    train: async ({ learner, progress }, watch) => ({
      progress: await trainValueHead(learner.model, rows, course, watch, progress),
    }),
  });
}

export async function reward(context: ChangeContext, input: InputOf<typeof rewardInput>) {
  const ready = await prepared(context, input, 'reward', pairs, 'reward');
  const { rows, heldOut } = ready;
  const taken = orderOf(
    context,
    input,
    rows.map((row) => row.promptIds.join()),
  );
  requireRowMemory(input, ready, taken, { tokens: tokensOfPair, sharedPrompts: true });
  const course = { ...courseOf('reward', taken, input), heldOut };
  return runTraining(context, input, ready, taken.settings, taken.steps, {
    train: async ({ learner, progress }, watch) => ({
      progress: await trainRewardHead(learner.model, rows, course, watch, progress),
    }),
  });
}
