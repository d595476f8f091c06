/** The four graphs of a model: what trains it, what scores tokens, what reads prompts, and what speaks one token more. */
import { gradients } from '../graph/gradient.ts';
import { times, type Value } from '../graph/node.ts';
import { exp, input, logSoftmax, multiply, negate, pick, reshape, softmax, sum } from '../graph/operations.ts';
import type { Loss } from '../losses/loss.ts';
import type { ModelConfig } from '../weights.ts';
import { completionTower, decodeStep, promptTower } from './decoder.ts';
import { head, parameterInputs } from './llama.ts';

export type Outputs = Readonly<Record<string, Value>>;

const N = times('Q', 'n', '(1+S)');

/** A per-token input [Q, n, 1+S] as a column [N, 1]. */
const column = (name: string, type: 'float32' | 'int32' = 'float32'): Value =>
  reshape(input(name, ['Q', 'n', '(1+S)'], type), [N, 1]);

/**
 * Loss and gradients of a batch. Inputs: those of the towers, the parameters, and per token target, weight, old.logprob,
 * entropy.weight. Outputs: loss [], logprobs [N, 1], entropy and keep [N, 1] where the loss has them, and d.<parameter>.
 */
export function trainingGraph(config: ModelConfig, loss: Loss): Outputs {
  const parameters = parameterInputs(config);
  const logits = head(config, parameters, completionTower(config, parameters, promptTower(config, parameters)));
  const all = logSoftmax(logits);
  const logprobs = pick(all, column('target', 'int32'));
  const built = loss.build({
    logprobs,
    entropy: negate(sum(multiply(exp(all), all), [1], true)),
    weights: column('weight'),
    oldLogprobs: column('old.logprob'),
    entropyWeights: column('entropy.weight'),
  });
  const slopes = gradients(
    built.loss,
    parameters.all.map(([, value]) => value),
  );
  return {
    loss: built.loss,
    logprobs,
    ...(built.entropy === null ? {} : { entropy: built.entropy }),
    ...(built.keep === null ? {} : { keep: built.keep }),
    ...Object.fromEntries(parameters.all.map(([name], i) => [`d.${name}`, slopes[i] as Value])),
  };
}

/** Log-probabilities of given tokens, without gradients: logprobs [N, 1]. */
export function scoreGraph(config: ModelConfig): Outputs {
  const parameters = parameterInputs(config);
  const logits = head(config, parameters, completionTower(config, parameters, promptTower(config, parameters)));
  return { logprobs: pick(logSoftmax(logits), column('target', 'int32')) };
}

/** Reads prompts: logits [Q, vocabulary] of the first new token, and prompt.k.<layer>, prompt.v.<layer> [Q, H, P, D]. */
export function prefillGraph(config: ModelConfig): Outputs {
  const parameters = parameterInputs(config);
  const { caches, last } = promptTower(config, parameters);
  const named = caches.flatMap(({ k, v }, i): [string, Value][] => [
    [`prompt.k.${i}`, k],
    [`prompt.v.${i}`, v],
  ]);
  return { probabilities: distribution(head(config, parameters, last), 'Q'), ...Object.fromEntries(named) };
}

/** One token more: probabilities [Q·n, vocabulary], and the new keys and values k.<layer>, v.<layer> [Q·n, H, 1, D]. */
export function decodeGraph(config: ModelConfig): Outputs {
  const parameters = parameterInputs(config);
  const { stream, caches } = decodeStep(config, parameters);
  const named = caches.flatMap(({ k, v }, i): [string, Value][] => [
    [`k.${i}`, k],
    [`v.${i}`, v],
  ]);
  const rows = times('Q', 'n');
  return { probabilities: distribution(head(config, parameters, stream), rows), ...Object.fromEntries(named) };
}

/** Softmax of logits times inverse.temperature [rows]. */
function distribution(logits: Value, rows: string | number): Value {
  return softmax(multiply(logits, reshape(input('inverse.temperature', [rows]), [rows, 1])));
}
