/** What operations on methods do. */
import type { Method } from '../../../store/evaluate/methods/method.ts';
import { runMethod } from '../../../store/evaluate/methods/run.ts';
import { METHOD_EXAMPLES } from './examples.ts';
import { methodNamed } from './named.ts';
import { judgeReads, parametersOf } from './words.ts';

/** A method as lists have it. */
export function described(method: Method) {
  const { name, kind, teams = 'any', source, version, summary, judged } = method;
  const over = judged ? (judged.over ?? (judged.scope ? 'set' : 'groups')) : null;
  return { name, kind, teams, over, reads: judgeReads(method), source, version, summary };
}

export async function show(_: unknown, { method: name }: { readonly method: string }) {
  const method = await methodNamed(name);
  const text = METHOD_EXAMPLES[name];
  const input: unknown = text === undefined ? undefined : JSON.parse(text);
  return {
    ...described(method),
    params: parametersOf(method),
    ...(method.limits === undefined ? {} : { limits: method.limits }),
    input: method.input,
    ...(text === undefined ? {} : { example: { input, output: runMethod(method, input) } }),
  };
}

export const run = async (_: unknown, { method, input }: { readonly method: string; readonly input: object }) => ({
  output: runMethod(await methodNamed(method), input),
});
