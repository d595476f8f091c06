import { describe, expect, it } from 'vitest';
import { type Filter, parseFilter } from '../../store/filter/select.ts';
import { withSignal } from '../../trainer/learn/signal.ts';

describe('the share of groups with a signal', () => {
  const role = { steps: 1, signal: 0.5, gradientNorm: 1, entropy: 0, clipShare: 0, tokens: 3 };
  const asked: (Filter | null)[] = [];
  const shareOf = async (where: string | null, before: number | null, all?: number) => {
    const name = `episodes where ${where}`;
    const manifest = {
      recipe: { where: where === null ? null : parseFilter(where) },
      funnel: [{ name, of: 'episodes' as const, before, after: 20, dropped: [] }],
    };
    const count = async (filter: Filter | null) => {
      asked.push(filter);
      return all!;
    };
    const roles = await withSignal({ coder: role }, manifest as never, all === undefined ? undefined : count);
    return roles.coder!.signal;
  };

  it('is that of the dataset where its recipe leaves out none', async () => {
    expect(await shareOf(null, null)).toBe(0.5);
    expect(await shareOf('reward >= 0', 40)).toBe(0.5);
  });

  it('is that of what was played where the recipe left out groups without one', async () => {
    expect(await shareOf('group.signal', 80)).toBe(0.5 / 4);
    expect(await shareOf('tags.rollout = a and group.signal', 1000, 40)).toBe(0.5 / 2);
    expect(asked.at(-1)).toEqual({ and: [{ field: 'tags.rollout', op: '=', value: 'a' }] });
  });

  it('is left out where nobody can count it', async () => {
    expect(await shareOf('group.signal', null)).toBeUndefined();
    expect(await shareOf('tags.rollout = a and group.signal', 1000)).toBeUndefined();
  });
});
