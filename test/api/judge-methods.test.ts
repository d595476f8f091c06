import { describe, expect, it } from 'vitest';
import { parseMethods } from '../../api/operations/judge/methods.ts';
import { shell } from '../cli/support/troupe.ts';

describe('methods in one line', () => {
  it('names, parameters in braces, and whose rewards are read', () => {
    expect(
      parseMethods('grpo_advantage, grpo_advantage{"scale_std":false},floored_advantage{"reads":"cosigned_rewards"}'),
    ).toEqual([
      { method: 'grpo_advantage' },
      { method: 'grpo_advantage', params: { scale_std: false } },
      { method: 'floored_advantage', params: {}, reads: 'cosigned_rewards' },
    ]);
  });

  it('commas and braces inside parameters belong to them', () => {
    expect(parseMethods('a{"x":[1,2],"y":{"z":"},{\\"\\\\"}},b')).toEqual([
      { method: 'a', params: { x: [1, 2], y: { z: '},{"\\' } } },
      { method: 'b' },
    ]);
  });

  it('braces that are not JSON, or never close, are refused with what came', () => {
    for (const text of ['a{x:1}', 'a{"x":1', 'a{"x":1},b{']) {
      expect(() => parseMethods(text)).toThrow(
        expect.objectContaining({ code: 'usage', message: expect.stringMatching(/not JSON/) }),
      );
    }
  });
});

it('a judge of a misspelt, incomplete or unfit method is refused by the name of its setting and the nearest name before anything starts', async () => {
  for (const [judge, why] of [
    ['correctness_filter,grpo_advantages', /TROUPE_JUDGE.*grpo_advantages.*Did you mean grpo_advantage\?/],
    ['grpo_advantage{"x', /TROUPE_JUDGE.*not JSON/],
    ['grpo_advantage{"no_such":1}', /TROUPE_JUDGE.*no_such/],
  ] as const) {
    const at = shell({ DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none', TROUPE_JUDGE: judge });
    const ended = await at.run(['up', '--port', '0']).finally(at.remove);
    expect([ended.code, ended.out, ended.err]).toEqual([2, '', expect.stringMatching(why)]);
  }
});
