import { describe, expect, it } from 'vitest';
import { type ChosenMethod, chooseMethod } from '../../../store/datasets/chosen-methods.ts';

const judged = (key: string, params: Record<string, unknown>, version = 1): ChosenMethod => ({
  ...{ method_key: key, method: 'grpo_advantage', version, kind: 'credit', params },
});
const choice = (more: object = {}) => ({
  ...{ method: 'grpo_advantage', version: null, params: null, method_key: null },
  ...more,
});

describe('a recipe that names a method', () => {
  const [plain, raw] = [
    judged('grpo_advantage@1#a', { eps: 1e-6, scale_std: true }),
    judged('grpo_advantage@1#b', { eps: 1e-6, scale_std: false }),
  ];

  it('means the only parameters it was judged with', () => {
    expect(chooseMethod([raw], choice(), 'credit')).toBe(raw);
  });

  it('is refused where there are several, with what to write for each of them', () => {
    expect(() => chooseMethod([plain, raw], choice(), 'credit')).toThrow(
      'credit: grpo_advantage was judged with 2 sets of parameters. Write one of: {"method":"grpo_advantage","params":{"scale_std":true}} · {"method":"grpo_advantage","params":{"scale_std":false}}.',
    );
  });

  it('is sent to the judge only where a method has this name', () => {
    const refused = (method: string) => {
      try {
        return chooseMethod([plain], choice({ method }), 'credit');
      } catch (error) {
        return error;
      }
    };
    expect(refused('rloo_advantage')).toMatchObject({
      code: 'not_found',
      message: 'credit: nothing was judged by rloo_advantage yet; judge the episodes first.',
      detail: { hint: '`troupe judge --methods rloo_advantage` does.' },
    });
    expect(refused('grpo_advntage')).toMatchObject({
      code: 'method_unknown',
      message:
        'credit: there is no method named "grpo_advntage". Did you mean grpo_advantage? What was recorded under a name is feedback(grpo_advntage).',
      detail: { field: 'credit', got: '"grpo_advntage"' },
    });
    // A filter names the method by its key, once its methods are pinned.
    expect(refused('rloo_advantage@1#4b624fa9')).toMatchObject({ code: 'not_found' });
  });

  it('means the method with exactly the given parameters', () => {
    expect(chooseMethod([plain, raw], choice({ params: { scale_std: false } }), 'credit')).toBe(raw);
  });

  it('shows the key where one set holds the other, so that no parameter distinguishes them', () => {
    const reading = judged('grpo_advantage@1#c', { ...raw.params, reads: 'cosigned_rewards' });
    expect(() => chooseMethod([raw, reading], choice(), 'credit')).toThrow(
      'Write one of: {"method_key":"grpo_advantage@1#b"} · {"method":"grpo_advantage","params":{"reads":"cosigned_rewards"}}.',
    );
    expect(chooseMethod([raw, reading], choice({ method: null, method_key: 'grpo_advantage@1#b' }), 'credit')).toBe(
      raw,
    );
  });
});
