/** What the operation sample does. */
import { TroupeError } from '../../../errors.ts';
import { openModelForIds } from '../../../trainer/model/model-directory.ts';
import { Policy } from '../../../trainer/sample/policy.ts';
import { checkpointAt } from '../checkpoint-places.ts';
import type { OutputOf, ReadContext } from '../operation.ts';

/** A model, and its policy, which is closed at the end. */
export async function withPolicy<T>(
  { home, settings }: Pick<ReadContext, 'home' | 'settings'>,
  { model: at, threads = settings.threads ?? 1 }: { readonly model: string; readonly threads?: number },
  work: (model: OutputOf<typeof openModelForIds>, policy: Policy) => Promise<T>,
): Promise<T> {
  const model = await openModelForIds(checkpointAt(home, at));
  const policy = await Policy.load(model.config, model.weights, { threads });
  return work(model, policy).finally(() => policy.close());
}

export function sample(
  context: ReadContext,
  input: Parameters<typeof withPolicy>[1] & {
    readonly prompt_ids?: readonly number[];
    readonly prompt?: string;
    readonly stop?: readonly string[];
    readonly n: number;
    readonly seed: number;
    readonly temperature: number;
    readonly max_tokens: number;
    readonly top_k: number;
    readonly top_p: number;
    readonly min_p: number;
  },
) {
  const { prompt_ids, prompt, stop = [], n, seed, temperature } = input;
  if (prompt_ids === undefined && !prompt)
    throw new TroupeError('usage', 'Missing --prompt TEXT or --prompt-ids 1,2,3.', { field: 'prompt' });
  return withPolicy(context, input, async ({ tokenizer, eosIds }, policy) => {
    /** A model may have more ids than its tokenizer has tokens; such an id has no text. */
    const textOf = (ids: readonly number[]) => tokenizer.decode(ids.filter((id) => tokenizer.token(id) !== null));
    /** The text before the first stop, or null where there is none. */
    const untilStop = (text: string): string | null => {
      const ends = stop.map((one) => text.indexOf(one)).filter((end) => end >= 0);
      return ends.length === 0 ? null : text.slice(0, Math.min(...ends));
    };
    const request = {
      ...{ promptIds: prompt_ids ?? tokenizer.encodePrompt(prompt!), n, seed, temperature, stopIds: eosIds },
      ...{ maxTokens: input.max_tokens, topK: input.top_k, topP: input.top_p, minP: input.min_p },
      ...(stop.length === 0 ? {} : { ended: (ids: readonly number[]) => untilStop(textOf(ids)) !== null }),
    };
    const [samples] = await policy.sample([request], { signal: context.signal });
    return {
      samples: samples!.map(({ tokenIds, logprobs }) => {
        const text = textOf(tokenIds);
        return { token_ids: tokenIds, logprobs, text: untilStop(text) ?? text };
      }),
    };
  });
}
