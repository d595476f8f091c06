import { describe, expect, it } from 'vitest';
import { parseMethods } from '../../cli/methods-asked.ts';

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
