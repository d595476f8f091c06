import { expect, it } from 'vitest';
import { parseRecipe } from '../../../store/datasets/recipe.ts';
import { asJudged } from '../../../trainer/loop/plan/round-rows.ts';

const recipe = (more: object) => parseRecipe({ name: 'solver', unit: 'step', ...more });

it('A recipe means the parameters that its plan judges by, and what the method reads', async () => {
  const judge = [
    { method: 'cosigned_rewards', params: { trust: 0.1 } },
    { method: 'grpo_advantage', params: { scale_std: false }, reads: 'cosigned_rewards' },
  ];
  const { credit, reward } = await asJudged(recipe({ credit: 'grpo_advantage', reward: 'cosigned_rewards' }), judge);
  expect(credit).toMatchObject({
    method: 'grpo_advantage',
    params: { scale_std: false, reads: 'cosigned_rewards' },
  });
  expect(reward).toMatchObject({ method: 'cosigned_rewards', params: { trust: 0.1 } });
});

it('Where a plan judges by a method twice, only parameters that are named choose one', async () => {
  const judge = [true, false].map((scale_std) => ({ method: 'grpo_advantage', params: { scale_std } }));
  const unnamed = recipe({ credit: 'grpo_advantage' });
  expect(await asJudged(unnamed, judge)).toEqual(unnamed);
  const named = await asJudged(recipe({ credit: { method: 'grpo_advantage', params: { scale_std: false } } }), judge);
  expect(named.credit?.params).toMatchObject({ scale_std: false });
  expect(Object.keys(named.credit?.params ?? {}).length).toBeGreaterThan(1);
});

it('A method that the plan does not run, and a key, stay as they are written', async () => {
  const foreign = recipe({ credit: 'rloo_advantage', verdicts: [{ method_key: 'grpo_advantage@1#0' }] });
  expect(await asJudged(foreign, [{ method: 'grpo_advantage' }])).toEqual(foreign);
});
